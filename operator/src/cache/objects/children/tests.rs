//! Tests of the private parts of `cache/objects/children.rs`.

use super::*;
use k8s_openapi::api::core::v1::Service;
use millrace_crds::v1alpha1::EdgePool;
use serde_json::json;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn state(version: &str) -> ObjectVersion {
    let mut service = Service::default();
    service.metadata.resource_version = Some(version.into());
    ObjectVersion::of_object(&service)
}

fn told(version: &str) -> ChildState {
    ChildState { mark: state(version), claim: None, figures: None }
}

const CHILD: (&str, &str) = ("ns", "prod-edge");

fn key() -> ChildKey {
    ChildKey::new::<Service>(CHILD.0, CHILD.1)
}

/// The state that a child's metadata records, of the desired hash.
fn claim(field: &str) -> AppliedState {
    AppliedState::of_desired(&json!({"spec": {field: 1}}), "hash")
}

/// Whether the child counts as compared, whatever its metadata records.
fn is_verified(seen: &ChildCache, key: &ChildKey, wanted: &str, second: i64) -> bool {
    seen.verified_child(key, wanted, || claim("nothing"), at(second)).is_some()
}

/// Scenario: a verified child, then an edit, another desired state, and time. Guarantee: the child
/// is skipped only while all three agree, and never for longer than the limit.
#[test]
fn a_child_is_passed_over_only_while_everything_agrees() {
    let seen = ChildCache::default();
    let round = seen.begin_watch();
    seen.record_child::<EdgePool, Service>(CHILD, told("1"), Some("prod"), round);
    assert!(!is_verified(&seen, &key(), "hash", 0), "never compared");
    seen.record_verified(key(), "hash", state("1"), None, at(0));
    assert!(is_verified(&seen, &key(), "hash", 1));
    assert!(!is_verified(&seen, &key(), "other", 1), "something else is wanted");
    assert!(!is_verified(&seen, &key(), "hash", 1_800), "too long ago");
    assert!(!is_verified(&seen, &key(), "hash", -1), "the clock went back");
    seen.record_child::<EdgePool, Service>(CHILD, told("2"), Some("prod"), round);
    assert!(!is_verified(&seen, &key(), "hash", 1), "it was edited");
}

/// Scenario: a watch reports a child, unknown to the operator, whose metadata claims the desired
/// state; then somebody touches it, and changes it. Guarantee: it is skipped without a read while
/// the claim applies, and never for longer than the limit.
#[test]
fn a_child_that_claims_to_be_as_wanted_is_believed_for_a_while() {
    let seen = ChildCache::default();
    let round = seen.begin_watch();
    let note = |version, claim| {
        let state = ChildState { mark: state(version), claim, figures: None };
        seen.record_child::<EdgePool, Service>(CHILD, state, Some("prod"), round);
    };
    let is_claimed = |field: &str, wanted, second| {
        seen.verified_child(&key(), wanted, || claim(field), at(second)).is_some()
    };
    assert!(!is_claimed("a", "hash", 0), "no watch told of it");
    note("1", Some(claim("a")));
    assert!(!is_verified(&seen, &key(), "hash", 0));
    assert!(!is_claimed("b", "hash", 0), "something else is wanted");
    assert!(is_claimed("a", "hash", 0));
    assert!(is_verified(&seen, &key(), "hash", 1), "it counts as verified");
    note("2", Some(claim("a")));
    assert!(!is_verified(&seen, &key(), "hash", 1));
    assert!(is_claimed("a", "hash", 1), "others' fields changed");
    note("3", Some(claim("b")));
    assert!(!is_claimed("a", "hash", 1), "one of ours changed");
    note("4", None);
    assert!(!is_claimed("a", "hash", 1), "nobody says whose it is");
    note("5", Some(claim("a")));
    assert!(!is_claimed("a", "other", 1), "the hash is another");
    assert!(!is_claimed("a", "hash", 1_800), "compared too long ago");
}

