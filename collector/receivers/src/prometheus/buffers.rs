//! Buffers that no scrape uses now, for the next ones: memory that is new with each scrape costs a
//! fifth of its time.
//!
//! They are counted in the budget, and all given up while less than half of it is free.

use std::sync::{Mutex, PoisonError};

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_scrape::Buffers;

/// Most that are kept: more scrapes than threads are seldom at work at the same time. A node
/// exporter's take half a MiB, the largest that are kept some 2 MiB.
const SPARE_MAX: usize = 4;

/// Buffers to be lent.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<(Box<Buffers>, Reservation)>>);

impl Spare {
    /// Lends some. What they take is to be reserved by the borrower.
    pub(super) fn lend(&self) -> Box<Buffers> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.pop().map(|(buffers, _)| buffers).unwrap_or_default()
    }

    /// Takes some back.
    pub(super) fn give_back(&self, buffers: Box<Buffers>, budget: &Budget) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if budget.free_bytes() < budget.limit_bytes() / 2 {
            all.clear();
        } else if all.len() < SPARE_MAX {
            all.extend(budget.try_reserve(buffers.bytes()).map(|room| (buffers, room)));
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/prometheus/buffers.rs"]
mod tests;
