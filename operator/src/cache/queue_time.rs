//! Since when an object that something happened to waits for its reconcile: what the time in the
//! queue is measured by. Looks that were due by the clock are not counted.
//!
//! Limits: one entry per object that waits; dropped when its reconcile begins or it is gone.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The objects that wait, by kind, namespace and name.
#[derive(Debug, Default)]
pub struct QueueTimes {
    since: Mutex<HashMap<String, Instant>>,
}

impl QueueTimes {
    /// A watch told of something that happened to the object, or to a child of it.
    pub fn woken(&self, key: String) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.entry(key).or_insert_with(Instant::now);
    }

    /// Whoever waited so far did so for another replica.
    pub fn forget(&self) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The object waits no longer; gives how long it did.
    pub fn begun(&self, key: &str) -> Option<Duration> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.remove(key).map(|since| since.elapsed())
    }
}
