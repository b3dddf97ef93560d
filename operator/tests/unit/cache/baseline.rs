//! Tests of what `cache/baseline.rs` keeps to itself.

use super::*;

fn look(at: i64, pods: &[(&str, u64)]) -> Look {
    let of = |(pod, records): &(&str, u64)| {
        let counters =
            Sample { at, records_in: *records, cpu_seconds: *records as f64, ..Sample::default() };
        ((*pod).to_owned(), counters)
    };
    pods.iter().map(of).collect()
}

fn records(loads: &[(String, Load)]) -> Vec<(&str, u64)> {
    loads.iter().map(|(pod, load)| (pod.as_str(), load.records_in)).collect()
}

/// Scenario: a pod goes on, one starts anew, one comes later; then another watch. Guarantee:
/// each load is what the pod did since the watch began or since its start; another watch is
/// another beginning.
#[test]
fn a_watch_counts_from_its_beginning() {
    let mut baseline = Baseline::default();
    baseline.watch("one", look(100, &[("a", 1_000), ("b", 1_000)]));
    baseline.watch("one", look(110, &[("a", 1_500), ("b", 40), ("c", 7)]));
    assert_eq!(records(&baseline.loads()), [("a", 500), ("b", 40)]);
    baseline.watch("one", look(120, &[("a", 1_600), ("b", 60), ("c", 9)]));
    assert_eq!(records(&baseline.loads()), [("a", 600), ("b", 60), ("c", 2)]);
    baseline.watch("two", look(130, &[("a", 1_700)]));
    baseline.watch("two", look(140, &[("a", 1_701)]));
    assert_eq!(records(&baseline.loads()), [("a", 1)]);
}

/// Scenario: a pool at rest for twenty minutes, then a watch. Guarantee: its past reaches back
/// five to ten minutes and ends where the watch began.
#[test]
fn the_past_is_what_was_done_before_the_watch() {
    let mut baseline = Baseline::default();
    for at in (0..1_200).step_by(10) {
        baseline.rest(look(at, &[("a", at.unsigned_abs())]));
    }
    baseline.watch("one", look(1_200, &[("a", 3)]));
    let seconds = baseline.past()[0].seconds;
    assert!((300.0..=600.0).contains(&seconds), "{seconds}");
    let before = baseline.past();
    baseline.watch("one", look(1_210, &[("a", 4)]));
    assert_eq!(baseline.past(), before);
}
