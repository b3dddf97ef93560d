//! The requests and rules that are measured.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};

use millrace_processing::enrich::{
    AttributeValue, EnrichConfig, FindPod, PodAttributes, PodKey, UnlabeledReason,
};
use millrace_processing::redact::{ReadySet, RedactConfig};
use millrace_processing::sample::{LogRandomness, MissingRandomness, Mode, Ratio, SampleConfig};
use millrace_processing::{Config, ContextName, DropConditions, RuleSet, Step};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// The records of one request.
const RECORDS: usize = 1_000;

/// Requests and the rules that run on them.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) signal: Signal,
    pub(crate) request: Vec<u8>,
    pub(crate) records: usize,
    pub(crate) rules: RuleSet,
}

/// The pods of a cluster, by address, behind a lock as in the collector.
pub(crate) struct Pods(RwLock<HashMap<IpAddr, Arc<PodAttributes>>>);

/// The pods that are known.
const PODS: u32 = 10_000;

/// The address of the client.
pub(crate) const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

impl Pods {
    pub(crate) fn new() -> Self {
        let pods = (0..PODS).map(|pod| {
            let (name, uid) = (format!("checkout-6f7c9d8b5d-{pod:05}"), format!("{pod:036x}"));
            let pairs = [
                ("k8s.namespace.name", "shop"),
                ("k8s.pod.name", name.as_str()),
                ("k8s.pod.uid", uid.as_str()),
                ("k8s.node.name", "node-17.region-1.example.com"),
                ("k8s.deployment.name", "checkout"),
                ("k8s.replicaset.name", "checkout-6f7c9d8b5d"),
                ("k8s.pod.label.app", "checkout"),
                ("k8s.pod.label.version", "1.24.7"),
            ];
            let pairs = pairs.map(|(name, value)| (name, AttributeValue::Text(value)));
            let address = IpAddr::V4(Ipv4Addr::from((10 << 24) + pod));
            (address, Arc::new(PodAttributes::encode(&pairs)))
        });
        Self(RwLock::new(pods.collect()))
    }
}

impl FindPod for Pods {
    fn find_pod(&self, key: PodKey<'_>) -> Result<Arc<PodAttributes>, UnlabeledReason> {
        let PodKey::Address(address) = key else { return Err(UnlabeledReason::UnknownPod) };
        let pods = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pods.get(&address).cloned().ok_or(UnlabeledReason::UnknownPod)
    }
}

fn enrich() -> Step {
    let enrich = Some(Box::new(EnrichConfig::default()));
    Step { name: "step".to_owned(), enrich, ..Default::default() }
}

/// Retains the first records of a case.
fn first(case: Case, records: usize) -> Case {
    let mut request = ExportLogsServiceRequest::decode(case.request.as_slice()).unwrap();
    request.resource_logs[0].scope_logs[0].log_records.truncate(records);
    Case { request: request.encode_to_vec(), records, ..case }
}

pub(crate) fn cases() -> Vec<Case> {
    let rename =
        ["set(attributes[\"user.id\"], attributes[\"uid\"])", "delete_key(attributes, \"uid\")"];
    let four = [
        rename[0],
        rename[1],
        "delete_key(attributes, \"thread\")",
        "set(attributes[\"env\"], \"prod\") where attributes[\"zone\"] == \"b\"",
        "truncate_all(attributes, 12)",
    ];
    let unmatched = "set(attributes[\"x\"], 1) where attributes[\"zone\"] == \"never\"";
    let more: Vec<&str> = four.into_iter().chain([unmatched; 10]).collect();
    let spans = [
        "delete_key(attributes, \"net.peer.port\")",
        "delete_key(attributes, \"thread.id\")",
        "set(attributes[\"slow\"], true) where end_time_unix_nano - start_time_unix_nano > 1000000",
    ];
    let log = ContextName::Log;
    vec![
        logs_case("rename-1k", 850, statements(log, &rename)),
        logs_case("rename-300", 130, statements(log, &rename)),
        logs_case("four-300", 130, statements(log, &four)),
        logs_case("four-300-and-10-unmatched", 130, statements(log, &more)),
        logs_case("unmatched-300", 130, statements(log, &[unmatched])),
        logs_case("10-unmatched-300", 130, statements(log, &[unmatched; 10])),
        logs_case("drop-95", 130, drops()),
        spans_case("spans", statements(ContextName::Span, &spans)),
        logs_case("redact-300", 130, redact(RedactConfig::default())),
        logs_case("redact-1k", 850, redact(RedactConfig::default())),
        logs_case("redact-email-300", 130, redact(email())),
        hits(logs_case("redact-300-hits-1", 130, redact(RedactConfig::default()))),
        spans_case("redact-spans", redact(RedactConfig::default())),
        spans_case("sample-spans-50", sample(0.5)),
        spans_case("sample-spans-1", sample(0.01)),
        spans_case("sample-spans-all", sample(1.0)),
        logs_case("sample-logs-50", 130, sample(0.5)),
        logs_case("sample-logs-1", 130, sample(0.01)),
        logs_case("pods-300", 130, enrich()),
        first(logs_case("pods-300-10-records", 130, enrich()), 10),
        first(logs_case("unmatched-300-10-records", 130, statements(log, &[unmatched])), 10),
    ]
}

