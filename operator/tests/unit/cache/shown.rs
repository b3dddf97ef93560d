//! Tests of what is kept for the console.

use super::*;

fn decided(at_second: i64) -> Decided {
    Decided {
        at_second,
        replicas: 2,
        wanted: 3,
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

/// Scenario: an operator without a console. Guarantee: nothing is kept, or even worked out.
#[test]
fn without_a_console_nothing_is_kept() {
    let shown = Shown::default();
    shown.decided("pool", || panic!("worked out"));
    shown.planned("schema", || panic!("worked out"));
    assert!(shown.decisions("pool").is_empty() && shown.steps("schema").is_empty());
}

/// Scenario: a pool that decides all the time, told each decision twice, beside one that decided
/// once. Guarantee: its newest decisions in order, each once; the other's stays.
#[test]
fn a_busy_pool_pushes_out_its_own_decisions() {
    let shown = Shown::kept_if(true);
    shown.decided("calm", || decided(5));
    for second in 0..1_000 {
        shown.decided("busy", || decided(second));
        shown.decided("busy", || decided(second));
    }
    let seconds: Vec<i64> = shown.decisions("busy").iter().map(|it| it.at_second).collect();
    assert_eq!(seconds, (936..1_000).collect::<Vec<_>>());
    assert_eq!(shown.decisions("calm").len(), 1);
}

/// Scenario: more pools than there is room for. Guarantee: the number of decisions has its bound.
#[test]
fn many_pools_share_one_bound() {
    let shown = Shown::kept_if(true);
    for pool in 0..2 * DECISIONS_MAX {
        shown.decided(&pool.to_string(), || decided(1));
    }
    assert_eq!(shown.decisions.lock().unwrap().len(), DECISIONS_MAX);
}

/// Scenario: a plan of many long statements in letters of two bytes; it is carried out. Guarantee:
/// steps and statements have their bounds, between letters; then there are none.
#[test]
fn a_plan_is_bounded_and_ends() {
    let shown = Shown::kept_if(true);
    let long = format!("a{}", "é".repeat(STATEMENT_BYTES_MAX));
    shown.planned("schema", || (0..100).map(|_| step(long.clone())).collect());
    let kept = shown.steps("schema");
    assert_eq!(kept.len(), STEPS_MAX);
    assert!(kept[0].statement.len() <= STATEMENT_BYTES_MAX + " …".len());
    shown.planned("schema", Vec::new);
    assert!(shown.steps("schema").is_empty());
}
