//! Steps that sample requests.

use millrace_processing::sample::{Threshold, TraceState};
use millrace_processing::{
    Config, ContextName, Counts, Outcome, ProcessError, RuleSet, Scratch, Step,
};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use prost::Message;
use serde_json::json;

use crate::requests::{
    LIMIT_BYTES, attribute, compile, find, int, logs, record, resource, run, spans, step, text,
    try_run,
};
use crate::sample::trace_id;

fn sample(config: serde_json::Value) -> Step {
    let sample = serde_json::from_value(config).expect("settings");
    Step { sample: Some(Box::new(sample)), ..Step::default() }
}

fn span(state: &mut u64) -> Span {
    Span { trace_id: trace_id(state).to_vec(), name: "work".to_owned(), ..Default::default() }
}

fn random_spans(count: usize) -> Vec<Span> {
    let mut state = 7;
    (0..count).map(|_| span(&mut state)).collect()
}

fn sampled(rules: &RuleSet, all: Vec<Span>) -> (Vec<Span>, Counts) {
    let mut counts = Counts::default();
    let mut after = try_run(rules, &spans(all), &mut counts).expect("the rules run");
    let spans = after.resource_spans.pop().map_or(Vec::new(), |mut group| {
        group.scope_spans.pop().map_or(Vec::new(), |scope| scope.spans)
    });
    (spans, counts)
}

fn threshold(span: &Span) -> Option<Threshold> {
    TraceState::parse(span.trace_state.as_bytes()).expect("a trace state").threshold()
}

fn log_threshold(record: &LogRecord) -> Option<Threshold> {
    let value = find(record, "sampling.threshold")?.value?;
    match value {
        opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(digits) => {
            Threshold::parse(digits.as_bytes())
        }
        _ => None,
    }
}

/// Scenario: 20,000 spans at a tenth, then a half of those (multiplied), then a fifth of all
/// (equalized).
/// Guarantee: about as many stay; each says at which ratio, so that the sum of adjusted counts is
/// about the number of spans; dropped ones are counted.
#[test]
fn adjusted_counts_sum_to_the_number_of_records() {
    const COUNT: usize = 20_000;
    for (steps, ratio) in [
        (vec![json!({"ratio": 0.1})], 0.1),
        (vec![json!({"ratio": 0.1}), json!({"ratio": 0.5})], 0.05),
        (vec![json!({"ratio": 0.5}), json!({"ratio": 0.2, "mode": "Equalizing"})], 0.2),
        (vec![json!({"ratio": 0.1}), json!({"ratio": 0.2, "mode": "Equalizing"})], 0.1),
    ] {
        let rules = compile(steps.into_iter().map(sample).collect());
        assert_eq!(rules.walks(Signal::Traces), 1);
        let (kept, counts) = sampled(&rules, random_spans(COUNT));
        let expected = COUNT as f64 * ratio;
        let deviation = (kept.len() as f64 - expected).abs();
        assert!(deviation < 5.0 * expected.sqrt(), "{} of {expected}", kept.len());
        let sum: f64 = kept.iter().map(|span| threshold(span).unwrap().adjusted_count()).sum();
        assert!((sum - COUNT as f64).abs() < 5.0 * expected.sqrt() / ratio, "{sum}");
        let dropped: u64 = counts.rules.iter().map(|rule| rule.dropped_records).sum();
        assert_eq!(dropped as usize + kept.len(), COUNT);
    }
}

/// Scenario: spans with trace states of others, of clients that sampled, with explicit randomness,
/// a threshold that the trace id contradicts, a malformed state, and without a trace id.
/// Guarantee: the members of others stay; thresholds are honoured; the new one is written.
#[test]
fn trace_states_are_honoured_and_written() {
    let rules = compile(vec![sample(json!({"ratio": 0.5}))]);
    let cases: [(&str, u8, Option<&str>); 10] = [
        ("", 0xff, Some("ot=th:8")),
        ("", 0x01, None),
        ("a=1,b=2", 0xff, Some("ot=th:8,a=1,b=2")),
        ("a=1,ot=th:8;x:y", 0xff, Some("a=1,ot=th:c;x:y")),
        ("ot=th:8", 0x90, None),
        ("ot=rv:ffffffffffffff", 0x01, Some("ot=rv:ffffffffffffff;th:8")),
        ("ot=rv:00000000000001", 0xff, None),
        ("ot=th:f", 0x90, Some("ot=th:8")),
        ("nonsense", 0xff, Some("ot=th:8")),
        ("a=1", 0x00, Some("a=1")),
    ];
    for (state, byte, expected) in cases {
        // Without a trace id there is no randomness: the span stays and counts once.
        let mut id = vec![0; 16];
        id[9] = byte;
        let input = Span { trace_id: id, trace_state: state.to_owned(), ..Default::default() };
        let (kept, _) = sampled(&rules, vec![input]);
        let found = kept.first().map(|span| span.trace_state.as_str());
        assert_eq!(found, expected, "{state} {byte}");
    }
    let rules = compile(vec![sample(json!({"ratio": 0.5, "missingRandomness": "Drop"}))]);
    assert!(sampled(&rules, vec![Span::default()]).0.is_empty());
}

