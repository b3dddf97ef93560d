//! The judge, tried on right histories, which it must accept, and on histories that were made wrong
//! on purpose, each of which it must refuse by the rule that was broken.
//!
//! `cargo test -p millrace-keeper-histories histories::`.

use std::collections::BTreeMap;

use millrace_keeper_histories::{
    Change, History, Key, Malformed, Operation, Outcome, Session, Task, Value, Write, Zxid, judge,
};
use model::Random;
use proptest::prelude::*;

use crate::model;
use crate::mutations;

/// Placing a node's operations takes a few steps each; these histories have hundreds.
const BUDGET: u64 = 1_000_000;
/// Histories that each mutation is tried on.
const SEEDS: u64 = 100;
/// Of these it must find a place in at least so many, or it tests nothing.
const LEAST: usize = 10;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Scenario: any right history. Guarantee: no rule is said to be broken, and nothing stays
    /// undecided.
    #[test]
    fn a_right_history_is_accepted(seed: u64, clients in 1..6_usize, steps in 1..600_usize) {
        let history = model::history(seed, clients, steps);
        let verdict = judge(&history, BUDGET).unwrap();
        prop_assert!(verdict.is_kept(), "{:#?}", verdict);
    }
}

/// Scenario: each mutation on every history where it finds a place. Guarantee: the judge names the
/// rule that the mutation breaks, each time.
#[test]
fn each_mutation_is_found_by_its_rule() {
    let mut missed = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, rule, mutate) in mutations::ALL {
        places.insert(name, 0);
        for seed in 0..SEEDS {
            let mut history = model::history(seed, 4, 400);
            if mutate(&mut history, &mut Random(seed)).is_none() {
                continue;
            }
            *places.get_mut(name).unwrap() += 1;
            let verdict = judge(&history, BUDGET).unwrap();
            if !verdict.findings.iter().any(|finding| finding.rule == *rule) {
                missed.push(format!("{name} at seed {seed}: {:?}", verdict.findings));
            }
        }
    }
    assert!(missed.is_empty(), "{} missed, of {places:?}; the first: {}", missed.len(), missed[0]);
    assert!(places.values().all(|count| *count >= LEAST), "{places:?}");
}

/// Scenario: every rule. Guarantee: a mutation tries it.
#[test]
fn every_rule_has_a_mutation() {
    for rule in millrace_keeper_histories::Rule::ALL {
        assert!(mutations::ALL.iter().any(|(_, tried, _)| *tried == rule), "{rule:?}");
    }
}

fn set(session: u32, begun: u64, value: u64, zxid: Option<i64>) -> Operation {
    let change = match value {
        1 => Change::Create { value: Value(value), ephemeral: false },
        _ => Change::Set { value: Value(value), version: None },
    };
    let (ended, outcome) = match zxid {
        Some(zxid) => (Some(begun + 1), Outcome::Written(vec![Some(Zxid(zxid))])),
        None => (Some(begun + 1), Outcome::Unknown),
    };
    let task = Task::Write(vec![Write { key: Key(0), change }]);
    Operation { session: Session(session), begun, ended, task, outcome }
}

/// Scenario: a thousand writes whose answers were lost, then a refusal that none of them explains.
/// Guarantee: with few steps the judge says that it can't tell, and doesn't take long.
#[test]
fn a_spent_budget_is_said() {
    let mut operations = vec![set(0, 1, 1, Some(1))];
    operations.extend((2..1000).map(|value| set(0, value * 2, value, None)));
    let change = Change::Delete { version: Some(2000) };
    operations.push(Operation {
        session: Session(1),
        begun: 5000,
        ended: Some(5001),
        task: Task::Write(vec![Write { key: Key(0), change }]),
        outcome: Outcome::Written(vec![None]),
    });
    let history = History { operations, ..History::default() };
    let verdict = judge(&history, 100).unwrap();
    assert!(verdict.findings.is_empty() && verdict.undecided.len() == 1 && !verdict.is_kept());
    assert!(verdict.steps <= 100);
}

/// Scenario: histories that no recorder should write. Guarantee: they are refused as such, and not
/// held against the servers.
#[test]
fn a_history_that_makes_no_sense_is_refused() {
    let of = |operations| judge(&History { operations, ..History::default() }, BUDGET).unwrap_err();
    let twice = of(vec![set(0, 1, 1, Some(1)), set(0, 3, 1, Some(2))]);
    assert_eq!(twice, Malformed::ValueTwice(Value(1)));
    let early = Operation { ended: Some(0), ..set(0, 1, 1, Some(1)) };
    assert_eq!(of(vec![early]), Malformed::EndsEarly(1));
    let kind = Operation { outcome: Outcome::Synced, ..set(0, 1, 1, Some(1)) };
    assert_eq!(of(vec![kind]), Malformed::WrongOutcome(1));
}
