//! Per-pool memory between reconciles, keyed by the pool's uid.
//!
//! Losing it is safe: the pool's status holds all lasting state. Limits: pools not reconciled for
//! ten minutes are dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// A pool not reconciled for this long no longer exists.
const FORGOTTEN_AFTER: SignedDuration = SignedDuration::from_secs(600);

/// The interval at which such pools are searched for: with thousands of pools, at each insert that
/// would be most of the work.
const SWEEP_EVERY: SignedDuration = SignedDuration::from_secs(60);

/// One value for each pool.
#[derive(Debug)]
pub struct ByPool<T> {
    pools: Mutex<Pools<T>>,
}

#[derive(Debug)]
struct Pools<T> {
    values: HashMap<String, (Timestamp, T)>,
    swept_at: Timestamp,
}

impl<T> Default for ByPool<T> {
    fn default() -> Self {
        let values = HashMap::new();
        Self { pools: Mutex::new(Pools { values, swept_at: Timestamp::UNIX_EPOCH }) }
    }
}

impl<T: Clone + Default> ByPool<T> {
    /// Returns the pool's value, or the default.
    pub fn get(&self, uid: &str) -> T {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.values.get(uid).map(|(_, value)| value.clone()).unwrap_or_default()
    }

    /// Stores the pool's value, and drops those of pools not reconciled for ten minutes.
    pub fn insert(&self, uid: &str, value: T, now: Timestamp) {
        self.update(uid, now, |stored| *stored = value);
    }

    /// As [`Self::insert`], changes the pool's value in place; returns what `change` returns.
    pub fn update<R>(&self, uid: &str, now: Timestamp, change: impl FnOnce(&mut T) -> R) -> R {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if now.duration_since(pools.swept_at) >= SWEEP_EVERY {
            pools.swept_at = now;
            pools.values.retain(|_, (at, _)| now.duration_since(*at) < FORGOTTEN_AFTER);
        }
        let (at, value) = pools.values.entry(uid.to_owned()).or_insert((now, T::default()));
        *at = now;
        change(value)
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
        assert_eq!(kept.pools.lock().unwrap().values.len(), 1);
    }
}
