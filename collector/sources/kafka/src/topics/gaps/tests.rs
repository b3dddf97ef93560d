//! Tests of `gaps.rs`.

use super::*;

fn place() -> TopicPartition {
    (Arc::from("t"), 3)
}

/// Scenario: gaps before, across and behind a partition's beginning. Guarantee: exactly the
/// messages before it are lost.
#[test]
fn what_was_deleted_unread_is_lost() {
    let gap = |wanted, got| Gap { expected: wanted, got };
    assert_eq!(gap(40, 100).lost_messages(100), 60);
    assert_eq!(gap(40, 100).lost_messages(70), 30, "the rest was passed over for another reason");
    assert_eq!(gap(40, 100).lost_messages(500), 60, "more was deleted since, but it was read");
    assert_eq!(gap(40, 41).lost_messages(0), 0);
}

/// Scenario: two gaps, a commit between them, then one behind both. Guarantee: nothing is reported
/// before a commit has passed it; the larger one counts, and is reported once.
#[test]
fn a_gap_is_told_once_and_after_its_commit() {
    let mut gaps = Gaps::default();
    gaps.record_gap(place(), Gap { expected: 10, got: 60 });
    gaps.pass_committed(&place(), 10);
    assert_eq!(gaps.unreported().count(), 0);
    gaps.pass_committed(&place(), 61);
    gaps.record_gap(place(), Gap { expected: 90, got: 91 });
    gaps.pass_committed(&place(), 92);
    assert_eq!(gaps.unreported().count(), 1);
    assert_eq!(gaps.take_unreported(&place()), Some(Gap { expected: 10, got: 60 }));
    assert_eq!(gaps.take_unreported(&place()), None);
}

/// Scenario: a gap is found in two steps, the second where the first ended. Guarantee: it counts as
/// one.
#[test]
fn a_gap_that_goes_on_is_one() {
    let mut gaps = Gaps::default();
    gaps.record_gap(place(), Gap { expected: 10, got: 60 });
    gaps.record_gap(place(), Gap { expected: 60, got: 65 });
    gaps.pass_committed(&place(), 70);
    assert_eq!(gaps.take_unreported(&place()), Some(Gap { expected: 10, got: 65 }));
}

/// Scenario: the partition leaves before the commit, and after it. Guarantee: the next owner finds
/// the first gap itself, so it isn't reported here; the second is.
#[test]
fn a_partition_that_leaves_takes_along_only_what_is_met_again() {
    let mut gaps = Gaps::default();
    gaps.record_gap(place(), Gap { expected: 10, got: 60 });
    gaps.remove_pending(&place());
    gaps.pass_committed(&place(), 61);
    assert_eq!(gaps.unreported().count(), 0);
    gaps.record_gap(place(), Gap { expected: 10, got: 60 });
    gaps.pass_committed(&place(), 61);
    gaps.remove_pending(&place());
    assert_eq!(gaps.take_unreported(&place()), Some(Gap { expected: 10, got: 60 }));
}
