//! Tests of which absent pods count against a change.

use super::*;

const BEGUN: (&str, bool) = ("a", true);
const BEFORE: (&str, bool) = ("a", false);

fn count(pods: u32, since: i64) -> Option<AbsentCount> {
    Some(AbsentCount { pods, since })
}

/// Scenario: the number of absent pods rises, stays, falls and reaches zero. Guarantee: the time
/// starts with the first absent pod and restarts whenever the number falls.
#[test]
fn the_time_of_absence_starts_again_when_pods_are_made() {
    let mut clock = AbsentClock::default();
    let samples = [
        (0, 0, None),
        (10, 1, count(1, 10)),
        (20, 3, count(3, 10)),
        (30, 3, count(3, 10)),
        (40, 2, count(2, 40)),
        (50, 0, None),
        (60, 2, count(2, 60)),
    ];
    for (now, pods, expected) in samples {
        assert_eq!(clock.record_count(pods, now), expected, "at {now}");
    }
}

/// Scenario: samples of (wanted, existing) pods before and during a change. Guarantee: the change
/// has lost only pods that existed since it began, not those absent before it, nor those of nodes
/// that join or leave during it.
#[test]
fn a_change_has_lost_only_pods_that_existed_since_it_began() {
    type Sample = ((&'static str, bool), (u32, u32), u32);
    let cases: [(&str, &[Sample]); 7] = [
        ("absent before", &[(BEFORE, (10, 8), 0), (BEGUN, (10, 8), 0), (BEGUN, (10, 7), 1)]),
        ("made meanwhile", &[(BEFORE, (10, 8), 0), (BEGUN, (10, 10), 0), (BEGUN, (10, 9), 1)]),
        ("no memory", &[(BEGUN, (10, 8), 0), (BEGUN, (10, 7), 1)]),
        ("another change", &[(BEGUN, (10, 10), 0), (("b", true), (10, 9), 0)]),
        ("before again", &[(BEGUN, (10, 10), 0), (BEFORE, (10, 9), 0), (BEGUN, (10, 9), 0)]),
        ("nodes come", &[(BEFORE, (10, 10), 0), (BEGUN, (15, 10), 0), (BEGUN, (15, 9), 1)]),
        ("nodes leave", &[(BEFORE, (10, 8), 0), (BEGUN, (8, 6), 0), (BEGUN, (8, 5), 1)]),
    ];
    for (name, samples) in cases {
        let mut lost = LostPods::default();
        for (at, (change, pods, expected)) in samples.iter().enumerate() {
            let found = lost.record_pods(*change, *pods, 0).map_or(0, |count| count.pods);
            assert_eq!(found, *expected, "{name}, sample {at}");
        }
    }
}

/// Scenario: pods 0 to 3 before and during a change that also adds and removes pods. Guarantee: a
/// pod is lost if it existed since the change began and is still wanted; each is absent since its
/// first sample without it.
#[test]
fn a_pod_is_lost_if_it_existed_since_the_change_began() {
    let mut pods = AbsentPods::default();
    let mut record = |now, size: usize, existing: &[usize], has_begun| {
        let wanted = (0..size).map(|it| (it.to_string(), existing.contains(&it)));
        pods.record_pods(wanted, has_begun, now);
        let all = pods.by_name().iter().map(|(name, pod)| (name.clone(), pod.since, pod.is_lost));
        all.collect::<Vec<_>>()
    };
    let pod = |name: usize, since, is_lost| (name.to_string(), since, is_lost);
    assert_eq!(record(0, 3, &[0, 1], false), [pod(2, 0, false)]);
    assert_eq!(record(10, 3, &[0], true), [pod(1, 10, true), pod(2, 0, false)]);
    assert_eq!(record(20, 4, &[0, 1], true), [pod(2, 0, false), pod(3, 20, false)]);
    assert_eq!(record(30, 4, &[0, 1, 2, 3], true), []);
    assert_eq!(record(40, 4, &[0, 1], true), [pod(2, 40, true), pod(3, 40, true)]);
    assert_eq!(record(50, 3, &[0, 1], true), [pod(2, 40, true)]);
    assert_eq!(record(60, 4, &[0, 1], true), [pod(2, 40, true), pod(3, 60, false)]);
    assert_eq!(record(70, 4, &[0, 1], false), [pod(2, 40, false), pod(3, 60, false)]);
    let mut restarted = AbsentPods::default();
    restarted.record_pods([("0".to_owned(), false)], true, 80);
    assert!(!restarted.by_name()["0"].is_lost, "absent at the first sample: from before");
}
