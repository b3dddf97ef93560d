//! The age of the oldest message that a group has not committed. Pure.
//!
//! [`Behind`] is what still waits. [`Search`] returns which time to ask about next, until known
//! answers enclose the result. It asks nothing itself: answers are in the group's marks.

use std::collections::BTreeMap;

use super::native::Partition;
use super::time_marks::GroupMarks;

/// Offsets by partition.
pub(super) type Offsets = BTreeMap<Partition, i64>;

/// Younger than this counts as no age at all.
const YOUNG_MILLIS: i64 = 1_000;

/// Longest age reported: 30 days, more than topics keep.
const AGE_MILLIS_MAX: i64 = 30 * 86_400_000;

/// Relative precision of an age; at best a second.
const SHARE: i64 = 10;

/// Partitions with something uncommitted: from where to where.
#[derive(Debug)]
pub(super) struct Behind(BTreeMap<Partition, (i64, i64)>);

impl Behind {
    pub(super) fn of(begins: &Offsets, ends: &Offsets, committed: &Offsets) -> Self {
        let behind = ends.iter().filter_map(|(partition, end)| {
            let begin = begins.get(partition).copied().unwrap_or(0);
            // Messages that retention deleted are no lag, and nothing can be past the end.
            let from = committed.get(partition).copied().unwrap_or(begin).max(begin);
            (from < *end).then(|| (partition.clone(), (from, *end)))
        });
        Self(behind.collect())
    }

    pub(super) fn messages(&self) -> u64 {
        self.0.values().map(|(from, end)| end.abs_diff(*from)).sum()
    }

    /// Where `partition` ends, if something waits in it.
    pub(super) fn end(&self, partition: &Partition) -> Option<i64> {
        self.0.get(partition).map(|(_, end)| *end)
    }
}

/// What a group's lag is in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Age {
    /// Of the oldest message that waits.
    pub(super) seconds: f64,
    /// Whether nothing that waits is older than the bound.
    pub(super) within_bound: bool,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Ask which message was the first at or after this time, in each of these partitions.
    Ask(i64, Vec<Partition>),
    /// Found.
    Known(Age),
}

/// The search for one group's age at one time.
#[derive(Debug)]
pub(super) struct Search {
    now_millis: i64,
    bound_millis: i64,
    /// The first question is always asked: later observations need what it finds.
    begun: bool,
}

impl Search {
    pub(super) fn new(now_millis: i64, bound_seconds: u64) -> Self {
        let bound = i64::try_from(bound_seconds.max(1)).unwrap_or(i64::MAX);
        Self { now_millis, bound_millis: bound.saturating_mul(1_000), begun: false }
    }

    /// The next question, or the answer. Note each reply in `marks` before the next call; each
    /// leaves less to ask.
    pub(super) fn next(&mut self, behind: &Behind, marks: &GroupMarks) -> Next {
        if behind.0.is_empty() {
            return Next::Known(Age { seconds: 0.0, within_bound: true });
        }
        let now = self.now_millis;
        let lows: Vec<(&Partition, Option<i64>)> =
            behind.0.iter().map(|(it, (from, _))| (it, marks.bracket(it, *from).low)).collect();
        let highs = behind.0.iter().filter_map(|(it, (from, _))| marks.bracket(it, *from).high);
        // Nothing that waits is older than `low`; something is older than `high`.
        let low = lows.iter().map(|(_, low)| *low).min().flatten();
        let high = highs.min();
        // Only partitions that may have something older than `at`.
        let ask = |at: i64| {
            let open = lows.iter().filter(|(_, low)| low.is_none_or(|low| low < at));
            Next::Ask(at.max(0), open.map(|(partition, _)| (*partition).clone()).collect())
        };
        let is_older_than = |at: i64| match (low, high) {
            (_, Some(high)) if high <= at => Some(true),
            (Some(low), _) if low >= at => Some(false),
            _ => None,
        };
        let young = now.saturating_sub(YOUNG_MILLIS);
        if !std::mem::replace(&mut self.begun, true) {
            return ask_all(behind, young);
        }
        match is_older_than(young) {
            None => return ask(young),
            Some(false) => return Next::Known(Age { seconds: 0.0, within_bound: true }),
            Some(true) => {}
        }
        let Some(old) = is_older_than(now.saturating_sub(self.bound_millis)) else {
            return ask(now.saturating_sub(self.bound_millis));
        };
        // `young` was answered, so there is a high.
        let high = high.unwrap_or(young);
        let age = now.saturating_sub(high).max(0);
        let known =
            |millis: i64| Next::Known(Age { seconds: millis as f64 / 1_000.0, within_bound: !old });
        if age >= AGE_MILLIS_MAX {
            return known(AGE_MILLIS_MAX);
        }
        match low {
            // The first message there is has a time, too.
            None => ask(0),
            Some(low) if high.saturating_sub(low) <= (age / SHARE).max(YOUNG_MILLIS) => known(age),
            Some(low) => ask(middle(now, low, high)),
        }
    }
}

fn ask_all(behind: &Behind, at: i64) -> Next {
    Next::Ask(at.max(0), behind.0.keys().cloned().collect())
}

/// The geometric mean of the ages at `low` and `high`, which are at least 2 apart, as a time.
fn middle(now: i64, low: i64, high: i64) -> i64 {
    let age = |at: i64| now.saturating_sub(at).clamp(1, AGE_MILLIS_MAX * 2) as f64;
    let between = (age(low) * age(high)).sqrt() as i64;
    now.saturating_sub(between).clamp(low.saturating_add(1), high.saturating_sub(1))
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/lag_age.rs"]
mod tests;
