//! Requests for tests, written and read by the reference library.

use millrace_processing::{
    Config, ContextName, Counts, ErrorMode, Outcome, ProcessError, RuleSet, Scratch, Step,
};
use millrace_wire::limits::WireLimits;
use millrace_wire::{Signal, otlp};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// The longest output in tests that don't test limits.
pub(crate) const LIMIT_BYTES: usize = 16 << 20;

pub(crate) fn text(text: &str) -> AnyValue {
    AnyValue { value: Some(Value::StringValue(text.to_owned())) }
}

pub(crate) fn int(number: i64) -> AnyValue {
    AnyValue { value: Some(Value::IntValue(number)) }
}

pub(crate) fn double(number: f64) -> AnyValue {
    AnyValue { value: Some(Value::DoubleValue(number)) }
}

pub(crate) fn boolean(truth: bool) -> AnyValue {
    AnyValue { value: Some(Value::BoolValue(truth)) }
}

pub(crate) fn bytes(bytes: &[u8]) -> AnyValue {
    AnyValue { value: Some(Value::BytesValue(bytes.to_vec())) }
}

pub(crate) fn list(values: Vec<AnyValue>) -> AnyValue {
    AnyValue { value: Some(Value::ArrayValue(ArrayValue { values })) }
}

pub(crate) fn map(values: Vec<KeyValue>) -> AnyValue {
    AnyValue { value: Some(Value::KvlistValue(KeyValueList { values })) }
}

/// Returns an attribute. An empty value is absent, as rules write it.
pub(crate) fn attribute(key: &str, value: AnyValue) -> KeyValue {
    let value = (value != AnyValue::default()).then_some(value);
    KeyValue { key: key.to_owned(), value, ..Default::default() }
}

pub(crate) fn resource(attributes: Vec<KeyValue>) -> Option<Resource> {
    Some(Resource { attributes, ..Default::default() })
}

pub(crate) fn scope(name: &str) -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: name.to_owned(), ..Default::default() })
}

/// The record of most tests.
pub(crate) fn record() -> LogRecord {
    LogRecord {
        time_unix_nano: 1_700_000_000_123_456_789,
        observed_time_unix_nano: 1_700_000_001_000_000_000,
        severity_number: 9,
        severity_text: "INFO".to_owned(),
        body: Some(text("Hello, World 42")),
        attributes: vec![
            attribute("a", text("one")),
            attribute("n", int(7)),
            attribute("d", double(1.5)),
            attribute("t", boolean(true)),
            attribute("b", bytes(&[1, 0xab])),
            attribute("l", list(vec![text("x"), int(2)])),
            attribute(
                "m",
                map(vec![
                    attribute("k", text("v")),
                    attribute("inner", map(vec![attribute("z", int(1))])),
                ]),
            ),
        ],
        flags: 1,
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        event_name: "event".to_owned(),
        ..Default::default()
    }
}

/// Returns a request of one resource and scope.
pub(crate) fn logs(records: Vec<LogRecord>) -> ExportLogsServiceRequest {
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: resource(vec![attribute("service.name", text("shop"))]),
            scope_logs: vec![ScopeLogs {
                scope: scope("library"),
                log_records: records,
                schema_url: "https://scope".to_owned(),
            }],
            schema_url: "https://resource".to_owned(),
        }],
    }
}

/// Returns a request of one resource and scope.
pub(crate) fn spans(spans: Vec<Span>) -> ExportTraceServiceRequest {
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: resource(vec![attribute("service.name", text("shop"))]),
            scope_spans: vec![ScopeSpans { scope: scope("library"), spans, ..Default::default() }],
            ..Default::default()
        }],
    }
}

/// Returns a step of statements.
pub(crate) fn step(context: ContextName, statements: &[&str]) -> Step {
    Step {
        name: statements.join("; "),
        context: Some(context),
        statements: statements.iter().map(|text| (*text).to_owned()).collect(),
        ..Default::default()
    }
}

/// Compiles steps; their names need not differ.
pub(crate) fn compile(steps: Vec<Step>) -> RuleSet {
    let number = |(position, step): (usize, Step)| Step { name: format!("{position}"), ..step };
    let config = Config { steps: steps.into_iter().enumerate().map(number).collect() };
    RuleSet::compile(&config).unwrap_or_else(|errors| panic!("{errors}"))
}

/// A request that rules run on.
pub(crate) trait Request: Message + Default + Clone + PartialEq + std::fmt::Debug {
    const SIGNAL: Signal;
}

impl Request for ExportLogsServiceRequest {
    const SIGNAL: Signal = Signal::Logs;
}

impl Request for ExportTraceServiceRequest {
    const SIGNAL: Signal = Signal::Traces;
}

impl Request for ExportMetricsServiceRequest {
    const SIGNAL: Signal = Signal::Metrics;
}

/// Runs rules. The output has to pass the check that every reader runs.
pub(crate) fn try_run<R: Request>(
    rules: &RuleSet,
    request: &R,
    counts: &mut Counts,
) -> Result<R, ProcessError> {
    let input = request.encode_to_vec();
    let mut scratch = Scratch::default();
    let output =
        match rules.run(R::SIGNAL, &input, LIMIT_BYTES, &mut scratch, counts, &mut Vec::new())? {
            Outcome::Unchanged => input,
            Outcome::Changed(output) => output,
            Outcome::Emptied => Vec::new(),
        };
    if let Err(error) = otlp::check_request(R::SIGNAL, &output, &WireLimits::default()) {
        panic!("{error}");
    }
    Ok(R::decode(output.as_slice()).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) fn run<R: Request>(rules: &RuleSet, request: &R) -> R {
    try_run(rules, request, &mut Counts::default()).expect("the rules run")
}

/// Runs statements on one log record: returns it and the last failure.
pub(crate) fn run_on(record: LogRecord, statements: &[&str]) -> (LogRecord, Option<String>) {
    let rules = compile(vec![step(ContextName::Log, statements)]);
    let mut counts = Counts::default();
    let mut output = try_run(&rules, &logs(vec![record]), &mut counts).expect("the rules run");
    let record = output.resource_logs[0].scope_logs[0].log_records.remove(0);
    let error = counts.rules.iter().filter_map(|rule| rule.last_error).next_back();
    (record, error.map(|error| error.to_string()))
}

/// Returns a record's attribute.
pub(crate) fn find(record: &LogRecord, key: &str) -> Option<AnyValue> {
    let found = record.attributes.iter().find(|attribute| attribute.key == key);
    found.map(|attribute| attribute.value.clone().unwrap_or_default())
}

/// Computes a value on a log record: `Err` if the rule failed, `Ok(None)` if the value is nil.
pub(crate) fn compute(value: &str) -> Result<Option<AnyValue>, String> {
    let statement = format!("set(attributes[\"result\"], {value})");
    let (record, error) = run_on(record(), &[&statement]);
    match error {
        Some(error) => Err(error),
        None => Ok(find(&record, "result")),
    }
}

/// Tests a condition on a log record.
pub(crate) fn test(condition: &str) -> Result<bool, String> {
    let statement = format!("set(attributes[\"result\"], true) where {condition}");
    let (record, error) = run_on(record(), &[&statement]);
    match error {
        Some(error) => Err(error),
        None => Ok(find(&record, "result").is_some()),
    }
}

/// Returns steps with an error mode.
pub(crate) fn with_mode(step: Step, error_mode: ErrorMode) -> Step {
    Step { error_mode, ..step }
}
