//! Tests of the private parts of `kafka/lag/time_marks.rs`.

use super::*;
use proptest::prelude::*;

/// Simulates a partition whose message `n` has the time `times[n]`.
fn first_at(times: &[i64], at: i64) -> ListedOffset {
    let found = times.iter().position(|time| *time >= at);
    let offset = found.map(|offset| i64::try_from(offset).unwrap());
    ListedOffset { offset, at_millis: found.map_or(-1, |offset| times[offset]) }
}

fn group(partitions: usize) -> (GroupMarks, Arc<str>) {
    let (mut marks, name) = (GroupMarks::default(), Arc::from("t"));
    marks.set_topic(&name, 1, partitions);
    (marks, name)
}

/// Scenario: a topic is recreated under its name. Guarantee: no mark of the old topic applies to
/// the new one; more partitions of the same topic drop no marks.
#[test]
fn a_topic_made_again_is_a_stranger() {
    let (mut marks, name) = group(1);
    let partition = (name.clone(), 0);
    marks.record_offset(&partition, 100, ListedOffset { offset: Some(5), at_millis: 120 }, 9);
    marks.set_topic(&name, 1, 2);
    assert_eq!(marks.bracket_at(&partition, 5), Bracket { low: Some(120), high: Some(121) });
    marks.set_topic(&name, 2, 2);
    assert_eq!(marks.bracket_at(&partition, 5), Bracket::default());
}

/// Scenario: a partition ends before a recorded offset, because its records were lost. Guarantee:
/// its marks are dropped.
#[test]
fn what_lies_past_the_end_is_forgotten() {
    let (mut marks, name) = group(1);
    let partition = (name, 0);
    marks.record_offset(&partition, 100, ListedOffset { offset: Some(50), at_millis: 120 }, 60);
    marks.prune_before(&partition, 10, 40);
    assert_eq!(marks.bracket_at(&partition, 10), Bracket::default());
}

proptest! {
    /// Scenario: messages with growing times, any queries by time, some for times that no message
    /// has reached yet, a group that makes progress, marks thinned out. Guarantee: the bracket
    /// always contains the true time of the first uncommitted message, and marks are few.
    #[test]
    fn the_bracket_holds_the_true_time(
        steps in prop::collection::vec(0i64..50, 1..80),
        looks in prop::collection::vec((0usize..80, 0i64..3_000, 0usize..80), 1..120),
    ) {
        let times: Vec<i64> = steps
            .iter()
            .scan(1_000, |time, step| { *time += step; Some(*time) })
            .collect();
        let (mut marks, name) = group(1);
        let partition = (name, 0);
        let (mut from, mut there) = (0, 1);
        for (moved, at, grown) in looks {
            there = (there + grown / 8).min(times.len());
            from = (from + moved / 16).min(there);
            let (waits, end) = (i64::try_from(from).unwrap(), i64::try_from(there).unwrap());
            marks.prune_before(&partition, waits, end);
            if from == there { continue }
            marks.record_offset(&partition, at, first_at(&times[..there], at), end);
            let bracket = marks.bracket_at(&partition, waits);
            let truth = times[from];
            prop_assert!(bracket.low.is_none_or(|low| low <= truth), "{bracket:?}, {truth}");
            prop_assert!(bracket.high.is_none_or(|high| high > truth), "{bracket:?}, {truth}");
            marks.prune_before(&partition, waits, end);
            let after = marks.bracket_at(&partition, waits);
            prop_assert_eq!(after.low, bracket.low);
            prop_assert!(marks.partition_marks(&partition).unwrap().0.len() <= MARKS_MAX);
        }
    }
}
