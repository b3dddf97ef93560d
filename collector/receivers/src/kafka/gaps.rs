//! Messages that were skipped: between the offset a worker wanted and the one that came.
//!
//! The reason is decided where the partition's beginning is known. A gap is reported once a commit
//! has passed it: the next owner meets the gap of a partition that leaves before that; after the
//! commit nobody would. Of several gaps the largest of a partition is kept: transaction markers and
//! compaction make many of one message, retention makes few and long ones.

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
    /// Passed, and still to be reported.
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
    /// A worker of this process met a gap.
    pub(super) fn met(&mut self, place: Place, gap: Gap) {
        keep_larger(&mut self.met, place, gap);
    }

    /// Everything before `offset` is committed, or will be without an answer.
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

    /// Partitions with a gap to report.
    pub(super) fn untold(&self) -> impl Iterator<Item = &Place> {
        self.passed.keys()
    }

    /// The gap of a partition to report, once.
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
#[path = "../../tests/unit/kafka/gaps.rs"]
mod tests;
