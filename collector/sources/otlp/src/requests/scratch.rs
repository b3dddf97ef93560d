//! A worker's buffer, reused for each request. The byte budget covers it before it grows.

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::telemetry::RefusalReason;

use crate::answers::denied::Denial;

/// A buffer with its reserved budget.
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    /// Covers the buffer.
    held: Reservation,
}

impl Scratch {
    /// Creates an empty buffer, which reserves from `budget`.
    pub(crate) fn new(budget: &Budget) -> Self {
        Self { bytes: Vec::new(), held: budget.empty_reservation() }
    }

    /// Returns the buffer's content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces the buffer's content with what `write` produces under a cap: first the expected
    /// length, then the limit, so that a few bytes don't reserve the budget of a long request.
    /// `write` refuses a result over its cap as too large.
    pub(crate) fn fill_capped(
        &mut self,
        expected_bytes: usize,
        limit_bytes: usize,
        mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<(), Denial>,
    ) -> Result<(), Denial> {
        for cap_bytes in [expected_bytes.min(limit_bytes), limit_bytes] {
            // The decompressor uses one byte more, to recognise a body that just fits.
            let needed = cap_bytes.saturating_add(1).max(self.bytes.capacity());
            if !self.held.try_resize(needed as u64) {
                break;
            }
            match write(cap_bytes, &mut self.bytes) {
                Err(denied)
                    if denied.reason == RefusalReason::TooLarge && cap_bytes < limit_bytes => {}
                written => return written,
            }
        }
        Err(Denial::full())
    }

    /// Empties the buffer and frees what exceeds `retained_bytes`.
    pub(crate) fn release_excess(&mut self, retained_bytes: usize) {
        self.bytes.clear();
        if self.bytes.capacity() > retained_bytes {
            self.bytes.shrink_to(retained_bytes);
        }
        // Shrinking can't fail.
        let _ = self.held.try_resize(self.bytes.capacity() as u64);
    }
}

#[cfg(test)]
mod tests;
