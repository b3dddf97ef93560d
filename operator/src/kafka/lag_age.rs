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
mod tests {
    use super::*;
    use crate::kafka::native::Found;
    use proptest::prelude::*;
    use std::sync::Arc;

    fn offsets(values: &[i64]) -> Offsets {
        let numbered = values.iter().zip(0..).map(|(offset, at)| ((Arc::from("t"), at), *offset));
        numbered.collect()
    }

    /// A partition of one message a second: offset `n` is of the second `n`.
    fn first_at(at: i64, end: i64) -> Found {
        let offset = (at + 999) / 1_000;
        let offset = (offset < end).then_some(offset);
        Found { offset, at_millis: offset.map_or(-1, |offset| offset * 1_000) }
    }

    /// Runs one search; returns the age and how many questions it took.
    fn look(marks: &mut GroupMarks, now: i64, bound: u64, from: i64) -> (Age, usize) {
        let topic: Arc<str> = Arc::from("t");
        marks.topic(&topic, 1, 1);
        let end = now / 1_000;
        marks.keep(&(topic, 0), from, end);
        let behind = Behind::of(&offsets(&[0]), &offsets(&[end]), &offsets(&[from]));
        let mut search = Search::new(now, bound);
        for asked in 0..64 {
            match search.next(&behind, marks) {
                Next::Known(age) => return (age, asked),
                Next::Ask(at, partitions) => {
                    for partition in partitions {
                        marks.note(&partition, at, first_at(at, end), end);
                    }
                }
            }
        }
        panic!("the search does not end");
    }

    /// Scenario: no commit yet, retention past the commit, and nothing left. Guarantee: lag counts
    /// from what can still be read.
    #[test]
    fn lag_counts_from_what_can_still_be_read() {
        let behind = Behind::of(&offsets(&[0, 50, 9]), &offsets(&[10, 60, 9]), &Offsets::new());
        assert_eq!(behind.messages(), 20);
        let committed = offsets(&[4, 20, 9]);
        let behind = Behind::of(&offsets(&[0, 50, 9]), &offsets(&[10, 60, 9]), &committed);
        assert_eq!(behind.messages(), 6 + 10);
        assert_eq!(behind.0.len(), 2);
    }

    /// Scenario: a group that is two seconds late, one that is five minutes late and stays so, one
    /// that stands still, each looked at every ten seconds. Guarantee: once what it needs is known,
    /// a look takes one question or two for a group that is minutes late, and no more than four
    /// for one that is seconds late: its age is less than from look to look.
    #[test]
    fn a_steady_lag_takes_few_questions_a_look() {
        /// The first uncommitted message's second, at a second.
        type Lag = fn(i64) -> i64;
        let lags: [(Lag, usize); 3] = [(|now| now - 2, 4), (|now| now - 300, 2), (|_| 999_500, 1)];
        for (lag, most) in lags {
            let mut marks = GroupMarks::default();
            for tick in 0..200 {
                let second = 1_000_000 + tick * 10;
                let (age, asked) = look(&mut marks, second * 1_000, 60, lag(second));
                let truth = (second - lag(second)) as f64;
                assert!((age.seconds - truth).abs() <= truth / 10.0 + 1.0, "{age:?} for {truth}");
                assert_eq!(age.within_bound, truth <= 60.0);
                assert!(asked <= 12, "tick {tick}: {asked} questions");
                assert!(tick < 60 || asked <= most, "tick {tick}: {asked} questions");
            }
        }
    }

    proptest! {
        /// Scenario: messages one a second, the oldest uncommitted of any age, any bound.
        /// Guarantee: the bound is judged exactly, the age is within a tenth (or a second), in few
        /// questions; asked again at once, it takes one.
        #[test]
        fn the_age_found_is_near_the_true_one(age in 1i64..2_000_000, bound in 1u64..100_000) {
            let (mut marks, now) = (GroupMarks::default(), 3_000_000);
            let (found, asked) = look(&mut marks, now * 1_000, bound, now - age);
            prop_assert_eq!(found.within_bound, age <= i64::try_from(bound).unwrap());
            let off = (found.seconds - age as f64).abs();
            prop_assert!(off <= (age as f64 / 10.0).max(1.0) + 1.0, "{found:?} for {age}");
            prop_assert!(asked <= 14, "{asked} questions");
            let (again, asked) = look(&mut marks, now * 1_000, bound, now - age);
            prop_assert!(asked <= 1, "{asked} questions");
            prop_assert_eq!(again, found);
        }
    }
}
