//! Steps that send records to another topic.

use millrace_processing::{
    Config, Counts, Outcome, RouteConfig, RoutedRequest, RuleSet, Scratch, Step,
};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use proptest::prelude::*;
use prost::Message;
use serde_json::json;

use crate::properties::{records, request};
use crate::requests::{LIMIT_BYTES, compile, logs, record, spans};

fn route_step(name: &str, to: &str, logs: &[&str]) -> Step {
    let logs = logs.iter().map(|text| (*text).to_owned()).collect();
    let route = Some(RouteConfig { topic: to.to_owned(), logs, ..RouteConfig::default() });
    Step { name: name.to_owned(), route, ..Step::default() }
}

/// Returns what is left and what is routed, by topic.
fn divide(
    rules: &RuleSet,
    request: &ExportLogsServiceRequest,
    counts: &mut Counts,
) -> (ExportLogsServiceRequest, Vec<(String, ExportLogsServiceRequest)>) {
    let input = request.encode_to_vec();
    let (mut scratch, mut routed) = (Scratch::default(), Vec::new());
    let outcome = rules.run(Signal::Logs, &input, LIMIT_BYTES, &mut scratch, counts, &mut routed);
    let left = match outcome.unwrap() {
        Outcome::Unchanged => input.clone(),
        Outcome::Changed(output) => output,
        Outcome::Emptied => Vec::new(),
    };
    let decode = |bytes: &[u8]| {
        assert!(otlp::check_request(Signal::Logs, bytes, &WireLimits::default()).is_ok());
        ExportLogsServiceRequest::decode(bytes).unwrap()
    };
    let routed = routed.iter().map(|RoutedRequest { route, bytes }| {
        assert!(bytes.len() <= input.len(), "a part is longer than the request");
        (rules.route_topics()[*route].topic.clone(), decode(bytes))
    });
    (decode(&left), routed.collect())
}

fn severities(request: &ExportLogsServiceRequest) -> Vec<i32> {
    let scopes = request.resource_logs.iter().flat_map(|group| &group.scope_logs);
    scopes.flat_map(|scope| &scope.log_records).map(|record| record.severity_number).collect()
}

/// Scenario: two routes, a statement before and one after them. Guarantee: each record is in one
/// request, with its resource and scope; the first route that matches has it; statements before a
/// route apply to it, those after it don't; each condition counts its records.
#[test]
fn records_go_to_the_first_route_that_matches() {
    let set = |value: &str| Step {
        statements: vec![format!("set(log.attributes[\"step\"], \"{value}\")")],
        name: value.to_owned(),
        ..Step::default()
    };
    let rules = compile(vec![
        set("before"),
        route_step("low", "debug", &["severity_number < 3", "severity_number == 4"]),
        route_step("mid", "audit-2", &["severity_number < 6"]),
        set("after"),
    ]);
    let topics: Vec<&str> = rules.route_topics().iter().map(|it| it.topic.as_str()).collect();
    assert_eq!(topics, ["debug", "audit-2"]);
    assert_eq!((rules.count_routes(Signal::Logs), rules.count_routes(Signal::Traces)), (2, 0));
    let all =
        logs((1..=8).map(|number| LogRecord { severity_number: number, ..record() }).collect());
    let mut counts = Counts::default();
    let (left, routed) = divide(&rules, &all, &mut counts);
    assert_eq!(severities(&left), [6, 7, 8]);
    let names: Vec<_> = routed.iter().map(|(to, part)| (to.as_str(), severities(part))).collect();
    assert_eq!(names, [("debug", vec![1, 2, 4]), ("audit-2", vec![3, 5])]);
    for (part, step) in [(&left, "after"), (&routed[0].1, "before"), (&routed[1].1, "before")] {
        let group = &part.resource_logs[0];
        assert_eq!(group.resource, all.resource_logs[0].resource);
        assert_eq!(group.scope_logs[0].scope, all.resource_logs[0].scope_logs[0].scope);
        for record in &group.scope_logs[0].log_records {
            let text = format!("{:?}", record.attributes.last());
            assert!(text.contains(step), "{text}");
        }
    }
    let counted: Vec<_> = counts.rules.iter().map(|rule| rule.routed_records).collect();
    assert_eq!(counted, [0, 2, 1, 2, 0]);
    assert!(counts.rules.iter().all(|rule| rule.dropped_records == 0));
}

