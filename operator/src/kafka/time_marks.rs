//! Cached offsets by time for a group's partitions, so that the age of its lag takes few questions.
//! Pure.
//!
//! The first message at or after a past time rarely changes: each answer is kept as a [`Mark`].
//! Offsets never fall with later times, so two marks enclose the age of any message between them,
//! and a group that falls behind slowly needs one new mark per observation. Marks that contradict a
//! newer answer are dropped, as is everything about a recreated topic. Bounded by [`MARKS_MAX`] a
//! partition.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::native::{Found, Partition};

/// Marks per partition: 16 between its oldest waiting message and now are about a sixteenth of its
/// age apart; a tenth is needed. At 24 bytes each, 120,000 partitions with lag take 46 MB; a
/// partition without lag takes 24 bytes.
const MARKS_MAX: usize = 16;

/// A group unused for this long is dropped.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// One answer. Times are in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The time that was asked for.
    at: i64,
    /// The first message at or after it; if none, the partition's end then, which that message
    /// can't precede.
    first: i64,
    /// The first message's own time; before `at`: there was none.
    until: i64,
}

impl Mark {
    fn is_exact(&self) -> bool {
        self.until >= self.at
    }
}

/// Bounds of the times of the message at an offset and all later ones: `low` is at or before the
/// oldest of them, `high` after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Bracket {
    pub(super) low: Option<i64>,
    pub(super) high: Option<i64>,
}

/// Marks of one partition, by time.
#[derive(Clone, Debug, Default)]
struct PartitionMarks(Vec<Mark>);

impl PartitionMarks {
    fn note(&mut self, new: Mark) {
        // Later times never have earlier offsets: drop marks that contradict this.
        self.0.retain(|old| match old.at.cmp(&new.at) {
            std::cmp::Ordering::Less => old.first <= new.first,
            std::cmp::Ordering::Equal => false,
            std::cmp::Ordering::Greater => old.first >= new.first,
        });
        let place = self.0.partition_point(|old| old.at < new.at);
        self.0.insert(place, new);
    }

    fn bracket(&self, from: i64) -> Bracket {
        let exact_before = |mark: &&Mark| mark.is_exact() && mark.first <= from;
        let low = self.0.iter().filter(exact_before).map(|mark| mark.until).max();
        let after = |mark: &Mark| match mark.first {
            first if first > from => Some(mark.at),
            // This very message: nothing before it is younger, so it bounds itself.
            first if first == from && mark.is_exact() => Some(mark.until.saturating_add(1)),
            _ => None,
        };
        Bracket { low, high: self.0.iter().filter_map(after).min() }
    }

    /// Drops marks that a group at `from` no longer needs, and thins out the rest.
    fn keep(&mut self, from: i64, end: i64) {
        // Nothing can be past the end: it is another topic.
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
            // The first and the last stay; of the rest, the one with the nearest neighbours goes.
            let gap = |at: usize| self.0[at + 1].at - self.0[at - 1].at;
            let Some(least) = (1..self.0.len() - 1).min_by_key(|at| gap(*at)) else { break };
            self.0.remove(least);
        }
        self.0.shrink_to(MARKS_MAX);
    }
}

/// Marks of one topic, by partition.
#[derive(Debug, Default)]
struct TopicMarks {
    id: u128,
    partitions: Vec<PartitionMarks>,
}

/// What one group's partitions have taught.
#[derive(Debug, Default)]
pub(super) struct GroupMarks {
    topics: BTreeMap<Arc<str>, TopicMarks>,
}

impl GroupMarks {
    /// Sets a topic's id and partitions. Drops the marks of another topic of that name.
    pub(super) fn topic(&mut self, name: &Arc<str>, id: u128, partitions: usize) {
        let known = self.topics.entry(name.clone()).or_default();
        if known.id != id {
            *known = TopicMarks { id, partitions: Vec::new() };
        }
        known.partitions.resize_with(partitions, PartitionMarks::default);
    }

    /// Drops topics that the group no longer reads.
    pub(super) fn only(&mut self, names: &[Arc<str>]) {
        self.topics.retain(|name, _| names.contains(name));
    }

    fn of(&mut self, (topic, number): &Partition) -> Option<&mut PartitionMarks> {
        let number = usize::try_from(*number).ok()?;
        self.topics.get_mut(topic)?.partitions.get_mut(number)
    }

    /// Notes what was found at `at` in a partition that ended at `end` just before.
    pub(super) fn note(&mut self, partition: &Partition, at: i64, found: Found, end: i64) {
        let mark = match found.offset {
            // A message without a time counts as the time it was found by.
            Some(first) => Mark { at, first, until: found.at_millis.max(at) },
            None => Mark { at, first: end, until: i64::MIN },
        };
        if let Some(marks) = self.of(partition) {
            marks.note(mark);
        }
    }

    /// What is known of the message at `from` and later ones.
    pub(super) fn bracket(&self, (topic, number): &Partition, from: i64) -> Bracket {
        let marks = || self.topics.get(topic)?.partitions.get(usize::try_from(*number).ok()?);
        marks().map_or_else(Bracket::default, |marks| marks.bracket(from))
    }

    /// Keeps what is useful to a group that waits at `from` of a partition that ends at `end`.
    pub(super) fn keep(&mut self, partition: &Partition, from: i64, end: i64) {
        if let Some(marks) = self.of(partition) {
            match from < end {
                true => marks.keep(from, end),
                false => *marks = PartitionMarks::default(),
            }
        }
    }
}

/// What all groups' partitions have taught.
#[derive(Debug, Default)]
pub(super) struct Marks(HashMap<String, (GroupMarks, Instant)>);

impl Marks {
    /// The marks of a group, dropped when long unused.
    pub(super) fn group(&mut self, name: &str) -> &mut GroupMarks {
        let now = Instant::now();
        let known = self.0.entry(name.to_owned()).or_insert((GroupMarks::default(), now));
        known.1 = now;
        &mut known.0
    }

    /// Forgets groups that nobody asks about any more.
    pub(super) fn forget(&mut self) {
        let now = Instant::now();
        self.0.retain(|_, (_, asked)| now.duration_since(*asked) < FORGOTTEN_AFTER);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/time_marks.rs"]
mod tests;
