//! Per-pool memory between reconciles, keyed by the pool's uid.
//!
//! Losing it is safe: the pool's status holds all lasting state. Limits: pools not reconciled for
//! ten minutes are dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// A pool not reconciled for this long no longer exists.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(600);

/// One value for each pool.
#[derive(Debug)]
pub struct ByPool<T> {
    pools: Mutex<HashMap<String, (Timestamp, T)>>,
}

impl<T> Default for ByPool<T> {
    fn default() -> Self {
        Self { pools: Mutex::default() }
    }
}

impl<T: Clone + Default> ByPool<T> {
    /// Returns the pool's value, or the default.
    pub fn get(&self, uid: &str) -> T {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.get(uid).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// Stores the pool's value, and drops those of pools not reconciled for ten minutes.
    pub fn insert(&self, uid: &str, value: T, now: Timestamp) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|_, (at, _)| now.duration_since(*at) < FORGOTTEN_AFTER);
        pools.insert(uid.to_owned(), (now, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one pool is reconciled, another no longer. Guarantee: the first pool's value is
    /// retained, the other's dropped.
    #[test]
    fn pools_that_are_gone_are_forgotten() {
        let kept = ByPool::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        kept.insert("gone", 1, at(0));
        kept.insert("here", 2, at(599));
        assert_eq!((kept.get("gone"), kept.get("here")), (1, 2));
        kept.insert("here", 3, at(700));
        assert_eq!((kept.get("gone"), kept.get("here")), (0, 3));
        assert_eq!(kept.pools.lock().unwrap().len(), 1);
    }
}
