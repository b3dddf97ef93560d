//! Counters and error modes.

use std::cell::Cell;

use millrace_processing::{ContextName, Counts, ErrorMode, ProcessError, Scratch};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use prost::Message;

use crate::requests::{compile, int, logs, record, step, text, try_run, with_mode};

const STATEMENTS: [&str; 3] = [
    "set(severity_number, 1) where body == \"x\"",
    "set(attributes[\"lower\"], ConvertCase(body, \"lower\"))",
    "set(severity_text, \"done\") where severity_text != \"\"",
];

fn request() -> opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest {
    logs(vec![
        record(),
        LogRecord { body: Some(int(1)), ..record() },
        LogRecord { body: Some(text("x")), severity_text: String::new(), ..record() },
    ])
}

/// Scenario: a rule fails on one record. Guarantee: with `ignore` and `silent` the next rule runs,
/// and counters by rule are exact.
#[test]
fn failures_are_counted_and_the_next_rule_runs() {
    for mode in [ErrorMode::Ignore, ErrorMode::Silent] {
        let rules = compile(vec![with_mode(step(ContextName::Log, &STATEMENTS), mode)]);
        let mut counts = Counts::new(rules.rules().len());
        let after = try_run(&rules, &request(), &mut counts).unwrap();
        let matched: Vec<u64> = counts.rules.iter().map(|rule| rule.matched).collect();
        let failed: Vec<u64> = counts.rules.iter().map(|rule| rule.failed).collect();
        let changed: Vec<u64> = counts.rules.iter().map(|rule| rule.changed).collect();
        assert_eq!((matched, failed), (vec![1, 2, 2], vec![0, 1, 0]));
        assert_eq!(changed, [1, 2, 2]);
        assert_eq!(counts.rules[1].last_error.is_some(), mode == ErrorMode::Ignore);
        let records = &after.resource_logs[0].scope_logs[0].log_records;
        assert_eq!(records[1].severity_text, "done");
        let mut sum = Counts::default();
        sum.add(&counts);
        sum.add(&counts);
        assert_eq!(sum.rules[1].failed, 2);
    }
}

/// Scenario: the same with `propagate`. Guarantee: the request is refused with the rule.
#[test]
fn propagated_failures_refuse_the_request() {
    let rules = compile(vec![with_mode(step(ContextName::Log, &STATEMENTS), ErrorMode::Propagate)]);
    let error = try_run(&rules, &request(), &mut Counts::default()).unwrap_err();
    assert!(matches!(error, ProcessError::Rejected { rule: 1, .. }), "{error:?}");
}

thread_local! {
    /// The time, and how far each reading advances it.
    static CLOCK: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

fn read_clock() -> u64 {
    CLOCK.with(|clock| {
        let (now, step) = clock.get();
        clock.set((now + step, step));
        now
    })
}

/// Scenario: two rules on 20,000 records, by a clock that advances 1 microsecond at each reading,
/// in requests of different lengths. Guarantee: the time of each rule is estimated within a fifth;
/// results and other counters equal those without a clock.
#[test]
fn the_time_of_each_rule_is_estimated_from_some_records() {
    const RECORDS: u64 = 20_000;
    let rules = compile(vec![step(ContextName::Log, &[STATEMENTS[0], STATEMENTS[2]])]);
    let mut scratch = Scratch::with_clock(read_clock);
    CLOCK.set((0, 1_000));
    let (mut timed, mut plain) = (Counts::default(), Counts::default());
    let mut left = RECORDS as usize;
    for length in [1, 61, 500, 3].into_iter().cycle() {
        let length = length.min(left);
        if length == 0 {
            break;
        }
        left -= length;
        let request = logs(vec![record(); length]).encode_to_vec();
        let run = |scratch: &mut Scratch, counts: &mut Counts| {
            let routed = &mut Vec::new();
            rules.run(Signal::Logs, &request, 1 << 20, scratch, counts, routed).unwrap()
        };
        assert_eq!(run(&mut scratch, &mut timed), run(&mut Scratch::default(), &mut plain));
    }
    let truth = (RECORDS * 1_000) as f64;
    for rule in &mut timed.rules {
        let estimate = rule.nanos as f64;
        assert!((estimate / truth - 1.0).abs() < 0.2, "{estimate} of {truth}");
        rule.nanos = 0;
    }
    assert_eq!(timed, plain);
}
