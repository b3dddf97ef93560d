//! Back-off: how long to wait before an object is reconciled again after a failure.
//!
//! Delays double per failed attempt up to a cap, with jitter per object, so that a broken broker
//! does not get all pools at the same instant. Jitter is a hash of the object's key and the
//! attempt, so tests can name the delay. One entry per failing object.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::error::Category;

/// First delay after a conflict: the cache needs a moment to catch up, not more.
const CONFLICT_BASE: Duration = Duration::from_millis(200);
/// A conflict that keeps coming back is another writer; 5 s keeps us inside the drift-repair goal.
const CONFLICT_CAP: Duration = Duration::from_secs(5);
/// First delay after other failures.
const FAILURE_BASE: Duration = Duration::from_secs(1);
/// A recovered outside system is noticed within this time.
const FAILURE_CAP: Duration = Duration::from_secs(30);
/// A refusal needs a human; a watch event of the object retries it earlier.
const REFUSAL_CAP: Duration = Duration::from_secs(120);
/// Doubling more often than this has no effect under any of the caps (2^10 * 200 ms > 120 s).
const DOUBLINGS_MAX: u32 = 10;

/// The delay before attempt `attempt + 1` (first failure: `attempt` 0), between half and the whole
/// of the doubled base.
#[must_use]
pub fn delay(category: Category, attempt: u32, key: &str) -> Duration {
    let (base, cap) = match category {
        Category::Conflict => (CONFLICT_BASE, CONFLICT_CAP),
        Category::Temporary | Category::External => (FAILURE_BASE, FAILURE_CAP),
        Category::Invalid | Category::Denied => (FAILURE_BASE, REFUSAL_CAP),
    };
    let whole = base.saturating_mul(1 << attempt.min(DOUBLINGS_MAX)).min(cap);
    let mut hasher = DefaultHasher::new();
    (key, attempt).hash(&mut hasher);
    let share = (hasher.finish() % 1000) as u32;
    whole / 2 + whole / 2 * share / 1000
}

/// Counts failures in a row per object.
#[derive(Debug, Default)]
pub struct Failures {
    counts: Mutex<HashMap<String, u32>>,
}

impl Failures {
    /// Counts one more failure of `key`; returns the delay before the next attempt.
    pub fn failed(&self, key: &str, category: Category) -> Duration {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(key.to_owned()).or_insert(0);
        let attempt = *count;
        *count = count.saturating_add(1);
        delay(category, attempt, key)
    }

    /// Drops the failures of `key` after a success or its deletion.
    pub fn clear(&self, key: &str) {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// How many objects are failing now.
    pub fn failing(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Scenario: any object fails any number of times. Guarantee: the delay never passes its
        /// cap and never falls under half the base.
        #[test]
        fn a_delay_stays_between_half_its_base_and_its_cap(attempt in 0u32..1000, key in ".*") {
            let conflict = delay(Category::Conflict, attempt, &key);
            prop_assert!(conflict >= CONFLICT_BASE / 2 && conflict <= CONFLICT_CAP);
            let external = delay(Category::External, attempt, &key);
            prop_assert!(external >= FAILURE_BASE / 2 && external <= FAILURE_CAP);
        }
    }

    /// Scenario: an object fails three times, then works. Guarantee: delays grow, success forgets.
    #[test]
    fn failures_in_a_row_wait_longer_and_success_forgets_them() {
        let failures = Failures::default();
        let first = failures.failed("a", Category::External);
        let _second = failures.failed("a", Category::External);
        let third = failures.failed("a", Category::External);
        assert!(third > first, "{third:?} after {first:?}");
        failures.clear("a");
        assert_eq!(failures.failed("a", Category::External), first);
        assert_eq!(failures.failing(), 1);
    }
}