/// Scenario: conditions that keep, rules by service, namespace and condition, for traces and logs
/// in one step.
/// Guarantee: the first that matches decides; conditions apply to the signal that they name; each
/// rule counts its own records.
#[test]
fn rules_select_the_ratio() {
    let rules = compile(vec![sample(json!({
        "ratio": 0,
        "keep": ["span.status.code == STATUS_CODE_ERROR", "log.severity_number >= 17"],
        "rules": [
            {"name": "probes", "service": "probe*", "ratio": 0},
            {"name": "flagged", "condition": "attributes[\"flag\"] == true", "ratio": 1},
            {"name": "shop", "namespace": "shop", "ratio": 1},
        ],
    }))]);
    assert_eq!((rules.walks(Signal::Traces), rules.walks(Signal::Logs)), (1, 1));
    assert!(!rules.applies_to(Signal::Metrics));
    let group = |service: &str, namespace: &str| {
        let mut request = logs(vec![
            LogRecord { severity_number: 17, ..record() },
            LogRecord {
                attributes: vec![attribute("flag", crate::requests::boolean(true))],
                ..record()
            },
            record(),
        ]);
        request.resource_logs[0].resource = resource(vec![
            attribute("service.name", text(service)),
            attribute("k8s.namespace.name", text(namespace)),
        ]);
        request.resource_logs.remove(0)
    };
    let mut request = logs(vec![]);
    request.resource_logs =
        vec![group("probe-1", "shop"), group("cart", "shop"), group("cart", "other")];
    let mut counts = Counts::default();
    let after = try_run(&rules, &request, &mut counts).unwrap();
    let left: Vec<usize> =
        after.resource_logs.iter().map(|group| group.scope_logs[0].log_records.len()).collect();
    assert_eq!(left, [1, 3, 2]);
    let of = |list: &str, index: usize| {
        let position =
            rules.rules().iter().position(|rule| rule.list == list && rule.index == index);
        counts.rules[position.unwrap()]
    };
    assert_eq!((of("sample.keep", 0).matched, of("sample.keep", 1).matched), (0, 3));
    assert_eq!((of("sample.rules", 0).matched, of("sample.rules", 0).dropped), (2, 2));
    assert_eq!((of("sample.rules", 1).matched, of("sample.rules", 2).matched), (2, 1));
    assert_eq!((of("sample.ratio", 0).dropped, of("sample.ratio", 0).dropped_records), (1, 1));
    // Records that a rule keeps as a whole are as they were.
    assert_eq!(after.resource_logs[1], request.resource_logs[1]);

    let failed = Some(Status { code: 2, ..Default::default() });
    let kept =
        sampled(&rules, vec![Span { status: failed, ..Default::default() }, Span::default()]);
    assert_eq!(kept.0.len(), 1);
}

