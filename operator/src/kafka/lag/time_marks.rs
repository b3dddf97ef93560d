//! Cached offsets by time for a group's partitions, so that the age of its lag takes few queries.
//! Pure.
//!
//! The first message at or after a past time rarely changes: each result is cached as a [`Mark`].
//! Offsets never fall with later times, so two marks enclose the age of any message between them,
//! and a group that falls behind slowly needs one new mark per observation. Marks that contradict a
//! newer result are dropped, as is everything about a recreated topic. Bounded by [`MARKS_MAX`] a
//! partition.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::kafka::client::native::{ListedOffset, TopicPartition};

/// Maximum number of marks per partition: 16 between its oldest uncommitted message and now have
/// intervals of about a sixteenth of its age; a tenth is needed. At 24 bytes each, 120,000
/// partitions with lag take 46 MB; a partition without lag takes 24 bytes.
const MARKS_MAX: usize = 16;

/// A group unused for this long is dropped.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// One result. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimeMark {
    /// The queried time.
    at: i64,
    /// The offset of the first message at or after `at`; if there was none, the partition's end at
    /// the query, which that message can't precede.
    first: i64,
    /// The first message's own time; a value before `at` means that there was none.
    until: i64,
}

impl TimeMark {
    fn is_exact(&self) -> bool {
        self.until >= self.at
    }
}

/// Bounds of the times of the message at an offset and all later ones: `low` is at or before the
/// oldest of them, `high` after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::kafka) struct Bracket {
    pub(in crate::kafka) low: Option<i64>,
    pub(in crate::kafka) high: Option<i64>,
}

/// Marks of one partition, by time.
#[derive(Clone, Debug, Default)]
struct PartitionMarks(Vec<TimeMark>);

impl PartitionMarks {
    fn add_mark(&mut self, new: TimeMark) {
        // Later times never have earlier offsets: drop marks that contradict this.
        self.0.retain(|old| match old.at.cmp(&new.at) {
            std::cmp::Ordering::Less => old.first <= new.first,
            std::cmp::Ordering::Equal => false,
            std::cmp::Ordering::Greater => old.first >= new.first,
        });
        let index = self.0.partition_point(|old| old.at < new.at);
        self.0.insert(index, new);
    }

    fn bracket_at(&self, from: i64) -> Bracket {
        let exact_before = |mark: &&TimeMark| mark.is_exact() && mark.first <= from;
        let low = self.0.iter().filter(exact_before).map(|mark| mark.until).max();
        let after = |mark: &TimeMark| match mark.first {
            first if first > from => Some(mark.at),
            // The mark is of this very message: no earlier message is younger, so it bounds itself.
            first if first == from && mark.is_exact() => Some(mark.until.saturating_add(1)),
            _ => None,
        };
        Bracket { low, high: self.0.iter().filter_map(after).min() }
    }

    /// Drops marks that a group at `from` no longer needs, and thins out the others.
    fn prune_before(&mut self, from: i64, end: i64) {
        // No message can be past the end: it is another topic.
        if self.0.iter().any(|mark| mark.first > end) {
            self.0.clear();
        }
        let passed = self.0.iter().rposition(|mark| mark.is_exact() && mark.first <= from);
        let passed = passed.unwrap_or(0);
        let mut number = 0..;
        self.0.retain(|mark| {
            let at_or_after = number.next().is_some_and(|number| number >= passed);
            at_or_after && (mark.is_exact() || mark.first > from)
        });
        while self.0.len() > MARKS_MAX {
            // The first and the last mark remain; of the others, the one with the nearest neighbors
            // goes.
            let gap = |at: usize| self.0[at + 1].at - self.0[at - 1].at;
            let Some(least) = (1..self.0.len() - 1).min_by_key(|at| gap(*at)) else { break };
            self.0.remove(least);
        }
        self.0.shrink_to(MARKS_MAX);
    }
}

#[derive(Debug, Default)]
struct TopicMarks {
    id: u128,
    partitions: Vec<PartitionMarks>,
}

#[derive(Debug, Default)]
pub(in crate::kafka) struct GroupMarks {
    topics: BTreeMap<Arc<str>, TopicMarks>,
}

impl GroupMarks {
    /// Sets a topic's id and partitions. Drops the marks of another topic of that name.
    pub(super) fn set_topic(&mut self, name: &Arc<str>, id: u128, partitions: usize) {
        let known = self.topics.entry(name.clone()).or_default();
        if known.id != id {
            *known = TopicMarks { id, partitions: Vec::new() };
        }
        known.partitions.resize_with(partitions, PartitionMarks::default);
    }

    /// Drops topics that the group no longer reads.
    pub(super) fn retain_topics(&mut self, names: &[Arc<str>]) {
        self.topics.retain(|name, _| names.contains(name));
    }

    fn partition_marks(&mut self, (topic, number): &TopicPartition) -> Option<&mut PartitionMarks> {
        let number = usize::try_from(*number).ok()?;
        self.topics.get_mut(topic)?.partitions.get_mut(number)
    }

    /// Records the result for `at` in a partition that ended at `end` just before.
    pub(super) fn record_offset(
        &mut self,
        partition: &TopicPartition,
        at: i64,
        found: ListedOffset,
        end: i64,
    ) {
        let mark = match found.offset {
            // A message without a time counts as having the queried time.
            Some(first) => TimeMark { at, first, until: found.at_millis.max(at) },
            None => TimeMark { at, first: end, until: i64::MIN },
        };
        if let Some(marks) = self.partition_marks(partition) {
            marks.add_mark(mark);
        }
    }

    /// Returns the bounds of the times of the message at `from` and later ones.
    pub(super) fn bracket_at(&self, (topic, number): &TopicPartition, from: i64) -> Bracket {
        let marks = || self.topics.get(topic)?.partitions.get(usize::try_from(*number).ok()?);
        marks().map_or_else(Bracket::default, |marks| marks.bracket_at(from))
    }

    /// Retains the marks that a group at `from` of a partition that ends at `end` needs.
    pub(super) fn prune_before(&mut self, partition: &TopicPartition, from: i64, end: i64) {
        if let Some(marks) = self.partition_marks(partition) {
            match from < end {
                true => marks.prune_before(from, end),
                false => *marks = PartitionMarks::default(),
            }
        }
    }
}

#[derive(Debug, Default)]
pub(in crate::kafka) struct Marks(HashMap<String, (GroupMarks, Instant)>);

impl Marks {
    pub(super) fn group_marks(&mut self, name: &str) -> &mut GroupMarks {
        let now = Instant::now();
        let known = self.0.entry(name.to_owned()).or_insert((GroupMarks::default(), now));
        known.1 = now;
        &mut known.0
    }

    /// Drops groups that no pool queries any more.
    pub(super) fn drop_unused(&mut self) {
        let now = Instant::now();
        self.0.retain(|_, (_, used_at)| now.duration_since(*used_at) < FORGOTTEN_AFTER);
    }
}

#[cfg(test)]
mod tests;
