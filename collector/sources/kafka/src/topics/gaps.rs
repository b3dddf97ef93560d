//! Tracks skipped messages: between the offset that a worker expected and the one that it got.
//!
//! The reason is decided where the partition's beginning is known. A gap is reported once a commit
//! has passed it: until then the next owner finds the gap itself, afterwards nobody would. Only the
//! largest gap of a partition is retained: transaction markers and compaction make many of one
//! message, retention makes few and long ones.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A partition by its topic's name.
pub(crate) type TopicPartition = (Arc<str>, i32);

/// The expected offset, and the later one that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) expected: i64,
    pub(crate) got: i64,
}

/// Gaps by partition: at most two of each.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Gaps that no commit has passed yet.
    pending: BTreeMap<TopicPartition, Gap>,
    /// Gaps that a commit has passed, still to be reported.
    passed: BTreeMap<TopicPartition, Gap>,
}

impl Gap {
    /// Returns how many of its messages are before the partition's beginning.
    pub(crate) fn lost_messages(self, low: i64) -> u64 {
        u64::try_from(low.min(self.got) - self.expected).unwrap_or(0)
    }

    fn message_count(self) -> i64 {
        self.got - self.expected
    }
}

impl Gaps {
    /// Records a gap that a worker of this process found.
    pub(crate) fn record_gap(&mut self, topic_partition: TopicPartition, gap: Gap) {
        retain_larger(&mut self.pending, topic_partition, gap);
    }

    /// Records that everything before `offset` is committed, or will be without an answer.
    pub(crate) fn pass_committed(&mut self, topic_partition: &TopicPartition, offset: i64) {
        if self.pending.get(topic_partition).is_some_and(|gap| gap.expected < offset)
            && let Some(gap) = self.pending.remove(topic_partition)
        {
            retain_larger(&mut self.passed, topic_partition.clone(), gap);
        }
    }

    /// Removes the gap of a partition that has left: its next owner finds it again.
    pub(crate) fn remove_pending(&mut self, topic_partition: &TopicPartition) {
        self.pending.remove(topic_partition);
    }

    /// Returns the partitions with a gap to report.
    pub(crate) fn unreported(&self) -> impl Iterator<Item = &TopicPartition> {
        self.passed.keys()
    }

    /// Removes and returns the gap of a partition to report.
    pub(crate) fn take_unreported(&mut self, topic_partition: &TopicPartition) -> Option<Gap> {
        self.passed.remove(topic_partition)
    }
}

fn retain_larger(
    gaps: &mut BTreeMap<TopicPartition, Gap>,
    topic_partition: TopicPartition,
    gap: Gap,
) {
    let known = gaps.entry(topic_partition).or_insert(gap);
    if known.got == gap.expected {
        // They are one gap, found in two steps.
        known.got = gap.got;
    } else if known.message_count() < gap.message_count() {
        *known = gap;
    }
}

#[cfg(test)]
mod tests;