/// Scenario: log records with a trace id, with an attribute that is hashed, with neither, and
/// that an earlier sampler of ours sampled.
/// Guarantee: the threshold is an attribute, as the Collector writes it; a hash that decided is
/// written too, so that later samplers decide by the same one.
#[test]
fn log_records_carry_threshold_and_randomness() {
    let config = json!({"ratio": 0.25, "logs": {"attribute": "order", "seed": 22}});
    let rules = compile(vec![sample(config)]);
    let mut state = 3;
    let mut all = Vec::new();
    for order in 0..1_000 {
        let attributes = vec![attribute("order", int(order))];
        let plain = LogRecord { trace_id: vec![], ..record() };
        all.push(LogRecord { trace_id: trace_id(&mut state).to_vec(), ..record() });
        all.push(LogRecord { attributes: attributes.clone(), ..plain.clone() });
        all.push(LogRecord { attributes, severity_number: 1, ..plain.clone() });
        all.push(LogRecord { time_unix_nano: order as u64, ..plain });
    }
    let mut after = run(&rules, &logs(all.clone()));
    let kept = std::mem::take(&mut after.resource_logs[0].scope_logs[0].log_records);
    assert!((800..1_200).contains(&kept.len()), "{}", kept.len());
    for record in &kept {
        assert_eq!(log_threshold(record), Threshold::parse(b"c"));
        assert_eq!(find(record, "sampling.randomness").is_some(), record.trace_id.is_empty());
    }
    let by_order = |number: i32| {
        let of = |record: &&LogRecord| {
            record.severity_number == number && find(record, "order").is_some()
        };
        kept.iter().filter(of).map(|record| find(record, "order")).collect::<Vec<_>>()
    };
    assert_eq!(by_order(9), by_order(1));
    // The same ratio again, equalized, changes nothing; a half of it keeps a half.
    let again = compile(vec![sample(json!({"ratio": 0.25, "mode": "Equalizing"}))]);
    let input = logs(kept).encode_to_vec();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let outcome =
        again.run(Signal::Logs, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new());
    assert_eq!(outcome, Ok(Outcome::Unchanged));
}

/// Scenario: conditions that fail, are malformed, name another signal, or fit one signal only.
/// Guarantee: the error mode applies to failures; faults are reported with their position.
#[test]
fn faults_of_conditions_are_reported() {
    let failing = json!({"ratio": 0, "keep": ["Int(body) == 1 and Len(attributes[\"n\"]) == 1"]});
    let failing = Step { signals: vec![millrace_processing::SignalName::Logs], ..sample(failing) };
    let body = || logs(vec![LogRecord { body: Some(text("1")), ..record() }]);
    let mut counts = Counts::default();
    let after = try_run(&compile(vec![failing.clone()]), &body(), &mut counts).unwrap();
    assert!(after.resource_logs.is_empty());
    assert_eq!((counts.rules[0].failed, counts.rules[1].dropped), (1, 1));
    let strict = Step { error_mode: millrace_processing::ErrorMode::Propagate, ..failing };
    let refused = try_run(&compile(vec![strict]), &body(), &mut counts);
    assert!(matches!(refused, Err(ProcessError::Rejected { rule: 0, .. })), "{refused:?}");

    let errors = |signals: serde_json::Value, config: serde_json::Value| {
        let config = json!([{"name": "s", "signals": signals, "sample": config}]);
        let config: Config = serde_json::from_value(config).unwrap();
        RuleSet::compile(&config).unwrap_err().to_string()
    };
    let keep = |condition: &str| json!({"ratio": 0.1, "keep": ["true", condition]});
    for (signals, config, expected) in [
        (json!([]), keep("a =="), "sample.keep[1], line 1, column"),
        (json!([]), keep("severity_number > 1"), "on a span: name the context"),
        (json!(["Logs"]), keep("span.kind == 1"), "no sampled record of the step has a span"),
        (json!([]), keep("metric.name == \"x\""), "no sampled record of the step has a metric"),
        (json!(["Metrics"]), keep("true"), "only traces and logs can be sampled"),
        (json!([]), json!({"ratio": 2}), "sample.ratio: 2 is not a ratio"),
        (
            json!([]),
            json!({"ratio": 1, "rules": [{"name": "a", "condition": "b(", "ratio": 1}]}),
            "sample.rules[0], line 1",
        ),
    ] {
        let found = errors(signals, config);
        assert!(found.contains(expected), "{found}");
    }
}

/// Scenario: a statement before sampling changes what it reads, and one after it reads what it
/// wrote. Guarantee: one walk, in order.
#[test]
fn sampling_shares_the_walk_of_its_neighbours() {
    let rules = compile(vec![
        step(ContextName::Span, &["set(attributes[\"keep\"], true) where name == \"work\""]),
        sample(json!({"ratio": 0.5, "rules": [
            {"name": "kept", "condition": "span.attributes[\"keep\"] == true", "ratio": 1},
        ]})),
        step(ContextName::Span, &["set(attributes[\"state\"], trace_state)"]),
    ]);
    assert_eq!(rules.walks(Signal::Traces), 1);
    let mut id = vec![0; 16];
    id[9] = 0xff;
    let other = Span { trace_id: id, ..Default::default() };
    let (kept, _) = sampled(&rules, vec![random_spans(1).remove(0), other]);
    assert_eq!(kept[0].attributes[1], attribute("state", text("")));
    assert_eq!(kept[1].attributes, [attribute("state", text("ot=th:8"))]);
}
