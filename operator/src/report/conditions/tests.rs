//! Tests of the private parts of `report/conditions.rs`.

use super::*;
use millrace_crds::is_true;

fn conditions(before: &[Condition], generation: i64) -> Conditions {
    Conditions::new(before, Some(generation), Timestamp::from_second(1_000).unwrap())
}

/// Scenario: a required condition was true for the last spec and is not stated now. Guarantee:
/// `Ready` is false.
#[test]
fn a_condition_not_stated_in_this_reconcile_never_counts() {
    let mut first = conditions(&[], 1);
    first.set_true(ConditionType::PodsReady, Reason::Reconciled, "");
    first.derive_ready(&[ConditionType::PodsReady]);
    let before = first.into_conditions();
    assert!(is_true(&before, ConditionType::Ready, 1));
    let mut second = conditions(&before, 2);
    second.derive_ready(&[ConditionType::PodsReady]);
    let after = second.into_conditions();
    let ready = find_condition(&after, ConditionType::Ready).unwrap();
    assert_eq!(ready.status, ConditionStatus::False);
    assert_eq!(ready.reason, "NotObserved");
}

/// Scenario: conditions unknown because the API server could not be read, alone and together with a
/// false one. Guarantee: `Ready` is unknown only while no condition is known to be false.
#[test]
fn ready_is_unknown_while_nothing_is_wrong_but_that_we_could_not_look() {
    use ConditionType::{PodsReady, SecretsFound};
    let ready = |pods: (ConditionStatus, Reason)| {
        let mut conditions = conditions(&[], 1);
        conditions.set_unknown(SecretsFound, Reason::ApiServerFailed, "429");
        conditions.state_condition(PodsReady, pods.0, pods.1, "");
        conditions.derive_ready(&[SecretsFound, PodsReady]);
        let ready = conditions.find_stated(ConditionType::Ready).unwrap();
        (ready.status, ready.reason.clone())
    };
    let failed = "ApiServerFailed".to_owned();
    let holds = (ConditionStatus::True, Reason::Reconciled);
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
        conditions.set_false(ConditionType::SecretsFound, Reason::SecretMissing, "kafka-user");
        conditions.derive_ready(&[ConditionType::SecretsFound]);
        conditions
    };
    let first = state(&[]);
    assert_eq!(first.new_notices().len(), 1, "{:?}", first.new_notices());
    assert!(first.new_notices()[0].warning);
    let before = first.into_conditions();
    let second = state(&before);
    assert!(second.new_notices().is_empty());
    assert_eq!(second.into_conditions(), before);
}

/// Scenario: not ready at first, then ready. Guarantee: one normal event reports it.
#[test]
fn becoming_ready_is_told_once() {
    let mut first = conditions(&[], 1);
    first.set_false(ConditionType::PodsReady, Reason::PodsNotReady, "0 of 1");
    first.derive_ready(&[ConditionType::PodsReady]);
    assert!(first.new_notices().is_empty(), "{:?}", first.new_notices());
    let mut second = conditions(&first.into_conditions(), 1);
    second.set_true(ConditionType::PodsReady, Reason::Reconciled, "1 of 1");
    second.derive_ready(&[ConditionType::PodsReady]);
    let notices = second.new_notices();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(!notices[0].warning);
}
