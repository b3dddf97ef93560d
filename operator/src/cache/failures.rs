//! Back-off: how long to wait before an object is reconciled again after a failure.
//!
//! Delays double per failed attempt up to a cap, with jitter per object, so that not all pools
//! contact a broken broker at the same instant. Jitter is a hash of the object's key and the
//! attempt, so tests can compute the delay. One entry per failing object.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::Category;
use crate::hash::spread_by;

/// First delay after a conflict: the cache only needs a moment to catch up.
const CONFLICT_BASE: Duration = Duration::from_millis(200);
/// Repeated conflicts come from another writer; 5 s keeps us inside the drift-repair goal.
const CONFLICT_CAP: Duration = Duration::from_secs(5);
/// First delay after other failures.
const FAILURE_BASE: Duration = Duration::from_secs(1);
/// A recovered external system is noticed within this time.
const FAILURE_CAP: Duration = Duration::from_secs(30);
/// A refusal needs a human; a watch event of the object retries it earlier.
const REFUSAL_CAP: Duration = Duration::from_secs(120);
/// Doubling more often than this has no effect under any of the caps (2^10 * 200 ms > 120 s).
const DOUBLINGS_MAX: u32 = 10;

/// Returns the delay before attempt `attempt + 1` (first failure: `attempt` 0), between half and
/// all of the doubled base.
#[must_use]
pub fn backoff_delay(category: Category, attempt: u32, key: &str) -> Duration {
    let (base, cap) = match category {
        Category::Conflict => (CONFLICT_BASE, CONFLICT_CAP),
        Category::Temporary | Category::External => (FAILURE_BASE, FAILURE_CAP),
        Category::Invalid | Category::Denied => (FAILURE_BASE, REFUSAL_CAP),
    };
    let longest = base.saturating_mul(1 << attempt.min(DOUBLINGS_MAX)).min(cap);
    longest - spread_by(&(key, attempt), longest / 2)
}

/// Counts failures in a row per object.
#[derive(Debug, Default)]
pub struct Failures {
    counts: Mutex<HashMap<String, u32>>,
}

impl Failures {
    /// Counts one more failure of `key`, and returns the delay before the next attempt.
    pub fn record_failure(&self, key: &str, category: Category) -> Duration {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.to_owned()).or_insert(0);
        let attempt = *count;
        *count = count.saturating_add(1);
        backoff_delay(category, attempt, key)
    }

    /// Drops the failures of `key` after a success or its deletion.
    pub fn clear(&self, key: &str) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Returns how many objects are failing now.
    pub fn failing_count(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Scenario: any object fails any number of times. Guarantee: the delay never exceeds its
        /// cap and never falls below half the base.
        #[test]
        fn a_delay_stays_between_half_its_base_and_its_cap(attempt in 0u32..1000, key in ".*") {
            let conflict = backoff_delay(Category::Conflict, attempt, &key);
            prop_assert!(conflict >= CONFLICT_BASE / 2 && conflict <= CONFLICT_CAP);
            let external = backoff_delay(Category::External, attempt, &key);
            prop_assert!(external >= FAILURE_BASE / 2 && external <= FAILURE_CAP);
        }
    }

    /// Scenario: an object fails three times, then succeeds. Guarantee: delays grow, and success
    /// resets them.
    #[test]
    fn failures_in_a_row_wait_longer_and_success_forgets_them() {
        let failures = Failures::default();
        let first = failures.record_failure("a", Category::External);
        let _second = failures.record_failure("a", Category::External);
        let third = failures.record_failure("a", Category::External);
        assert!(third > first, "{third:?} after {first:?}");
        failures.clear("a");
        assert_eq!(failures.record_failure("a", Category::External), first);
        assert_eq!(failures.failing_count(), 1);
    }
}
