//! Tests of what `kafka/time_marks.rs` keeps to itself.

use super::*;
use proptest::prelude::*;

/// A partition whose message `n` is of the time `times[n]`.
fn first_at(times: &[i64], at: i64) -> Found {
    let found = times.iter().position(|time| *time >= at);
    let offset = found.map(|offset| i64::try_from(offset).unwrap());
    Found { offset, at_millis: found.map_or(-1, |offset| times[offset]) }
}

fn group(partitions: usize) -> (GroupMarks, Arc<str>) {
    let (mut marks, name) = (GroupMarks::default(), Arc::from("t"));
    marks.topic(&name, 1, partitions);
    (marks, name)
}

/// Scenario: a topic is made again under its name. Guarantee: nothing known of the old one is
/// held against the new one; more partitions of the same one take nothing away.
#[test]
fn a_topic_made_again_is_a_stranger() {
    let (mut marks, name) = group(1);
    let partition = (name.clone(), 0);
    marks.note(&partition, 100, Found { offset: Some(5), at_millis: 120 }, 9);
    marks.topic(&name, 1, 2);
    assert_eq!(marks.bracket(&partition, 5), Bracket { low: Some(120), high: Some(121) });
    marks.topic(&name, 2, 2);
    assert_eq!(marks.bracket(&partition, 5), Bracket::default());
}

/// Scenario: a partition ends before what was found in it, its records having been lost.
/// Guarantee: nothing known of it is kept.
#[test]
fn what_lies_past_the_end_is_forgotten() {
    let (mut marks, name) = group(1);
    let partition = (name, 0);
    marks.note(&partition, 100, Found { offset: Some(50), at_millis: 120 }, 60);
    marks.keep(&partition, 10, 40);
    assert_eq!(marks.bracket(&partition, 10), Bracket::default());
}

proptest! {
    /// Scenario: messages with growing times, any questions by time, among them some about
    /// times that no message has reached yet, a group that moves on, marks thinned out.
    /// Guarantee: the bracket always holds the true time of the message that waits, and marks
    /// stay few.
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
            marks.keep(&partition, waits, end);
            if from == there { continue }
            marks.note(&partition, at, first_at(&times[..there], at), end);
            let bracket = marks.bracket(&partition, waits);
            let truth = times[from];
            prop_assert!(bracket.low.is_none_or(|low| low <= truth), "{bracket:?}, {truth}");
            prop_assert!(bracket.high.is_none_or(|high| high > truth), "{bracket:?}, {truth}");
            marks.keep(&partition, waits, end);
            let after = marks.bracket(&partition, waits);
            prop_assert_eq!(after.low, bracket.low);
            prop_assert!(marks.of(&partition).unwrap().0.len() <= MARKS_MAX);
        }
    }
}
