//! Records when an object's pending event arrived, to measure its time in the queue. Scheduled
//! reconciles are not counted.
//!
//! Limits: one entry per waiting object, dropped when its reconcile begins or it is deleted.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The waiting objects, by kind, namespace and name.
#[derive(Debug, Default)]
pub struct QueueTimes {
    since: Mutex<HashMap<String, Instant>>,
}

impl QueueTimes {
    /// Records that a watch reported an event of the object or of a child.
    pub fn record_event(&self, key: String) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.entry(key).or_insert_with(Instant::now);
    }

    /// Drops all entries: they waited for another replica.
    pub fn clear_all(&self) {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Ends the object's wait, and returns how long it took.
    pub fn end_wait(&self, key: &str) -> Option<Duration> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.remove(key).map(|since| since.elapsed())
    }
}
