//! Tests of what `cache/children.rs` keeps to itself.

use super::*;
use k8s_openapi::api::core::v1::Service;
use millrace_crds::v1alpha1::EdgePool;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn state(version: &str) -> Mark {
    let mut service = Service::default();
    service.metadata.resource_version = Some(version.into());
    Mark::of(&service)
}

fn told(version: &str) -> State {
    State { mark: state(version), claim: None, figures: None }
}

const CHILD: (&str, &str) = ("ns", "prod-edge");

fn key() -> Key {
    Key::new::<Service>(CHILD.0, CHILD.1)
}

/// Scenario: a verified child, then an edit, another wanted state, and time. Guarantee: passed
/// over only while all of it agrees, and never for longer than the limit.
#[test]
fn a_child_is_passed_over_only_while_everything_agrees() {
    let seen = Seen::default();
    let round = seen.begin();
    seen.note::<EdgePool, Service>(CHILD, told("1"), Some("prod"), round);
    assert!(!seen.is_as_wanted(&key(), "hash", at(0)), "never compared");
    seen.verify(key(), "hash", state("1"), None, at(0));
    assert!(seen.is_as_wanted(&key(), "hash", at(1)));
    assert!(!seen.is_as_wanted(&key(), "other", at(1)), "something else is wanted");
    assert!(!seen.is_as_wanted(&key(), "hash", at(1_800)), "too long ago");
    assert!(!seen.is_as_wanted(&key(), "hash", at(-1)), "the clock went back");
    seen.note::<EdgePool, Service>(CHILD, told("2"), Some("prod"), round);
    assert!(!seen.is_as_wanted(&key(), "hash", at(1)), "it was edited");
}

/// Scenario: an operator that knows nothing of a child is told of one that makes the wanted
/// claim; then someone touches it, and changes it. Guarantee: passed over without being read,
/// for as long as the claim stands, and never for longer than the limit.
#[test]
fn a_child_that_claims_to_be_as_wanted_is_believed_for_a_while() {
    let claim = |field: &str| AppliedState::expected(&json!({"spec": {field: 1}}), "hash");
    let seen = Seen::default();
    let round = seen.begin();
    let note = |version, claim| {
        let state = State { mark: state(version), claim, figures: None };
        seen.note::<EdgePool, Service>(CHILD, state, Some("prod"), round);
    };
    let wanted = || claim("a");
    assert!(!seen.is_claimed(&key(), "hash", wanted, at(0)), "no watch told of it");
    note("1", Some(claim("a")));
    assert!(!seen.is_as_wanted(&key(), "hash", at(0)));
    assert!(!seen.is_claimed(&key(), "hash", || claim("b"), at(0)), "something else is wanted");
    assert!(seen.is_claimed(&key(), "hash", wanted, at(0)));
    assert!(seen.is_as_wanted(&key(), "hash", at(1)), "it counts as verified");
    note("2", Some(claim("a")));
    assert!(!seen.is_as_wanted(&key(), "hash", at(1)));
    assert!(seen.is_claimed(&key(), "hash", wanted, at(1)), "others' fields changed");
    note("3", Some(claim("b")));
    assert!(!seen.is_claimed(&key(), "hash", wanted, at(1)), "one of ours changed");
    note("4", None);
    assert!(!seen.is_claimed(&key(), "hash", wanted, at(1)), "nobody says whose it is");
    note("5", Some(claim("a")));
    assert!(!seen.is_claimed(&key(), "other", wanted, at(1)), "the hash is another");
    assert!(!seen.is_claimed(&key(), "hash", wanted, at(1_800)), "compared too long ago");
}

