//! The age of the oldest message that a group has not committed. Pure.
//!
//! [`LagRanges`] is the backlog. [`Search`] returns which time to query next, until known offsets
//! enclose the result. It sends no queries: the results are in the group's marks.

use std::collections::BTreeMap;

use super::time_marks::GroupMarks;
use crate::kafka::client::native::TopicPartition;

pub(in crate::kafka) type Offsets = BTreeMap<TopicPartition, i64>;

/// An age below this counts as zero.
const YOUNG_MILLIS: i64 = 1_000;

/// Longest reported age: 30 days, longer than topics' retention.
const AGE_MILLIS_MAX: i64 = 30 * 86_400_000;

/// The relative precision of an age; at best a second.
const SHARE: i64 = 10;

/// The partitions with uncommitted messages: the first uncommitted offset and the end.
#[derive(Debug)]
pub(in crate::kafka) struct LagRanges(BTreeMap<TopicPartition, (i64, i64)>);

impl LagRanges {
    pub(super) fn from_offsets(begins: &Offsets, ends: &Offsets, committed: &Offsets) -> Self {
        let behind = ends.iter().filter_map(|(partition, end)| {
            let begin = begins.get(partition).copied().unwrap_or(0);
            // Messages that retention deleted are no lag, and no commit can be past the end.
            let from = committed.get(partition).copied().unwrap_or(begin).max(begin);
            (from < *end).then(|| (partition.clone(), (from, *end)))
        });
        Self(behind.collect())
    }

    pub(super) fn message_count(&self) -> u64 {
        self.0.values().map(|(from, end)| end.abs_diff(*from)).sum()
    }

    /// Returns the end of `partition`, if it has uncommitted messages.
    pub(super) fn end_of(&self, partition: &TopicPartition) -> Option<i64> {
        self.0.get(partition).map(|(_, end)| *end)
    }
}

/// The age of a group's lag.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::kafka) struct Age {
    /// The age of the oldest uncommitted message.
    pub(in crate::kafka) seconds: f64,
    /// Whether no uncommitted message is older than the bound.
    pub(in crate::kafka) within_bound: bool,
}

/// The next step of a search.
#[derive(Debug, PartialEq)]
pub(in crate::kafka) enum SearchStep {
    /// Query the first message at or after this time, in each of these partitions.
    Query(i64, Vec<TopicPartition>),
    /// The age is known.
    Known(Age),
}

/// The search for one group's age at one time.
#[derive(Debug)]
pub(in crate::kafka) struct Search {
    now_millis: i64,
    bound_millis: i64,
    /// Whether the first query was returned. It is always sent: later observations need its
    /// results.
    begun: bool,
}

impl Search {
    pub(in crate::kafka) fn new(now_millis: i64, bound_seconds: u64) -> Self {
        let bound = i64::try_from(bound_seconds.max(1)).unwrap_or(i64::MAX);
        Self { now_millis, bound_millis: bound.saturating_mul(1_000), begun: false }
    }

    /// Returns the next query, or the result. The caller records each response in `marks` before
    /// the next call; each leaves less to query.
    pub(in crate::kafka) fn next(&mut self, behind: &LagRanges, marks: &GroupMarks) -> SearchStep {
        if behind.0.is_empty() {
            return SearchStep::Known(Age { seconds: 0.0, within_bound: true });
        }
        let now = self.now_millis;
        let lows: Vec<(&TopicPartition, Option<i64>)> =
            behind.0.iter().map(|(it, (from, _))| (it, marks.bracket_at(it, *from).low)).collect();
        let highs = behind.0.iter().filter_map(|(it, (from, _))| marks.bracket_at(it, *from).high);
        // No uncommitted message is older than `low`; some message is older than `high`.
        let low = lows.iter().map(|(_, low)| *low).min().flatten();
        let high = highs.min();
        // Query only partitions that may have a message older than `at`.
        let query = |at: i64| {
            let open = lows.iter().filter(|(_, low)| low.is_none_or(|low| low < at));
            SearchStep::Query(at.max(0), open.map(|(partition, _)| (*partition).clone()).collect())
        };
        let is_older_than = |at: i64| match (low, high) {
            (_, Some(high)) if high <= at => Some(true),
            (Some(low), _) if low >= at => Some(false),
            _ => None,
        };
        let young = now.saturating_sub(YOUNG_MILLIS);
        if !std::mem::replace(&mut self.begun, true) {
            return query_all(behind, young);
        }
        match is_older_than(young) {
            None => return query(young),
            Some(false) => return SearchStep::Known(Age { seconds: 0.0, within_bound: true }),
            Some(true) => {}
        }
        let Some(old) = is_older_than(now.saturating_sub(self.bound_millis)) else {
            return query(now.saturating_sub(self.bound_millis));
        };
        // The query for `young` was answered, so `high` exists.
        let high = high.unwrap_or(young);
        let age = now.saturating_sub(high).max(0);
        let known = |millis: i64| {
            SearchStep::Known(Age { seconds: millis as f64 / 1_000.0, within_bound: !old })
        };
        if age >= AGE_MILLIS_MAX {
            return known(AGE_MILLIS_MAX);
        }
        match low {
            // The partition's first message has a time, too.
            None => query(0),
            Some(low) if high.saturating_sub(low) <= (age / SHARE).max(YOUNG_MILLIS) => known(age),
            Some(low) => query(geometric_mean(now, low, high)),
        }
    }
}

fn query_all(behind: &LagRanges, at: i64) -> SearchStep {
    SearchStep::Query(at.max(0), behind.0.keys().cloned().collect())
}

/// Returns the geometric mean of the ages at `low` and `high`, which differ by at least 2, as a
/// time.
fn geometric_mean(now: i64, low: i64, high: i64) -> i64 {
    let age = |at: i64| now.saturating_sub(at).clamp(1, AGE_MILLIS_MAX * 2) as f64;
    let between = (age(low) * age(high)).sqrt() as i64;
    now.saturating_sub(between).clamp(low.saturating_add(1), high.saturating_sub(1))
}

#[cfg(test)]
mod tests;
