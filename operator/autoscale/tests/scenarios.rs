//! Written-out traces: what the pool does, minute by minute.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use millrace_autoscale::{Decision, Lag, Observation, Policy, Reason, State, decide};

/// A pool that is played forward, ten seconds at a time.
struct Pool {
    policy: Policy,
    state: State,
    now: i64,
    size: Option<u32>,
}

impl Pool {
    fn new(min: u32, max: u32) -> Self {
        let policy = Policy::with_bounds(None, min, max);
        Self { policy, state: State::default(), now: 1_000, size: None }
    }

    fn tick(&mut self, lag: Option<(u64, bool)>, rollout: bool) -> Decision {
        self.now += 10;
        let seen = Observation {
            now_seconds: self.now,
            current: self.size,
            ready: self.size.unwrap_or(0),
            rollout_under_way: rollout,
            partitions: Some(12),
            lag: lag.map(|(messages, within_bound)| Lag {
                messages,
                within_bound,
                observed_seconds: self.now,
            }),
        };
        let decision = decide(&seen, &self.policy, &self.state);
        self.state = decision.state;
        self.size = Some(decision.replicas);
        decision
    }

    fn run(&mut self, seconds: i64, lag: Option<(u64, bool)>) -> Vec<u32> {
        let mut sizes: Vec<u32> =
            (0..seconds / 10).map(|_| self.tick(lag, false).replicas).collect();
        sizes.dedup();
        sizes
    }
}

const BEHIND: Option<(u64, bool)> = Some((1_000_000, false));
const CAUGHT_UP: Option<(u64, bool)> = Some((3, true));
const BUSY_BUT_FINE: Option<(u64, bool)> = Some((5_000, true));

/// Scenario: a pool that was never made. Guarantee: it starts at its smallest size, once.
#[test]
fn a_new_pool_starts_at_its_minimum() {
    let mut pool = Pool::new(2, 24);
    let first = pool.tick(None, false);
    assert_eq!((first.replicas, first.reason), (2, Reason::Initial));
}

/// Scenario: lag stays above its bound. Guarantee: the pool grows step by step to the number of
/// partitions, not at once and not beyond.
#[test]
fn lasting_lag_grows_the_pool_in_steps_up_to_the_partitions() {
    let mut pool = Pool::new(1, 24);
    assert_eq!(pool.run(3600, BEHIND), [1, 2, 3, 4, 6, 12]);
    assert_eq!(pool.tick(BEHIND, false).reason, Reason::AtCeiling);
}

/// Scenario: a spike of half a minute. Guarantee: nothing is changed for it.
#[test]
fn a_short_spike_changes_nothing() {
    let mut pool = Pool::new(1, 24);
    pool.run(600, BUSY_BUT_FINE);
    assert_eq!(pool.run(30, BEHIND), [1]);
    assert_eq!(pool.run(600, BUSY_BUT_FINE), [1]);
}

/// Scenario: no lag for hours. Guarantee: one step down per half hour, never below the minimum.
#[test]
fn an_idle_pool_shrinks_slowly_to_its_minimum() {
    let mut pool = Pool::new(2, 24);
    pool.size = Some(12);
    assert_eq!(pool.run(1_700, CAUGHT_UP), [12]);
    assert_eq!(pool.run(200, CAUGHT_UP), [12, 6]);
    assert_eq!(pool.run(6 * 3600, CAUGHT_UP), [6, 4, 3, 2]);
}

/// Scenario: steady work inside the bound for a day. Guarantee: no change at all.
#[test]
fn constant_load_never_flaps() {
    let mut pool = Pool::new(1, 24);
    pool.size = Some(4);
    assert_eq!(pool.run(24 * 3600, BUSY_BUT_FINE), [4]);
}

/// Scenario: the broker stops answering while the pool is large. Guarantee: held, and not shrunk
/// right after the news is back: the idle window starts again.
#[test]
fn missing_signals_hold_the_size_and_start_the_windows_again() {
    let mut pool = Pool::new(1, 24);
    pool.size = Some(12);
    pool.run(1_700, CAUGHT_UP);
    let held = pool.tick(None, false);
    assert_eq!((held.replicas, held.reason), (12, Reason::HoldSignalMissing));
    assert_eq!(pool.run(1_700, CAUGHT_UP), [12]);
}

/// Scenario: pods are being replaced while lag is high. Guarantee: held until that is over.
#[test]
fn a_rollout_holds_the_size() {
    let mut pool = Pool::new(1, 24);
    pool.run(600, BUSY_BUT_FINE);
    for _ in 0..60 {
        let held = pool.tick(BEHIND, true);
        assert_eq!((held.replicas, held.reason), (1, Reason::HoldRollout));
    }
    assert_eq!(pool.tick(BEHIND, false).replicas, 2);
}

/// Scenario: a person sets the size. Guarantee: it is kept, whatever the lag.
#[test]
fn a_fixed_size_is_kept() {
    let mut pool = Pool::new(1, 24);
    pool.policy.fixed = Some(7);
    let decision = pool.tick(BEHIND, false);
    assert_eq!((decision.replicas, decision.reason), (7, Reason::Fixed));
}

/// Scenario: the maximum is lowered below the size. Guarantee: applied at once.
#[test]
fn a_size_outside_its_bounds_is_put_inside_at_once() {
    let mut pool = Pool::new(1, 3);
    pool.size = Some(6);
    let decision = pool.tick(BUSY_BUT_FINE, false);
    assert_eq!((decision.replicas, decision.reason), (3, Reason::Bounds));
}
