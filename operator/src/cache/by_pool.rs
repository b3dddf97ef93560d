//! Per-pool memory between reconciles, keyed by the pool's uid.
//!
//! Losing it is safe: what must last is in the pool's status. Limits: pools not reconciled for ten
//! minutes are dropped.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jiff::{SignedDuration, Timestamp};

/// A pool not reconciled for this long is gone.
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
    /// The pool's value, or the default.
    pub fn get(&self, uid: &str) -> T {
        let pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.get(uid).map(|(_, kept)| kept.clone()).unwrap_or_default()
    }

    /// Keeps it.
    pub fn put(&self, uid: &str, kept: T, now: Timestamp) {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        pools.retain(|_, (at, _)| now.duration_since(*at) < FORGOTTEN_AFTER);
        pools.insert(uid.to_owned(), (now, kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: one pool is looked at, another no longer. Guarantee: the first is remembered, the
    /// other forgotten.
    #[test]
    fn pools_that_are_gone_are_forgotten() {
        let kept = ByPool::default();
        let at = |second| Timestamp::from_second(second).unwrap();
        kept.put("gone", 1, at(0));
        kept.put("here", 2, at(599));
        assert_eq!((kept.get("gone"), kept.get("here")), (1, 2));
        kept.put("here", 3, at(700));
        assert_eq!((kept.get("gone"), kept.get("here")), (0, 3));
        assert_eq!(kept.pools.lock().unwrap().len(), 1);
    }
}
