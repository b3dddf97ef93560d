//! Tests of what `kafka/gaps.rs` keeps to itself.

use super::*;

fn place() -> Place {
    (Arc::from("t"), 3)
}

/// Scenario: gaps before, across and behind a partition's beginning. Guarantee: what lies
/// before it is lost, and nothing else.
#[test]
fn what_was_deleted_unread_is_lost() {
    let gap = |wanted, got| Gap { wanted, got };
    assert_eq!(gap(40, 100).lost(100), 60);
    assert_eq!(gap(40, 100).lost(70), 30, "the rest was passed over for another reason");
    assert_eq!(gap(40, 100).lost(500), 60, "more was deleted since, but it was read");
    assert_eq!(gap(40, 41).lost(0), 0);
}

/// Scenario: two gaps, a commit between them, then one behind both. Guarantee: nothing is told
/// before a commit has passed it, the larger one counts, and it is told once.
#[test]
fn a_gap_is_told_once_and_after_its_commit() {
    let mut gaps = Gaps::default();
    gaps.met(place(), Gap { wanted: 10, got: 60 });
    gaps.committed(&place(), 10);
    assert_eq!(gaps.untold().count(), 0);
    gaps.committed(&place(), 61);
    gaps.met(place(), Gap { wanted: 90, got: 91 });
    gaps.committed(&place(), 92);
    assert_eq!(gaps.untold().count(), 1);
    assert_eq!(gaps.tell(&place()), Some(Gap { wanted: 10, got: 60 }));
    assert_eq!(gaps.tell(&place()), None);
}

/// Scenario: a gap is met in two steps, the second where the first ended. Guarantee: it counts
/// as one.
#[test]
fn a_gap_that_goes_on_is_one() {
    let mut gaps = Gaps::default();
    gaps.met(place(), Gap { wanted: 10, got: 60 });
    gaps.met(place(), Gap { wanted: 60, got: 65 });
    gaps.committed(&place(), 70);
    assert_eq!(gaps.tell(&place()), Some(Gap { wanted: 10, got: 65 }));
}

/// Scenario: the partition leaves before the commit, and after it. Guarantee: the next owner
/// meets the first gap itself, so it isn't told here; the second is.
#[test]
fn a_partition_that_leaves_takes_along_only_what_is_met_again() {
    let mut gaps = Gaps::default();
    gaps.met(place(), Gap { wanted: 10, got: 60 });
    gaps.left(&place());
    gaps.committed(&place(), 61);
    assert_eq!(gaps.untold().count(), 0);
    gaps.met(place(), Gap { wanted: 10, got: 60 });
    gaps.committed(&place(), 61);
    gaps.left(&place());
    assert_eq!(gaps.tell(&place()), Some(Gap { wanted: 10, got: 60 }));
}
