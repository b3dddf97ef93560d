//! Messages that were passed over: between the offset a worker wanted and the one that came.
//!
//! Why they are missing is for whoever knows the partition's beginning. A gap is told once a commit
//! has passed it: a partition that leaves before that has its gap met again by the next owner, and
//! after that by nobody. Of several gaps at once the largest of a partition is kept: markers of
//! transactions and compaction make many of one message, retention makes few and long ones.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A partition by its topic's name.
pub(super) type Place = (Arc<str>, i32);

/// The offset that was wanted, and the later one that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) wanted: i64,
    pub(super) got: i64,
}

/// Gaps by partition: at most two of each.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// Not passed by a commit yet.
    met: BTreeMap<Place, Gap>,
    /// Passed, and still to be told.
    passed: BTreeMap<Place, Gap>,
}

impl Gap {
    /// Messages of it that lie before the partition's beginning.
    pub(super) fn lost(self, low: i64) -> u64 {
        u64::try_from(low.min(self.got) - self.wanted).unwrap_or(0)
    }

    fn messages(self) -> i64 {
        self.got - self.wanted
    }
}

impl Gaps {
    /// A worker of this process came upon a gap.
    pub(super) fn met(&mut self, place: Place, gap: Gap) {
        keep_larger(&mut self.met, place, gap);
    }

    /// Everything before `offset` is committed, or will be without anybody hearing of it.
    pub(super) fn committed(&mut self, place: &Place, offset: i64) {
        if self.met.get(place).is_some_and(|gap| gap.wanted < offset)
            && let Some(gap) = self.met.remove(place)
        {
            keep_larger(&mut self.passed, place.clone(), gap);
        }
    }

    /// The partition has left: what wasn't passed will be met again.
    pub(super) fn left(&mut self, place: &Place) {
        self.met.remove(place);
    }

    /// Partitions with a gap to tell.
    pub(super) fn untold(&self) -> impl Iterator<Item = &Place> {
        self.passed.keys()
    }

    /// The gap to tell of a partition, once.
    pub(super) fn tell(&mut self, place: &Place) -> Option<Gap> {
        self.passed.remove(place)
    }
}

fn keep_larger(gaps: &mut BTreeMap<Place, Gap>, place: Place, gap: Gap) {
    let known = gaps.entry(place).or_insert(gap);
    if known.got == gap.wanted {
        // One gap, met in two steps.
        known.got = gap.got;
    } else if known.messages() < gap.messages() {
        *known = gap;
    }
}

#[cfg(test)]
mod tests {
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
}
