//! Tests of what is stored for the console.

use super::*;

fn decided(at_second: i64) -> SizingDecision {
    SizingDecision {
        at_second,
        replicas: 2,
        proposed_replicas: 3,
        reason: "HoldWindow".to_owned(),
        arrival_per_second: None,
        needed_per_second: None,
        capacity_per_second: None,
        backlog_messages: None,
        lag_seconds: None,
        memory_percent: None,
        cpu_percent: None,
    }
}

fn step(statement: String) -> PlannedStep {
    let word = || "x".to_owned();
    PlannedStep { object: word(), what: word(), class: word(), statement }
}

/// Scenario: an operator without a console. Guarantee: nothing is stored or even computed.
#[test]
fn without_a_console_nothing_is_kept() {
    let shown = ConsoleHistory::default();
    shown.record_decision("pool", || panic!("worked out"));
    shown.record_plan("schema", || panic!("worked out"));
    assert!(shown.decisions_of("pool").is_empty() && shown.planned_steps("schema").is_empty());
}

/// Scenario: a pool that decides all the time and records each decision twice, alongside one that
/// decided once. Guarantee: its newest decisions in order, each once; the other's remains.
#[test]
fn a_busy_pool_pushes_out_its_own_decisions() {
    let shown = ConsoleHistory::enabled_if(true);
    shown.record_decision("calm", || decided(5));
    for second in 0..1_000 {
        shown.record_decision("busy", || decided(second));
        shown.record_decision("busy", || decided(second));
    }
    let seconds: Vec<i64> = shown.decisions_of("busy").iter().map(|it| it.at_second).collect();
    assert_eq!(seconds, (936..1_000).collect::<Vec<_>>());
    assert_eq!(shown.decisions_of("calm").len(), 1);
}

/// Scenario: more pools than the capacity. Guarantee: the number of decisions is bounded.
#[test]
fn many_pools_share_one_bound() {
    let shown = ConsoleHistory::enabled_if(true);
    for pool in 0..2 * DECISIONS_MAX {
        shown.record_decision(&pool.to_string(), || decided(1));
    }
    assert_eq!(shown.decisions.lock().unwrap().len(), DECISIONS_MAX);
}

/// Scenario: a plan of many long statements in characters of two bytes; it is executed. Guarantee:
/// steps and statements are bounded, and truncated between characters; afterwards there are none.
#[test]
fn a_plan_is_bounded_and_ends() {
    let shown = ConsoleHistory::enabled_if(true);
    let long = format!("a{}", "é".repeat(STATEMENT_BYTES_MAX));
    shown.record_plan("schema", || (0..100).map(|_| step(long.clone())).collect());
    let kept = shown.planned_steps("schema");
    assert_eq!(kept.len(), STEPS_MAX);
    assert!(kept[0].statement.len() <= STATEMENT_BYTES_MAX + " …".len());
    shown.record_plan("schema", Vec::new);
    assert!(shown.planned_steps("schema").is_empty());
}