/// Scenario: all records of a request match; none does. Guarantee: the routed request has the same
/// bytes and nothing is left; nothing is routed and the request is unchanged.
#[test]
fn a_request_is_routed_or_left_as_it_is() {
    let rules = compile(vec![route_step("r", "other", &["severity_number > 5"])]);
    for (number, is_routed) in [(9, true), (1, false)] {
        let record = LogRecord { severity_number: number, ..record() };
        let input = logs(vec![record.clone(), record]).encode_to_vec();
        let (mut scratch, mut counts, mut routed) =
            (Scratch::default(), Counts::default(), Vec::new());
        let outcome = rules
            .run(Signal::Logs, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut routed)
            .unwrap();
        let expected = if is_routed { Outcome::Emptied } else { Outcome::Unchanged };
        assert_eq!(outcome, expected);
        let part = RoutedRequest { route: 0, bytes: input };
        assert_eq!(routed, if is_routed { vec![part] } else { vec![] });
    }
}

/// Scenario: a condition that fails on some records. Guarantee: these are left, and nothing is
/// lost; with `Propagate` the request is refused.
#[test]
fn a_failing_condition_routes_nothing() {
    let condition = "ParseJSON(body)[\"a\"] == 1";
    let rules = compile(vec![route_step("r", "other", &[condition])]);
    let with_body = |text: &str| LogRecord { body: Some(crate::requests::text(text)), ..record() };
    let all = logs(vec![with_body("{"), with_body("{\"a\": 1}"), with_body("{\"a\": 2}")]);
    let mut counts = Counts::default();
    let (left, routed) = divide(&rules, &all, &mut counts);
    assert_eq!((records(&left).len(), records(&routed[0].1).len()), (2, 1));
    assert_eq!((counts.rules[0].failed, counts.rules[0].routed_records), (1, 1));
}

/// Scenario: spans and metrics by the same step. Guarantee: each signal has its own conditions, and
/// a signal without one isn't touched.
#[test]
fn each_signal_has_its_conditions() {
    let route: RouteConfig =
        serde_json::from_value(json!({"topic": "x", "spans": ["name != \"\""]})).unwrap();
    let rules = compile(vec![Step { route: Some(route), ..Step::default() }]);
    assert!(rules.applies_to(Signal::Traces) && !rules.applies_to(Signal::Logs));
    let input = spans(vec![Span { name: "x".to_owned(), ..Span::default() }]).encode_to_vec();
    let (mut scratch, mut routed) = (Scratch::default(), Vec::new());
    let mut counts = Counts::default();
    let outcome =
        rules.run(Signal::Traces, &input, LIMIT_BYTES, &mut scratch, &mut counts, &mut routed);
    assert_eq!((outcome, routed.len()), (Ok(Outcome::Emptied), 1));
}

/// Scenario: too many topics, no condition, conditions of two signals, a topic of two signals, a
/// faulty condition. Guarantee: each is refused with its field.
#[test]
fn faulty_routes_are_refused_by_field() {
    let message = |steps: Vec<Step>| RuleSet::compile(&Config { steps }).unwrap_err().to_string();
    let of = |name: &str, route: serde_json::Value| Step {
        name: name.to_owned(),
        route: Some(serde_json::from_value(route).unwrap()),
        ..Step::default()
    };
    let many = (0..17).map(|at| route_step(&format!("r{at}"), &format!("d{at}"), &["true"]));
    assert!(message(many.collect()).contains("more than 16 topics"));
    for route in [json!({"topic": "a"}), json!({"topic": "a", "logs": ["true"], "spans": ["true"]})]
    {
        let text = message(vec![of("r", route)]);
        assert!(text.contains("one of logs, spans and metrics"), "{text}");
    }
    let spans = of("s", json!({"topic": "a", "spans": ["true"]}));
    let text = message(vec![route_step("r", "a", &["true"]), spans]);
    assert!(text.contains("route.topic") && text.contains("holds logs"), "{text}");
    assert!(message(vec![route_step("r", "a", &["bogus == 1"])]).contains("route.logs[0]"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Scenario: any request, two routes. Guarantee: left and routed records together are the
    /// request's, each once, each part passes the check and is no longer than the request.
    #[test]
    fn routes_divide_a_request(request in request(), severity in 0..25) {
        let first = format!("severity_number > {severity}");
        let rules = compile(vec![
            route_step("one", "a", &[&first]),
            route_step("two", "b", &["attributes[\"a\"] != nil"]),
        ]);
        let (left, routed) = divide(&rules, &request, &mut Counts::default());
        let mut found = records(&left);
        routed.iter().for_each(|(_, part)| found.extend(records(part)));
        let mut expected = records(&request);
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
        let above = severities(&left).into_iter().filter(|number| *number > severity).count();
        prop_assert_eq!(above, 0);
    }
}
