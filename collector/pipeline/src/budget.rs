//! One byte budget for the process: whoever holds records in memory holds a reservation for them.
//!
//! A reservation is never waited for. When there is no room the caller holds back its source: the
//! edge refuses with a delay, the gateway pauses its partitions. What a reservation covers is the
//! bytes its holder keeps, so holders of small things over-reserve rather than under-reserve.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget of bytes, shared by clones.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    limit_bytes: AtomicU64,
    used_bytes: AtomicU64,
}

impl Budget {
    /// A budget of `limit_bytes`, all of it free.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self {
            shared: Arc::new(Shared {
                limit_bytes: AtomicU64::new(limit_bytes),
                used_bytes: AtomicU64::new(0),
            }),
        }
    }

    /// Takes `bytes` from the budget, or nothing when there is not that much left.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.take(bytes).then(|| Reservation { budget: self.clone(), bytes })
    }

    /// A reservation of no bytes, which there always is.
    pub fn nothing(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// The size of the budget.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the size of the budget.
    ///
    /// A larger one counts at once. Under a smaller one, what is reserved stays reserved, and
    /// nothing more is given out until enough of it was given back.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.shared.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// What is reserved now. Other threads may change it before the caller looks.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// What is free now, under the same reserve.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes().saturating_sub(self.used_bytes())
    }

    fn take(&self, bytes: u64) -> bool {
        let limit_bytes = self.limit_bytes();
        // Relaxed: the counter guards no other memory, it only has to be exact in itself.
        self.shared
            .used_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                used.checked_add(bytes).filter(|after| *after <= limit_bytes)
            })
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.shared.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bytes taken from a [`Budget`]; they go back when it is dropped.
#[derive(Debug)]
#[must_use = "a reservation that is dropped at once covers nothing"]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Reservation {
    /// How many bytes it covers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes it cover `bytes` in all. Growing can fail, and then nothing has changed; shrinking
    /// cannot.
    #[must_use]
    pub fn try_resize(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes {
            if !self.budget.take(bytes - self.bytes) {
                return false;
            }
        } else {
            self.budget.give_back(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }

    /// Gives up to `bytes` of what it covers to a reservation of its own.
    pub fn split(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), bytes }
    }

    /// Takes over what another reservation of the same budget covers.
    ///
    /// One of another budget is left alone, and given back to its own.
    pub fn absorb(&mut self, mut other: Reservation) {
        if Arc::ptr_eq(&self.budget.shared, &other.budget.shared) {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
#[path = "../tests/unit/budget.rs"]
mod tests;