/// Scenario: a workload's watch tells its figures; it is claimed, read, and its controller goes
/// on counting. Guarantee: the figures are those of the newest state, and there are none
/// once it is not what is wanted.
#[test]
fn a_workloads_figures_are_those_its_watch_told_of_last() {
    let claim = || AppliedState::expected(&json!({"spec": {"a": 1}}), "hash");
    let counted = |ready| Observation { ready, ..Observation::default() };
    let seen = Seen::default();
    let round = seen.begin();
    let note = |version, ready| {
        let (mark, figures) = (state(version), Some(counted(ready)));
        let state = State { mark, claim: Some(claim()), figures };
        seen.note::<EdgePool, Service>(CHILD, state, Some("prod"), round);
    };
    let figures = |wanted| seen.figures(&key(), wanted, at(1)).map(|it| it.ready);
    note("1", 1);
    assert_eq!(figures("hash"), None, "nobody has compared it");
    assert!(seen.is_claimed(&key(), "hash", claim, at(0)));
    assert_eq!((figures("hash"), figures("other")), (Some(1), None));
    note("2", 2);
    assert_eq!(figures("hash"), None, "it moved");
    assert!(seen.is_claimed(&key(), "hash", claim, at(1)));
    assert_eq!(figures("hash"), Some(2));
    seen.verify(key(), "hash", state("3"), Some(counted(3)), at(1));
    assert_eq!(figures("hash"), None, "its watch is behind");
    note("3", 3);
    assert_eq!(figures("hash"), Some(3));
}

/// Scenario: children that no watch tells of. Guarantee: they are read each time, and no more
/// are kept than the limit.
#[test]
fn without_a_watch_nothing_is_passed_over() {
    let seen = Seen::default();
    for child in 0..2 * AHEAD_MAX {
        let key = Key::new::<Service>("ns", &format!("child-{child}"));
        seen.verify(key, "hash", state("1"), None, at(0));
        assert!(!seen.is_as_wanted(&key, "hash", at(0)) && seen.is_empty());
    }
    assert_eq!(seen.lock().ahead.len(), AHEAD_MAX);
    seen.verify(key(), "hash", state("1"), None, at(30));
    assert_eq!(seen.lock().ahead.len(), 1, "old ones make room");
}

/// Scenario: a child is written, and its watch tells of it after: in the state that was
/// written, or in a later one. Guarantee: the first need not be read again, the other is.
#[test]
fn what_was_written_before_its_watch_told_of_it_counts_once_it_does() {
    let seen = Seen::default();
    let round = seen.begin();
    for (version, counts) in [("1", true), ("2", false)] {
        seen.forget(&key());
        seen.verify(key(), "hash", state("1"), None, at(0));
        assert!(!seen.is_known(&key()));
        seen.note::<EdgePool, Service>(CHILD, told(version), Some("prod"), round);
        assert!(seen.is_known(&key()) && seen.is_newest(&key(), state(version)));
        assert_eq!(seen.is_as_wanted(&key(), "hash", at(1)), counts);
        assert!(!seen.is_outdated(&key(), "hash", at(1)));
        assert_eq!(seen.is_outdated(&key(), "other", at(1)), counts);
    }
    assert!(seen.lock().ahead.is_empty());
}

/// Scenario: a watch breaks, a child is deleted meanwhile, a new list comes. Guarantee: the
/// owner of the missing child is named; what other watches told of is left alone.
#[test]
fn a_child_missing_from_a_new_list_wakes_its_owner() {
    let seen = Seen::default();
    let (edge, gateway) = (seen.begin(), seen.begin());
    let other = ("ns", "other-edge");
    seen.note::<EdgePool, Service>(CHILD, told("1"), Some("prod"), edge);
    seen.note::<EdgePool, Service>(other, told("1"), Some("other"), edge);
    let third = ("ns", "prod-gateway");
    seen.note::<EdgePool, Service>(third, told("1"), Some("prod"), gateway);
    seen.note::<EdgePool, Service>(other, told("1"), Some("other"), edge.next());
    let gone = seen.settle(edge.next());
    let wanted = Gone { namespace: "ns".into(), owner: "prod".into() };
    assert_eq!(gone, [wanted]);
    assert_eq!(seen.len(), 2);
    let count = |owner| seen.count::<EdgePool, Service>("ns", owner);
    assert_eq!([count("prod"), count("other"), count("nobody")], [1, 1, 0]);
    seen.forget(&Key::new::<Service>(other.0, other.1));
    assert_eq!(count("other"), 0);
}
