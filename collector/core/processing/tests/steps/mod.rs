//! The order of steps and contexts.

mod counts;
mod drops;
mod enrich;
mod redact_steps;
mod routes;
mod sample_steps;
mod step_properties;

use millrace_processing::{ContextName, SignalName, Step};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::LogRecord;

use crate::requests::{attribute, compile, int, logs, record, run, step, text};

fn bodies(request: &ExportLogsServiceRequest) -> Vec<Option<String>> {
    let records = request.resource_logs.iter().flat_map(|group| &group.scope_logs);
    records
        .flat_map(|scope| &scope.log_records)
        .map(|record| record.body.as_ref().map(|body| format!("{body:?}")))
        .collect()
}

fn two() -> ExportLogsServiceRequest {
    logs(vec![record(), LogRecord { severity_number: 17, ..record() }])
}

/// Scenario: statements that write times of logs, and that only read them. Guarantee: the set states
/// for which signals records may get other times.
#[test]
fn sets_that_write_times_are_recognised() {
    for (statement, expected) in [
        ("set(time_unix_nano, 5)", true),
        ("set(time, observed_time)", true),
        ("set(observed_time, time) where body == nil", true),
        ("set(attributes[\"at\"], time_unix_nano)", false),
        ("set(severity_number, 5)", false),
    ] {
        let rules = compile(vec![step(ContextName::Log, &[statement])]);
        assert_eq!(rules.writes_times(Signal::Logs), expected, "{statement}");
        assert!(!rules.writes_times(Signal::Traces));
    }
    let points = compile(vec![step(ContextName::DataPoint, &["set(time_unix_nano, 5)"])]);
    assert!(points.writes_times(Signal::Metrics));
}

/// Scenario: a log statement writes to its resource. Guarantee: following records see it, a later
/// step sees the last value, and the resource is written once.
#[test]
fn writes_to_outer_objects_are_seen_by_following_records() {
    let rules = compile(vec![
        step(
            ContextName::Log,
            &[
                "set(attributes[\"before\"], resource.attributes[\"count\"])",
                "set(resource.attributes[\"count\"], severity_number)",
                "set(scope.name, severity_text)",
                "set(resource.schema_url, \"https://new\")",
            ],
        ),
        step(ContextName::Log, &["set(body, resource.attributes[\"count\"])"]),
    ]);
    assert_eq!(rules.walks(Signal::Logs), 2);
    let after = run(&rules, &two());
    let group = &after.resource_logs[0];
    assert_eq!(group.schema_url, "https://new");
    assert_eq!(
        group.resource.as_ref().unwrap().attributes,
        [attribute("service.name", text("shop")), attribute("count", int(17)),]
    );
    let scope = &group.scope_logs[0];
    assert_eq!(scope.scope.as_ref().unwrap().name, "INFO");
    assert_eq!(scope.schema_url, "https://scope");
    assert_eq!(scope.log_records[0].attributes[7], attribute("before", Default::default()));
    assert_eq!(scope.log_records[1].attributes[7], attribute("before", int(9)));
    assert_eq!(scope.log_records[0].body, Some(int(17)));
}

/// Scenario: steps on inner objects before steps on outer ones. Guarantee: each step sees the
/// result of the one before; steps in the order of a walk share it.
#[test]
fn steps_take_effect_in_their_order() {
    let outer = || step(ContextName::Resource, &["set(attributes[\"service.name\"], \"new\")"]);
    let inner = || step(ContextName::Log, &["set(body, resource.attributes[\"service.name\"])"]);
    let rules = compile(vec![outer(), inner()]);
    assert_eq!(rules.walks(Signal::Logs), 1);
    assert!(bodies(&run(&rules, &two()))[0].as_ref().unwrap().contains("new"));
    let rules = compile(vec![inner(), outer()]);
    assert_eq!(rules.walks(Signal::Logs), 2);
    assert!(bodies(&run(&rules, &two()))[0].as_ref().unwrap().contains("shop"));
}

/// Scenario: a resource step on some signals. Guarantee: the others aren't read at all.
#[test]
fn steps_apply_to_their_signals() {
    let outer = step(ContextName::Resource, &["set(attributes[\"x\"], 1)"]);
    let rules = compile(vec![Step { signals: vec![SignalName::Logs], ..outer.clone() }]);
    assert!(rules.applies_to(Signal::Logs) && !rules.applies_to(Signal::Traces));
    let rules = compile(vec![outer]);
    assert!(Signal::ALL.into_iter().all(|signal| rules.applies_to(signal)));
}

/// Scenario: a step without a context. Guarantee: it is the innermost one that a path names.
#[test]
fn contexts_are_inferred_from_paths() {
    let inferred = Step {
        context: None,
        ..step(
            ContextName::Log,
            &["set(resource.attributes[\"x\"], 1)", "set(log.body, resource.attributes[\"x\"])"],
        )
    };
    let after = run(&compile(vec![inferred]), &two());
    assert!(bodies(&after)[1].as_ref().unwrap().contains("IntValue(1)"));
}

/// Scenario: a request without a resource or scope. Guarantee: statements create them.
#[test]
fn absent_resources_and_scopes_are_created() {
    let mut request = two();
    request.resource_logs[0].resource = None;
    request.resource_logs[0].scope_logs[0].scope = None;
    let rules = compile(vec![
        step(ContextName::Resource, &["set(attributes[\"x\"], 1) where attributes[\"x\"] == nil"]),
        step(ContextName::Scope, &["set(name, \"made\")"]),
    ]);
    let after = run(&rules, &request);
    let group = &after.resource_logs[0];
    assert_eq!(group.resource.as_ref().unwrap().attributes, [attribute("x", int(1))]);
    assert_eq!(group.scope_logs[0].scope.as_ref().unwrap().name, "made");
    assert_eq!(group.schema_url, "https://resource");
    assert_eq!(group.scope_logs[0].log_records.len(), 2);
}
