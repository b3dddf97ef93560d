//! Tests of `lag.rs`.

use super::*;

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Scenario: partitions that lag, don't lag, were never committed, and are committed below what
/// retention left. Guarantee: the messages that exist and aren't stored, and the age of the oldest.
#[test]
fn lag_counts_what_exists_and_is_not_stored() {
    let point = |commit_point, oldest_millis| LagPoint {
        commit_point,
        oldest_millis,
        since: at(90),
        low: None,
    };
    let behind = compute_lag(&point(Some(40), Some(70_000)), 0, 100, at(100));
    assert_eq!(behind, (60, Duration::from_secs(30)));
    assert_eq!(compute_lag(&point(Some(100), Some(70_000)), 0, 100, at(100)), (0, Duration::ZERO));
    assert_eq!(compute_lag(&point(None, None), 30, 100, at(100)), (70, Duration::from_secs(10)));
    assert_eq!(compute_lag(&point(Some(5), None), 30, 100, at(100)).0, 70);
    let future = compute_lag(&point(Some(5), Some(500_000)), 0, 100, at(100));
    assert_eq!(future.1, Duration::ZERO, "a producer's clock may be ahead");
}

/// Scenario: the machine's clock steps back by a day, then ahead by one. Guarantee: the number of
/// messages doesn't change; the age is zero, or too long by the step, never an error.
#[test]
fn a_clock_that_steps_changes_ages_alone() {
    let day = Duration::from_secs(86_400);
    let noon = at(10 * 86_400);
    let point =
        |oldest| LagPoint { commit_point: Some(40), oldest_millis: oldest, since: noon, low: None };
    let stamp = i64::try_from(10 * 86_400_000_u64 - 5_000).ok();
    for (oldest, age) in [(None, Duration::ZERO), (stamp, Duration::from_secs(5))] {
        assert_eq!(compute_lag(&point(oldest), 0, 100, noon), (60, age));
        assert_eq!(compute_lag(&point(oldest), 0, 100, noon - day), (60, Duration::ZERO));
        assert_eq!(compute_lag(&point(oldest), 0, 100, noon + day), (60, age + day));
    }
}
