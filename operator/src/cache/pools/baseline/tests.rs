//! Tests of the private parts of `cache/pools/baseline.rs`.

use super::*;

fn look(at: i64, pods: &[(&str, u64)]) -> SamplesByPod {
    let of = |(pod, records): &(&str, u64)| {
        let counters = PodSample {
            at,
            records_in: *records,
            cpu_seconds: *records as f64,
            ..PodSample::default()
        };
        ((*pod).to_owned(), Arc::new(counters))
    };
    pods.iter().map(of).collect()
}

fn records(loads: &[(String, LoadFigures)]) -> Vec<(&str, u64)> {
    loads.iter().map(|(pod, load)| (pod.as_str(), load.records_in)).collect()
}

/// Scenario: one pod continues, one restarts, one joins later; then another watch period.
/// Guarantee: each load counts from the start of the watch period or of the pod; another watch
/// period counts from its own start.
#[test]
fn a_watch_counts_from_its_beginning() {
    let mut baseline = Baseline::default();
    baseline.record_watched("one", look(100, &[("a", 1_000), ("b", 1_000)]));
    baseline.record_watched("one", look(110, &[("a", 1_500), ("b", 40), ("c", 7)]));
    assert_eq!(records(&baseline.watched_loads()), [("a", 500), ("b", 40)]);
    baseline.record_watched("one", look(120, &[("a", 1_600), ("b", 60), ("c", 9)]));
    assert_eq!(records(&baseline.watched_loads()), [("a", 600), ("b", 60), ("c", 2)]);
    baseline.record_watched("two", look(130, &[("a", 1_700)]));
    baseline.record_watched("two", look(140, &[("a", 1_701)]));
    assert_eq!(records(&baseline.watched_loads()), [("a", 1)]);
}

/// Scenario: a pool without a rollout for twenty minutes, then a watch period. Guarantee: its past
/// covers five to ten minutes and ends where the watch period began.
#[test]
fn the_past_is_what_was_done_before_the_watch() {
    let mut baseline = Baseline::default();
    for at in (0..1_200).step_by(10) {
        baseline.record_past(look(at, &[("a", at.unsigned_abs())]));
    }
    baseline.record_watched("one", look(1_200, &[("a", 3)]));
    let seconds = baseline.past_loads()[0].seconds;
    assert!((300.0..=600.0).contains(&seconds), "{seconds}");
    let before = baseline.past_loads();
    baseline.record_watched("one", look(1_210, &[("a", 4)]));
    assert_eq!(baseline.past_loads(), before);
}
