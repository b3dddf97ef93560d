//! Tests of the private parts of `kafka/lag/age.rs`.

use super::*;
use crate::kafka::client::native::ListedOffset;
use proptest::prelude::*;
use std::sync::Arc;

fn offsets(values: &[i64]) -> Offsets {
    let numbered = values.iter().zip(0..).map(|(offset, at)| ((Arc::from("t"), at), *offset));
    numbered.collect()
}

/// Simulates a partition of one message a second: offset `n` is of the second `n`.
fn first_at(at: i64, end: i64) -> ListedOffset {
    let offset = (at + 999) / 1_000;
    let offset = (offset < end).then_some(offset);
    ListedOffset { offset, at_millis: offset.map_or(-1, |offset| offset * 1_000) }
}

/// Runs one search, and returns the age and the number of queries.
fn look(marks: &mut GroupMarks, now: i64, bound: u64, from: i64) -> (Age, usize) {
    let topic: Arc<str> = Arc::from("t");
    marks.set_topic(&topic, 1, 1);
    let end = now / 1_000;
    marks.prune_before(&(topic, 0), from, end);
    let behind = LagRanges::from_offsets(&offsets(&[0]), &offsets(&[end]), &offsets(&[from]));
    let mut search = Search::new(now, bound);
    for asked in 0..64 {
        match search.next(&behind, marks) {
            SearchStep::Known(age) => return (age, asked),
            SearchStep::Query(at, partitions) => {
                for partition in partitions {
                    marks.record_offset(&partition, at, first_at(at, end), end);
                }
            }
        }
    }
    panic!("the search does not end");
}

/// Scenario: no commit yet, retention past the commit, and no backlog. Guarantee: lag counts from
/// the first message that can still be read.
#[test]
fn lag_counts_from_what_can_still_be_read() {
    let behind =
        LagRanges::from_offsets(&offsets(&[0, 50, 9]), &offsets(&[10, 60, 9]), &Offsets::new());
    assert_eq!(behind.message_count(), 20);
    let committed = offsets(&[4, 20, 9]);
    let behind = LagRanges::from_offsets(&offsets(&[0, 50, 9]), &offsets(&[10, 60, 9]), &committed);
    assert_eq!(behind.message_count(), 6 + 10);
    assert_eq!(behind.0.len(), 2);
}

/// Scenario: a group with a lag of two seconds, one with a constant lag of five minutes, one that
/// makes no progress, each observed every ten seconds. Guarantee: once the needed offsets are
/// known, an observation takes one or two queries for a group that is minutes late, and no more
/// than four for one that is seconds late: its age is less than the time between observations.
#[test]
fn a_steady_lag_takes_few_questions_a_look() {
    /// Maps a second to the second of the first uncommitted message.
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
    /// Scenario: messages one a second, the oldest uncommitted of any age, any bound. Guarantee:
    /// the bound is judged exactly, the age is within a tenth (or a second), in few queries; an
    /// immediate repetition takes one.
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
