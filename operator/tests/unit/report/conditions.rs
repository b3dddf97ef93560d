//! Tests of what `report/conditions.rs` keeps to itself.

use super::*;
use millrace_crds::is_true;

fn conditions(before: &[Condition], generation: i64) -> Conditions {
    Conditions::new(before, Some(generation), Timestamp::from_second(1_000).unwrap())
}

/// Scenario: a required condition was true for the last spec and is not stated now. Guarantee:
/// Ready is false.
#[test]
fn a_condition_not_stated_in_this_reconcile_never_counts() {
    let mut first = conditions(&[], 1);
    first.holds(ConditionType::PodsReady, Reason::AsAsked, "");
    first.conclude(&[ConditionType::PodsReady]);
    let before = first.into_conditions();
    assert!(is_true(&before, ConditionType::Ready, 1));
    let mut second = conditions(&before, 2);
    second.conclude(&[ConditionType::PodsReady]);
    let after = second.into_conditions();
    let ready = find(&after, ConditionType::Ready).unwrap();
    assert_eq!(ready.status, ConditionStatus::False);
    assert_eq!(ready.reason, "NotObserved");
}

/// Scenario: conditions that the API server hid from us, alone and beside one that does not
/// hold. Guarantee: Ready is unknown only while nothing is known to be wrong.
#[test]
fn ready_is_unknown_while_nothing_is_wrong_but_that_we_could_not_look() {
    use ConditionType::{PodsReady, SecretsFound};
    let ready = |pods: (ConditionStatus, Reason)| {
        let mut conditions = conditions(&[], 1);
        conditions.unknown(SecretsFound, Reason::ApiServerFailed, "429");
        conditions.state(PodsReady, pods.0, pods.1, "");
        conditions.conclude(&[SecretsFound, PodsReady]);
        let ready = conditions.stated(ConditionType::Ready).unwrap();
        (ready.status, ready.reason.clone())
    };
    let failed = "ApiServerFailed".to_owned();
    let holds = (ConditionStatus::True, Reason::AsAsked);
    assert_eq!(ready(holds), (ConditionStatus::Unknown, failed.clone()));
    let unseen = (ConditionStatus::Unknown, Reason::ApiServerFailed);
    assert_eq!(ready(unseen), (ConditionStatus::Unknown, failed));
    for status in [ConditionStatus::False, ConditionStatus::Unknown] {
        let wrong = ready((status, Reason::PodsNotReady));
        assert_eq!(wrong, (ConditionStatus::False, "PodsNotReady".to_owned()));
    }
}

/// Scenario: the same conditions again. Guarantee: equal conditions and no event.
#[test]
fn the_same_conditions_again_change_nothing_and_tell_nothing() {
    let state = |before: &[Condition]| {
        let mut conditions = conditions(before, 1);
        conditions.fails(ConditionType::SecretsFound, Reason::SecretMissing, "kafka-user");
        conditions.conclude(&[ConditionType::SecretsFound]);
        conditions
    };
    let first = state(&[]);
    assert_eq!(first.notices().len(), 1, "{:?}", first.notices());
    assert!(first.notices()[0].warning);
    let before = first.into_conditions();
    let second = state(&before);
    assert!(second.notices().is_empty());
    assert_eq!(second.into_conditions(), before);
}

/// Scenario: not ready at first, then ready. Guarantee: one normal event tells it.
#[test]
fn becoming_ready_is_told_once() {
    let mut first = conditions(&[], 1);
    first.fails(ConditionType::PodsReady, Reason::PodsNotReady, "0 of 1");
    first.conclude(&[ConditionType::PodsReady]);
    assert!(first.notices().is_empty(), "{:?}", first.notices());
    let mut second = conditions(&first.into_conditions(), 1);
    second.holds(ConditionType::PodsReady, Reason::AsAsked, "1 of 1");
    second.conclude(&[ConditionType::PodsReady]);
    let notices = second.notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(!notices[0].warning);
}
