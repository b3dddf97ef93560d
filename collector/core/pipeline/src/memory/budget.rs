//! One byte budget for the process: code that holds records in memory holds a reservation for them.
//!
//! No caller waits for a reservation. If the budget is full, the caller slows its source: the edge
//! refuses with a delay, the gateway pauses its partitions. A reservation covers the bytes that its
//! holder stores, so holders of small objects reserve too much rather than too little.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A budget of bytes, shared by clones.
#[derive(Debug, Clone)]
pub struct Budget {
    shared: Arc<BudgetInner>,
}

#[derive(Debug)]
struct BudgetInner {
    limit_bytes: AtomicU64,
    /// The bytes that stay reserved while a single request is in progress.
    idle_bytes: AtomicU64,
    used_bytes: AtomicU64,
    /// The budget that this one is a share of.
    parent: Option<Budget>,
}

impl Budget {
    /// Returns a free budget of `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self::with_parent(limit_bytes, None)
    }

    /// Returns a share of this budget, of at most `limit_bytes`. What is reserved from it counts in
    /// both.
    #[must_use]
    pub fn new_share(&self, limit_bytes: u64) -> Self {
        Self::with_parent(limit_bytes, Some(self.clone()))
    }

    fn with_parent(limit_bytes: u64, parent: Option<Self>) -> Self {
        Self {
            shared: Arc::new(BudgetInner {
                limit_bytes: AtomicU64::new(limit_bytes),
                idle_bytes: AtomicU64::new(0),
                used_bytes: AtomicU64::new(0),
                parent,
            }),
        }
    }

    /// Reserves `bytes`, or nothing if fewer are left.
    #[must_use]
    pub fn try_reserve(&self, bytes: u64) -> Option<Reservation> {
        self.claim_bytes(bytes).then(|| Reservation { budget: self.clone(), bytes })
    }

    /// Returns an empty reservation, which always succeeds.
    pub fn empty_reservation(&self) -> Reservation {
        Reservation { budget: self.clone(), bytes: 0 }
    }

    /// The size of the budget.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.shared.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the size of the budget.
    ///
    /// A larger size applies at once. With a smaller one existing reservations remain, and new ones
    /// fail until enough was released.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.shared.limit_bytes.store(limit_bytes, Ordering::Relaxed);
    }

    /// Sets the bytes that stay reserved while a single request is in progress, not counting its
    /// own.
    pub fn set_idle(&self, idle_bytes: u64) {
        self.shared.idle_bytes.store(idle_bytes, Ordering::Relaxed);
    }

    /// The most that one request can reserve while no other is in progress.
    #[must_use]
    pub fn request_bytes(&self) -> u64 {
        self.limit_bytes().saturating_sub(self.shared.idle_bytes.load(Ordering::Relaxed))
    }

    /// The bytes reserved now. Other threads may change it before the caller uses it.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.shared.used_bytes.load(Ordering::Relaxed)
    }

    /// The bytes free now, with the same caveat.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.limit_bytes().saturating_sub(self.used_bytes())
    }

    fn claim_bytes(&self, bytes: u64) -> bool {
        let limit_bytes = self.limit_bytes();
        let BudgetInner { used_bytes, parent, .. } = &*self.shared;
        // Relaxed: the counter guards no other memory; only its own value must be exact.
        let claimed = used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|after| *after <= limit_bytes)
        });
        if claimed.is_ok() && parent.as_ref().is_some_and(|parent| !parent.claim_bytes(bytes)) {
            used_bytes.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        claimed.is_ok()
    }

    fn release_bytes(&self, bytes: u64) {
        let BudgetInner { used_bytes, parent, .. } = &*self.shared;
        used_bytes.fetch_sub(bytes, Ordering::Relaxed);
        parent.iter().for_each(|parent| parent.release_bytes(bytes));
    }
}

/// Bytes reserved from a [`Budget`]; dropping this releases them.
#[derive(Debug)]
#[must_use = "a reservation that is dropped at once covers nothing"]
pub struct Reservation {
    budget: Budget,
    bytes: u64,
}

impl Reservation {
    /// The number of bytes it covers.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it could cover `bytes` if no other request were in progress.
    #[must_use]
    pub fn can_ever_cover(&self, bytes: u64) -> bool {
        bytes <= self.budget.request_bytes()
    }

    /// Changes the covered bytes to `bytes` in total. Growing may fail, which changes nothing;
    /// shrinking can't fail.
    #[must_use]
    pub fn try_resize(&mut self, bytes: u64) -> bool {
        if bytes > self.bytes {
            if !self.budget.claim_bytes(bytes - self.bytes) {
                return false;
            }
        } else {
            self.budget.release_bytes(self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }

    /// Moves up to `bytes` of what it covers into a separate reservation.
    pub fn split_off(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { budget: self.budget.clone(), bytes }
    }

    /// Adds the bytes of another reservation of the same budget.
    ///
    /// A reservation of another budget is released to its own budget instead.
    pub fn absorb(&mut self, mut other: Reservation) {
        if Arc::ptr_eq(&self.budget.shared, &other.budget.shared) {
            self.bytes += std::mem::take(&mut other.bytes);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release_bytes(self.bytes);
    }
}

#[cfg(test)]
mod tests;
