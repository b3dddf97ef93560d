//! Limits on the output.

use millrace_processing::{ContextName, Counts, Outcome, Scratch};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;

use crate::requests::{attribute, compile, int, logs, map, record, step, text, try_run};

/// Scenario: statements that double a body sixty times. Guarantee: the record is left as it was and
/// counted; the output stays within the limit.
#[test]
fn growing_records_are_left_as_they_were() {
    let statements = vec!["set(body, Concat([body, body, body], \"\"))"; 60];
    let rules = compile(vec![step(ContextName::Log, &statements)]);
    let request = logs(vec![record(), LogRecord { body: Some(text("")), ..record() }]);
    let input = request.encode_to_vec();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let limit_bytes = 64 * 1024;
    let outcome = rules
        .run(Signal::Logs, &input, limit_bytes, &mut scratch, &mut counts, &mut Vec::new())
        .unwrap();
    assert_eq!(counts.over_limit, 1);
    if let Outcome::Changed(output) = outcome {
        assert!(output.len() <= limit_bytes);
        let records = logs(vec![]);
        assert_ne!(records.encode_to_vec(), output);
    }
}

/// Scenario: many records that each grow a little. Guarantee: the output stays within the limit,
/// and records beyond it are left as they were.
#[test]
fn output_stays_within_the_limit() {
    let rules = compile(vec![step(
        ContextName::Log,
        &["set(attributes[\"copy\"], Concat([body, body, body, body], \" \"))"],
    )]);
    let request = logs(vec![record(); 200]);
    let input = request.encode_to_vec();
    for extra in [0, 10, 100, 1_000, 5_000, 100_000] {
        let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
        let limit_bytes = input.len() + extra;
        let outcome = rules.run(
            Signal::Logs,
            &input,
            limit_bytes,
            &mut scratch,
            &mut counts,
            &mut Vec::new(),
        );
        let changed = match outcome.unwrap() {
            Outcome::Changed(output) => {
                assert!(output.len() <= limit_bytes, "{extra}: {}", output.len());
                output.len() - input.len()
            }
            _ => 0,
        };
        assert_eq!(counts.over_limit == 0, extra == 100_000, "{extra}: {changed}");
    }
}

/// Scenario: values nested deeper by each statement, and more attributes than readers accept.
/// Guarantee: the record is left as it was; the output passes the check.
#[test]
fn deep_and_wide_records_are_left_as_they_were() {
    let deeper = vec!["set(attributes[\"m\"], {\"m\": attributes[\"m\"]})"; 40];
    let rules = compile(vec![step(ContextName::Log, &deeper)]);
    let request = logs(vec![record()]);
    let mut counts = Counts::default();
    assert_eq!(try_run(&rules, &request, &mut counts).unwrap(), request);
    assert_eq!(counts.over_limit, 1);
    let few = compile(vec![step(ContextName::Log, &deeper[..20])]);
    assert_ne!(try_run(&few, &request, &mut Counts::default()).unwrap(), request);

    let members = |count: i64| {
        let member = |number: i64| attribute(&format!("k{number}"), int(number));
        LogRecord { body: Some(map((0..count).map(member).collect())), ..record() }
    };
    let rules =
        compile(vec![step(ContextName::Log, &["merge_maps(attributes, body, \"upsert\")"])]);
    let request = logs(vec![members(100), members(16_380)]);
    let mut counts = Counts::default();
    let after = try_run(&rules, &request, &mut counts).unwrap();
    let records = &after.resource_logs[0].scope_logs[0].log_records;
    assert_eq!((records[0].attributes.len(), records[1].attributes.len()), (107, 7));
    assert_eq!(counts.over_limit, 1);
}

/// Scenario: a statement makes a long text for each record, and the limit is just above the output.
/// Guarantee: texts that aren't part of the output don't count.
#[test]
fn values_that_are_not_stored_do_not_count() {
    let rules = compile(vec![step(
        ContextName::Log,
        &[
            "set(severity_text, \"x\") where Concat([body, body, body, body], \"\") == \"y\"",
            "set(body, Concat([body, severity_text], \"\"))",
        ],
    )]);
    let request = logs(vec![LogRecord { body: Some(text(&"b".repeat(1_000))), ..record() }; 500]);
    let input = request.encode_to_vec();
    let (mut scratch, mut counts) = (Scratch::default(), Counts::default());
    let limit_bytes = input.len() + 500 * 10;
    let outcome =
        rules.run(Signal::Logs, &input, limit_bytes, &mut scratch, &mut counts, &mut Vec::new());
    assert!(matches!(outcome, Ok(Outcome::Changed(_))));
    assert_eq!(counts.over_limit, 0);
}
