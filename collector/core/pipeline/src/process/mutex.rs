//! Locks a mutex for code that has no use for its poison.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, whatever became of its last holder: a panic ends the process, so a poisoned one
/// occurs only in tests, and each holder leaves complete values behind.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
