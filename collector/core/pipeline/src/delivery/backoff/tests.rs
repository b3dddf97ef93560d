//! Tests of the private code of `backoff.rs`.

use proptest::prelude::*;

use super::*;

const POLICY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(30) };

proptest! {
    /// With any seed, each wait is between half of the doubled one and all of it, and never over
    /// the longest.
    #[test]
    fn waits_double_up_to_the_longest_with_jitter(seed: u64) {
        let mut backoff = Backoff::new(POLICY, seed);
        for tries in 0..80_u32 {
            let full = (0.1 * 2_f64.powi(tries as i32)).min(30.0);
            let wait = backoff.next_wait().as_secs_f64();
            prop_assert!(wait >= full / 2.0 - 1e-6 && wait <= full + 1e-6, "{tries}: {wait}");
        }
    }
}

/// Scenario: two operations fail together. Guarantee: they retry at different times.
#[test]
fn different_seeds_wait_differently() {
    let waits = |seed| Backoff::new(POLICY, seed).next_wait();
    assert_ne!(waits(1), waits(2));
}

/// Scenario: success after failures. Guarantee: the next failure waits the first wait again.
#[test]
fn a_reset_begins_again() {
    let mut backoff = Backoff::new(POLICY, 7);
    for _ in 0..9 {
        backoff.next_wait();
    }
    backoff.reset();
    assert!(backoff.next_wait() <= POLICY.first);
    assert_eq!(backoff.tries(), 1);
}