fn redact(config: RedactConfig) -> Step {
    Step { name: "step".to_owned(), redact: Some(Box::new(config)), ..Default::default() }
}

fn email() -> RedactConfig {
    RedactConfig { sets: Some(vec![ReadySet::Email]), ..Default::default() }
}

/// Plants an address in the body of one record of a hundred.
fn hits(mut case: Case) -> Case {
    let mut request = ExportLogsServiceRequest::decode(case.request.as_slice()).unwrap();
    let records = &mut request.resource_logs[0].scope_logs[0].log_records;
    for record in records.iter_mut().step_by(100) {
        let body = format!("{} anna@example.com {}", "x".repeat(56), "x".repeat(56));
        record.body = Some(AnyValue { value: Some(Value::StringValue(body)) });
    }
    case.request = request.encode_to_vec();
    case
}

fn sample(ratio: f64) -> Step {
    let sample = SampleConfig {
        ratio: Ratio(ratio),
        keep: vec!["resource.attributes[\"keep\"] == true".to_owned()],
        rules: Vec::new(),
        mode: Mode::default(),
        precision: 4,
        missing_randomness: MissingRandomness::default(),
        logs: LogRandomness::default(),
    };
    Step { name: "step".to_owned(), sample: Some(Box::new(sample)), ..Default::default() }
}

fn statements(context: ContextName, statements: &[&str]) -> Step {
    Step {
        name: "step".to_owned(),
        context: Some(context),
        statements: statements.iter().map(|text| (*text).to_owned()).collect(),
        ..Default::default()
    }
}

fn drops() -> Step {
    Step {
        name: "step".to_owned(),
        drop: Some(DropConditions {
            logs: vec!["severity_number < SEVERITY_NUMBER_ERROR".to_owned()],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn compile(step: Step) -> RuleSet {
    RuleSet::compile(&Config { steps: vec![step] }).unwrap()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    let value = AnyValue { value: Some(Value::StringValue(value.to_owned())) };
    KeyValue { key: key.to_owned(), value: Some(value), ..Default::default() }
}

fn resource() -> Option<Resource> {
    let attributes = vec![
        attribute("service.name", "checkout"),
        attribute("k8s.pod.name", "checkout-7d9f4b6c8-x2x4z"),
        attribute("k8s.namespace.name", "shop"),
    ];
    Some(Resource { attributes, ..Default::default() })
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: "logger".to_owned(), ..Default::default() })
}

fn logs_case(name: &'static str, body_bytes: usize, step: Step) -> Case {
    let record = |number: usize| LogRecord {
        time_unix_nano: 1_700_000_000_000_000_000 + number as u64,
        observed_time_unix_nano: 1_700_000_000_000_000_000,
        severity_number: if number.is_multiple_of(20) { 17 } else { 9 },
        severity_text: "INFO".to_owned(),
        body: Some(AnyValue { value: Some(Value::StringValue("x".repeat(body_bytes))) }),
        attributes: vec![
            attribute("zone", if number.is_multiple_of(2) { "a" } else { "b" }),
            attribute("uid", "0123456789abcdef"),
            attribute("thread", "worker-12"),
            attribute("file", "main.rs"),
        ],
        ..Default::default()
    };
    let request = ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: resource(),
            scope_logs: vec![ScopeLogs {
                scope: scope(),
                log_records: (0..RECORDS).map(record).collect(),
                ..Default::default()
            }],
            ..Default::default()
        }],
    };
    let request = request.encode_to_vec();
    Case { name, signal: Signal::Logs, request, records: RECORDS, rules: compile(step) }
}

/// A random-looking id, so that sampling keeps its ratio.
fn trace_id(number: usize) -> Vec<u8> {
    let half = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    [half, half].concat()
}

fn spans_case(name: &'static str, step: Step) -> Case {
    let span = |number: usize| Span {
        trace_id: trace_id(number),
        span_id: vec![number as u8 | 1; 8],
        name: "GET /checkout".to_owned(),
        kind: 2,
        start_time_unix_nano: 1_700_000_000_000_000_000,
        end_time_unix_nano: 1_700_000_000_000_000_000 + (number as u64 % 10) * 200_000,
        attributes: vec![
            attribute("http.method", "GET"),
            attribute("http.route", "/checkout/:id"),
            attribute("net.peer.name", "10.1.2.3"),
            attribute("net.peer.port", "41234"),
            attribute("thread.id", "17"),
            attribute("http.status_code", "200"),
        ],
        ..Default::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: resource(),
            scope_spans: vec![ScopeSpans {
                scope: scope(),
                spans: (0..RECORDS).map(span).collect(),
                ..Default::default()
            }],
            ..Default::default()
        }],
    };
    let request = request.encode_to_vec();
    Case { name, signal: Signal::Traces, request, records: RECORDS, rules: compile(step) }
}
