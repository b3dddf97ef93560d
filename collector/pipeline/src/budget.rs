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
    /// A larger one is there at once. Under a smaller one, what is reserved stays reserved, and
    /// nothing more is given out until as much of it was given back.
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
mod tests {
    use super::Budget;

    /// Scenario: reservations up to the limit and one past it. Guarantee: the limit holds, and what
    /// is dropped can be taken again.
    #[test]
    fn a_full_budget_gives_nothing_until_something_is_dropped() {
        let budget = Budget::new(100);
        let first = budget.try_reserve(60).unwrap();
        assert!(budget.try_reserve(41).is_none());
        let second = budget.try_reserve(40).unwrap();
        assert_eq!(budget.free_bytes(), 0);
        drop(first);
        assert_eq!(budget.used_bytes(), 40);
        drop(second);
        assert_eq!(budget.used_bytes(), 0);
        assert!(budget.try_reserve(u64::MAX).is_none());
    }

    /// Scenario: a reservation changes its size and takes over another. Guarantee: the sum is exact
    /// at each step and zero at the end.
    #[test]
    fn resizing_and_absorbing_keep_the_sum_exact() {
        let budget = Budget::new(100);
        let mut kept = budget.try_reserve(10).unwrap();
        assert!(kept.try_resize(50));
        assert!(!kept.try_resize(101));
        assert_eq!((kept.bytes(), budget.used_bytes()), (50, 50));
        assert!(kept.try_resize(20));
        kept.absorb(budget.try_reserve(30).unwrap());
        assert_eq!((kept.bytes(), budget.used_bytes()), (50, 50));
        let half = kept.split(25);
        assert_eq!((kept.bytes(), half.bytes(), budget.used_bytes()), (25, 25, 50));
        kept.absorb(half);
        kept.absorb(Budget::new(5).try_reserve(5).unwrap());
        assert_eq!(kept.bytes(), 50);
        drop(kept);
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Scenario: the limit is raised, then lowered below what is held. Guarantee: more is given at
    /// once; then nothing until enough was given back, and nothing held is lost.
    #[test]
    fn a_changed_limit_counts_from_the_next_reservation() {
        let budget = Budget::new(100);
        let first = budget.try_reserve(100).unwrap();
        budget.set_limit(150);
        let second = budget.try_reserve(50).unwrap();
        budget.set_limit(80);
        assert_eq!((budget.free_bytes(), budget.used_bytes()), (0, 150));
        drop(second);
        assert!(budget.try_reserve(1).is_none());
        drop(first);
        assert_eq!(budget.try_reserve(80).unwrap().bytes(), 80);
    }

    /// Scenario: threads take and give back at once. Guarantee: never over the limit, zero at the
    /// end.
    #[test]
    fn concurrent_holders_never_pass_the_limit() {
        let budget = Budget::new(1000);
        std::thread::scope(|scope| {
            for size in 1..=4_u64 {
                let budget = &budget;
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        let held = budget.try_reserve(size * 100);
                        assert!(budget.used_bytes() <= 1000);
                        drop(held);
                    }
                });
            }
        });
        assert_eq!(budget.used_bytes(), 0);
    }
}
