//! What reaches the exporter, and that the sums of records agree.

use millrace_pipeline::publish::PublishError;
use millrace_wire::Signal;
use serde_json::{Value, json};

use crate::rig::{Rig, logs, record, rename_and_drop, steps};

/// Scenario: requests that are changed, emptied, and of a signal without rules. Guarantee: the
/// exporter gets the records that the rules leave, with an exact outline and reservation; an
/// emptied request is confirmed; the same bytes pass on where no rule applies; records in are out
/// or dropped; nothing stays reserved.
#[test]
fn records_are_passed_on_or_dropped_and_counted() {
    let rig = Rig::new(&rename_and_drop());
    let mixed = logs(vec![record(5, "old", "a"), record(9, "old", "b"), record(17, "x", "c")]);
    rig.publish(Signal::Logs, &mixed).unwrap();
    rig.publish(Signal::Logs, &logs(vec![record(1, "old", "d"), record(2, "old", "e")])).unwrap();
    let untouched = logs(vec![record(9, "x", "f")]);
    rig.publish_own(Signal::Logs, &untouched).unwrap();
    rig.publish(Signal::Traces, b"").unwrap();
    let keys: Vec<String> =
        rig.received().into_iter().map(|record| record.attributes[0].key.clone()).collect();
    assert_eq!(keys, ["new", "x", "x"]);
    {
        let requests = rig.recorder.requests.lock().unwrap();
        let records: Vec<u64> = requests.iter().map(|(_, _, records)| *records).collect();
        assert_eq!(records, [2, 1, 0]);
        assert_eq!(requests[1].1, untouched);
    }
    let dropped = rig.metric("millrace_records_dropped_total", &["signal=\"logs\""]);
    assert_eq!(dropped, 3.0);
    let quiet = ["step=\"quiet\"", "rule=\"drop.logs[0]\""];
    assert_eq!(rig.metric("millrace_records_dropped_total", &quiet), 3.0);
    let rename = ["step=\"rename\"", "rule=\"statements[0]\""];
    assert_eq!(rig.metric("millrace_rule_changed_total", &rename), 4.0);
    assert!(rig.metric("millrace_rules_seconds_total", &["signal=\"logs\""]) > 0.0);
    assert_eq!(rig.budget.used_bytes(), 0);
    let page: Value = serde_json::from_str(&rig.rules.render_json()).unwrap();
    assert_eq!(page["rules"][2]["step"], "quiet");
    assert_eq!(page["rules"][2]["signals"]["logs"]["droppedRecords"], 3);
    assert_eq!(page["rules"][0]["text"].as_str().unwrap().find("set("), Some(0));
    assert!(page["rules"][0]["signals"].get("traces").is_none());
}

/// Scenario: requests of a thousand records, one of them refused by the exporter. Guarantee: each
/// rule has an estimated time, which metrics and page state.
#[test]
fn the_time_of_each_rule_is_estimated() {
    let rig = Rig::new(&rename_and_drop());
    let request = logs(vec![record(9, "old", "a"); 1_000]);
    for _ in 0..20 {
        rig.publish(Signal::Logs, &request).unwrap();
    }
    *rig.recorder.refusal.lock().unwrap() = Some(PublishError::Full);
    assert!(rig.publish(Signal::Logs, &request).is_err());
    let seconds = |step: &str| rig.metric("millrace_rule_seconds_total", &[step, "logs"]);
    let (rename, quiet) = (seconds("step=\"rename\""), seconds("step=\"quiet\""));
    assert!(rename > 0.0, "{rename}");
    let page: Value = serde_json::from_str(&rig.rules.render_json()).unwrap();
    let of_rules: f64 = page["rules"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|rule| rule["signals"]["logs"]["seconds"].as_f64())
        .sum();
    assert!((of_rules - rename - quiet).abs() < 1e-6, "{of_rules}");
}

/// Scenario: the exporter refuses a request, which its client sends again. Guarantee: what the
/// rules did counts once, when the request is accepted; both attempts give the same bytes.
#[test]
fn a_refused_request_counts_when_it_is_accepted() {
    let rig = Rig::new(&rename_and_drop());
    let request = logs(vec![record(5, "old", "a"), record(9, "old", "b")]);
    *rig.recorder.refusal.lock().unwrap() = Some(PublishError::Full);
    assert_eq!(rig.publish(Signal::Logs, &request), Err(PublishError::Full));
    assert_eq!(rig.metric("millrace_records_dropped_total", &[]), 0.0);
    *rig.recorder.refusal.lock().unwrap() = None;
    rig.publish(Signal::Logs, &request).unwrap();
    rig.publish(Signal::Logs, &request).unwrap();
    assert_eq!(rig.metric("millrace_records_dropped_total", &[]), 2.0);
    let requests = rig.recorder.requests.lock().unwrap();
    assert_eq!(requests[0].1, requests[1].1);
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: a rule fails on one of two records, by each error mode, from a client and from a
/// source without one. Guarantee: `Ignore` passes the record on and counts; `Propagate` refuses the
/// client's request for good with the rule's name, and for a source without a client counts the
/// records as refused and continues.
#[test]
fn a_failing_rule_follows_its_error_mode() {
    let config = |mode: &str| {
        steps(json!([{"name": "parse", "context": "log", "errorMode": mode, "statements": [
            "set(attributes[\"a\"], ParseJSON(body)[\"a\"]) where severity_number > 9",
        ]}]))
    };
    let request = logs(vec![record(9, "x", "a"), record(17, "x", "b")]);
    let failed = ["step=\"parse\"", "rule=\"statements[0]\"", "signal=\"logs\""];
    for mode in ["Ignore", "Silent"] {
        let rig = Rig::new(&config(mode));
        rig.publish(Signal::Logs, &request).unwrap();
        assert_eq!(rig.received().len(), 2);
        assert_eq!(rig.metric("millrace_rule_failed_total", &failed), 1.0);
    }
    let rig = Rig::new(&config("Propagate"));
    let Err(PublishError::Rejected(message)) = rig.publish(Signal::Logs, &request) else {
        panic!("accepted")
    };
    let start = "rule statements[0] of step \"parse\" failed, and its errorMode is Propagate: ";
    assert!(message.starts_with(start), "{message}");
    assert!(!message.contains("body"), "{message}");
    assert_eq!(rig.metric("millrace_rule_failed_total", &failed), 1.0);
    rig.publish_own(Signal::Logs, &request).unwrap();
    let refused = ["signal=\"logs\"", "reason=\"rule_failed\""];
    assert_eq!(rig.metric("millrace_records_refused_total", &refused), 2.0);
    assert!(rig.received().is_empty());
    assert_eq!(rig.budget.used_bytes(), 0);
}

/// Scenario: a rule moves some records to another day. Guarantee: the outline has the days of the
/// result.
#[test]
fn the_outline_has_the_days_that_rules_write() {
    let tomorrow = "set(log.time_unix_nano, 1790121600000000000) where log.severity_number > 9";
    let rig = Rig::new(&steps(json!([{"name": "moved", "statements": [tomorrow]}])));
    // The recorder compares the outline with a check.
    rig.publish(Signal::Logs, &logs(vec![record(5, "a", "a"), record(17, "a", "b")])).unwrap();
    assert_eq!(rig.received().len(), 2);
}
