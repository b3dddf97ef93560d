//! Memory of runs.

use millrace_pipeline::publish::PublishError;
use millrace_wire::Signal;
use serde_json::json;

use crate::rig::{Rig, logs, record, rename_and_drop, steps};

/// Scenario: a budget that other requests use up, and one that is too small for any run. Guarantee:
/// the first is temporary; with the second, the client learns to send smaller batches; no rule ran.
#[test]
fn a_run_without_memory_is_refused_before_it_starts() {
    let request = logs(vec![record(9, "old", "b")]);
    let rig = Rig::with_budget(&rename_and_drop(), 1 << 20);
    let other = rig.budget.try_reserve((1 << 20) - request.len() as u64).unwrap();
    assert_eq!(rig.publish(Signal::Logs, &request), Err(PublishError::Full));
    drop(other);
    rig.publish(Signal::Logs, &request).unwrap();
    let rig = Rig::with_budget(&rename_and_drop(), 10_000);
    assert_eq!(rig.publish(Signal::Logs, &request), Err(PublishError::TooLarge));
    assert_eq!(rig.metric("millrace_rule_matched_total", &[]), 0.0);
}

/// Scenario: a rule that multiplies each record. Guarantee: the request grows to its limit and no
/// further; records that would exceed it pass on as they were, and are counted.
#[test]
fn a_request_grows_to_its_limit() {
    let long = "x".repeat(4000);
    let rig = Rig::new(&steps(json!([{"name": "grow", "context": "log", "statements": [
        format!("set(attributes[\"a\"], \"{long}\")"),
    ]}])));
    let request = logs((0..100).map(|_| record(9, "k", "v")).collect());
    rig.publish(Signal::Logs, &request).unwrap();
    let received = rig.received();
    assert_eq!(received.len(), 100);
    let grown = received.iter().filter(|record| record.attributes.len() == 2).count();
    assert!((5..20).contains(&grown), "{grown}");
    let over = rig.metric("millrace_rules_over_limit_total", &["signal=\"logs\""]);
    assert_eq!(over, 100.0 - grown as f64);
}
