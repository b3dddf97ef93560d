//! Tests the private parts of `controllers/gateway/retention_loss.rs`.

use std::sync::Arc;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn look(pods: &[(&str, Option<i64>, u64)]) -> ScrapeResults {
    let one = |(pod, started_at, lost): &(&str, Option<i64>, u64)| {
        let lost_to_retention = [("otlp_traces".to_owned(), *lost)].into();
        let sample =
            PodSample { started_at: *started_at, lost_to_retention, ..PodSample::default() };
        ((*pod).to_owned(), Ok(Arc::new(sample)))
    };
    pods.iter().map(one).collect()
}

fn total(losses: &Losses) -> i64 {
    losses.lost.as_ref().map_or(0, |tally| tally.total)
}

/// Scenario: two pods lose messages; one restarts and soon has lost more than before, one silently
/// restarts, one is removed. Guarantee: the total is the sum of all processes' counts and never
/// shrinks.
#[test]
fn the_total_is_what_all_processes_counted() {
    let mut losses = Losses::default();
    for (second, pods, expected) in [
        (0, vec![("a", Some(1), 0), ("b", None, 0)], 0),
        (100, vec![("a", Some(1), 5), ("b", None, 10)], 15),
        (200, vec![("a", Some(2), 7), ("b", None, 10)], 22),
        (300, vec![("a", Some(2), 7), ("b", None, 4)], 26),
        (400, vec![], 26),
        (500, vec![("a", Some(2), 8)], 27),
    ] {
        losses.record_scrapes(&look(&pods), at(second));
        assert_eq!(total(&losses), expected, "at {second}");
    }
    assert_eq!(losses.lost.unwrap().parts[0].count, 27);
    assert_eq!(losses.dead_letters, None);
}

/// Scenario: a pod loses a message at each observation, ten seconds apart. Guarantee: the status is
/// rewritten once a minute, and then includes all of them.
#[test]
fn what_goes_on_is_written_once_a_minute() {
    let mut losses = Losses::default();
    let mut writes = 0;
    for step in 1..=25_u32 {
        let before = losses.clone();
        losses.record_scrapes(&look(&[("a", Some(1), step.into())]), at(i64::from(step) * 10));
        writes += i32::from(losses != before);
    }
    assert_eq!((writes, total(&losses)), (5, 25));
}

/// Scenario: thousands of pods come and go, each with a loss. Guarantee: the stored counts are
/// bounded and include the present pods.
#[test]
fn what_is_remembered_is_bounded() {
    let mut losses = Losses::default();
    for step in 0..1_000 {
        let name = format!("pod-{step}");
        losses.record_scrapes(&look(&[(&name, Some(1), 1)]), at(step * 100));
    }
    let tally = losses.lost.unwrap();
    assert_eq!((tally.total, tally.processes.len()), (1_000, COUNTED_MAX));
    assert!(tally.processes.iter().any(|it| it.pod == "pod-999"));
}

/// Scenario: more pods than are stored lose a message each, observed twice; then a stored one loses
/// another. Guarantee: nothing is counted twice.
#[test]
fn more_pods_than_are_remembered_are_not_counted_twice() {
    let mut losses = Losses::default();
    let pods: Vec<String> = (0..COUNTED_MAX + 100).map(|at| format!("pod-{at:03}")).collect();
    let mut counts: Vec<_> = pods.iter().map(|pod| (pod.as_str(), Some(1), 1)).collect();
    let most = i64::try_from(COUNTED_MAX).unwrap();
    for second in [0, 100] {
        losses.record_scrapes(&look(&counts), at(second));
        assert_eq!(total(&losses), most);
    }
    counts[0].2 = 2;
    losses.record_scrapes(&look(&counts), at(200));
    assert_eq!(total(&losses), most + 1);
    assert_eq!(losses.lost.unwrap().processes.len(), COUNTED_MAX);
}
