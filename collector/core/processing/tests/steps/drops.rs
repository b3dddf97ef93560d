//! Dropping of objects.

use millrace_processing::{Counts, DropConditions, Outcome, Scratch, Step};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use prost::Message;

use crate::requests::{LIMIT_BYTES, compile, logs, record, run, spans, try_run};

fn drop_step(drop: DropConditions) -> Step {
    Step { drop: Some(drop), ..Step::default() }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn by_severity() -> Vec<LogRecord> {
    (1..=20).map(|severity_number| LogRecord { severity_number, ..record() }).collect()
}

/// Scenario: records below a severity. Guarantee: they go, the others keep their order and bytes,
/// and each condition counts its own.
#[test]
fn records_are_dropped_by_conditions() {
    let rules = compile(vec![drop_step(DropConditions {
        logs: texts(&["severity_number < SEVERITY_NUMBER_INFO", "severity_number == 10"]),
        ..Default::default()
    })]);
    let mut counts = Counts::default();
    let after = try_run(&rules, &logs(by_severity()), &mut counts).unwrap();
    let left: Vec<i32> = after.resource_logs[0].scope_logs[0]
        .log_records
        .iter()
        .map(|record| record.severity_number)
        .collect();
    assert_eq!(left, [9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]);
    assert_eq!(after.resource_logs[0].schema_url, "https://resource");
    assert_eq!((counts.rules[0].dropped, counts.rules[0].dropped_records), (8, 8));
    assert_eq!((counts.rules[1].matched, counts.rules[1].dropped), (1, 1));
}

/// Scenario: all records of a scope, of a resource, of a request. Guarantee: the scope, the
/// resource and the request go with them.
#[test]
fn emptied_groups_are_dropped() {
    let rules = compile(vec![drop_step(DropConditions {
        logs: texts(&["severity_number < 9"]),
        ..Default::default()
    })]);
    let low = || vec![LogRecord { severity_number: 1, ..record() }];
    let mut request = logs(vec![record()]);
    let mut scope = request.resource_logs[0].scope_logs[0].clone();
    scope.log_records = low();
    request.resource_logs[0].scope_logs.push(scope);
    request.resource_logs.extend(logs(low()).resource_logs);
    assert_eq!(run(&rules, &request), logs(vec![record()]));
    let input = logs(low()).encode_to_vec();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let outcome =
        rules.run(Signal::Logs, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut Vec::new());
    assert_eq!(outcome, Ok(Outcome::Emptied));
}

/// Scenario: a resource's condition. Guarantee: its records are counted.
#[test]
fn resources_are_dropped_with_their_records() {
    let rules = compile(vec![drop_step(DropConditions {
        resources: texts(&["attributes[\"service.name\"] == \"shop\""]),
        ..Default::default()
    })]);
    let mut counts = Counts::default();
    let after = try_run(&rules, &logs(by_severity()), &mut counts).unwrap();
    assert!(after.resource_logs.is_empty());
    assert_eq!((counts.rules[0].dropped, counts.rules[0].dropped_records), (1, 20));
}

/// Scenario: conditions on spans and their events. Guarantee: a span without events remains.
#[test]
fn spans_and_events_are_dropped() {
    let rules = compile(vec![drop_step(DropConditions {
        spans: texts(&["name == \"health\""]),
        span_events: texts(&["name == \"noise\""]),
        ..Default::default()
    })]);
    let event = |name: &str| Event { name: name.to_owned(), ..Default::default() };
    let span = |name: &str, events: Vec<Event>| Span {
        name: name.to_owned(),
        events,
        ..Default::default()
    };
    let request = spans(vec![
        span("health", vec![event("noise")]),
        span("work", vec![event("noise"), event("signal"), event("noise")]),
        span("quiet", vec![event("noise")]),
    ]);
    let mut counts = Counts::default();
    let after = try_run(&rules, &request, &mut counts).unwrap();
    assert_eq!(after, spans(vec![span("work", vec![event("signal")]), span("quiet", vec![])]));
    assert_eq!((counts.rules[0].dropped, counts.rules[0].dropped_records), (1, 1));
    assert_eq!((counts.rules[1].dropped, counts.rules[1].dropped_records), (3, 0));
}
