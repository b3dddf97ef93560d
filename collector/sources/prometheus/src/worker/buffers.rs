//! Retains buffers that no scrape uses, for the next scrapes: allocating them for each scrape costs
//! a fifth of its time.
//!
//! The budget counts them. They are all freed while less than half of it is free.

use std::sync::{Mutex, PoisonError};

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::memory_shares::MemoryShares;
use millrace_scrape::ScrapeBuffers;

/// The most buffers that are retained: more scrapes than threads seldom run at once. Those of a
/// node exporter take half a MiB, the largest retained ones some 2 MiB.
const SPARE_MAX: usize = 4;

/// The retained buffers.
#[derive(Debug, Default)]
pub(crate) struct SpareBuffers(Mutex<Vec<(Box<ScrapeBuffers>, Reservation)>>);

impl SpareBuffers {
    /// Returns retained or new buffers. The caller reserves their bytes.
    pub(super) fn take_buffers(&self) -> Box<ScrapeBuffers> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.pop().map(|(buffers, _)| buffers).unwrap_or_default()
    }

    /// Retains buffers if the budget and the limit permit it.
    pub(super) fn return_buffers(&self, buffers: Box<ScrapeBuffers>, budget: &Budget) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if budget.free_bytes() < MemoryShares::of_budget(budget.limit_bytes()).scrapes_bytes() {
            all.clear();
        } else if all.len() < SPARE_MAX {
            all.extend(budget.try_reserve(buffers.held_bytes()).map(|room| (buffers, room)));
        }
    }
}

#[cfg(test)]
mod tests;