/// Scenario: a workload's watch reports its figures; it is claimed and read, and its controller
/// continues to count. Guarantee: the figures are those of the newest state, and there are none
/// once it differs from the desired state.
#[test]
fn a_workloads_figures_are_those_its_watch_told_of_last() {
    let counted = |ready| WorkloadObservation { ready, ..WorkloadObservation::default() };
    let seen = ChildCache::default();
    let round = seen.begin_watch();
    let note = |version, ready| {
        let (mark, figures) = (state(version), Some(counted(ready)));
        let state = ChildState { mark, claim: Some(claim("a")), figures };
        seen.record_child::<EdgePool, Service>(CHILD, state, Some("prod"), round);
    };
    let figures = |field: &str, wanted| {
        let child = seen.verified_child(&key(), wanted, || claim(field), at(1));
        child.and_then(|it| it.figures).map(|it| it.ready)
    };
    note("1", 1);
    assert_eq!(figures("b", "hash"), None, "it is not as desired");
    assert_eq!((figures("a", "hash"), figures("a", "other")), (Some(1), None));
    note("2", 2);
    assert_eq!(figures("b", "hash"), None, "it moved");
    assert_eq!(figures("a", "hash"), Some(2));
    seen.record_verified(key(), "hash", state("3"), Some(counted(3)), at(1));
    assert_eq!(figures("b", "hash"), None, "its watch is behind");
    note("3", 3);
    assert_eq!(figures("b", "hash"), Some(3));
}

/// Scenario: children that no watch reports. Guarantee: they are read each time, and no more than
/// the limit are cached.
#[test]
fn without_a_watch_nothing_is_passed_over() {
    let seen = ChildCache::default();
    for child in 0..2 * AHEAD_MAX {
        let key = ChildKey::new::<Service>("ns", &format!("child-{child}"));
        seen.record_verified(key, "hash", state("1"), None, at(0));
        assert!(!is_verified(&seen, &key, "hash", 0) && seen.is_empty());
    }
    assert_eq!(seen.lock().ahead.len(), AHEAD_MAX);
    seen.record_verified(key(), "hash", state("1"), None, at(30));
    assert_eq!(seen.lock().ahead.len(), 1, "old ones make room");
}

/// Scenario: a child is written, and its watch reports it later, in the written state or in a later
/// one. Guarantee: the first need not be read again; the other must.
#[test]
fn what_was_written_before_its_watch_told_of_it_counts_once_it_does() {
    let seen = ChildCache::default();
    let round = seen.begin_watch();
    for (version, counts) in [("1", true), ("2", false)] {
        seen.remove_child(&key());
        seen.record_verified(key(), "hash", state("1"), None, at(0));
        assert!(!seen.is_known(&key()));
        seen.record_child::<EdgePool, Service>(CHILD, told(version), Some("prod"), round);
        assert!(seen.is_known(&key()) && seen.is_newest(&key(), state(version)));
        assert_eq!(is_verified(&seen, &key(), "hash", 1), counts);
        assert!(!seen.is_outdated(&key(), "hash", at(1)));
        assert_eq!(seen.is_outdated(&key(), "other", at(1)), counts);
    }
    assert!(seen.lock().ahead.is_empty());
}

/// Scenario: a watch breaks, a child is deleted in the meantime, and a new list arrives. Guarantee:
/// the owner of the missing child is returned; children that other watches reported are unchanged.
#[test]
fn a_child_missing_from_a_new_list_wakes_its_owner() {
    let seen = ChildCache::default();
    let (edge, gateway) = (seen.begin_watch(), seen.begin_watch());
    let other = ("ns", "other-edge");
    seen.record_child::<EdgePool, Service>(CHILD, told("1"), Some("prod"), edge);
    seen.record_child::<EdgePool, Service>(other, told("1"), Some("other"), edge);
    let third = ("ns", "prod-gateway");
    seen.record_child::<EdgePool, Service>(third, told("1"), Some("prod"), gateway);
    seen.record_child::<EdgePool, Service>(other, told("1"), Some("other"), edge.next());
    let gone = seen.finish_list(edge.next());
    let wanted = DeletedChild { namespace: "ns".into(), owner: "prod".into() };
    assert_eq!(gone, [wanted]);
    assert_eq!(seen.len(), 2);
    let count = |owner| seen.count_children::<EdgePool, Service>("ns", owner);
    assert_eq!([count("prod"), count("other"), count("nobody")], [1, 1, 0]);
    seen.remove_child(&ChildKey::new::<Service>(other.0, other.1));
    assert_eq!(count("other"), 0);
}
