//! A worker's buffer, reused for each request. The byte budget covers it before it grows.

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::telemetry::RefusalReason;

use super::denied::Denial;

/// A buffer with its reserved budget.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    /// Covers the buffer; `None` until it is first needed.
    held: Option<Reservation>,
}

impl Scratch {
    /// Returns the buffer's content.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces the buffer's content with what `write` produces under a cap: first the expected
    /// length, then the limit, so that a few bytes don't reserve the budget of a long request.
    /// `write` refuses a result over its cap as too large.
    pub(crate) fn fill_capped(
        &mut self,
        budget: &Budget,
        expected_bytes: usize,
        limit_bytes: usize,
        mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<(), Denial>,
    ) -> Result<(), Denial> {
        for cap_bytes in [expected_bytes.min(limit_bytes), limit_bytes] {
            if !self.cover_bytes(cap_bytes, budget) {
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

    /// Reserves budget for a buffer that may grow to `bytes`.
    fn cover_bytes(&mut self, bytes: usize, budget: &Budget) -> bool {
        // The decompressor uses one byte more, to recognise a body that just fits.
        let bytes = bytes.saturating_add(1).max(self.bytes.capacity()) as u64;
        match &mut self.held {
            Some(held) => held.try_resize(bytes),
            None => {
                self.held = budget.try_reserve(bytes);
                self.held.is_some()
            }
        }
    }

    /// Empties the buffer and frees what exceeds `kept_bytes`.
    pub(crate) fn release_excess(&mut self, kept_bytes: usize) {
        self.bytes.clear();
        if self.bytes.capacity() > kept_bytes {
            self.bytes.shrink_to(kept_bytes);
        }
        let kept = self.bytes.capacity() as u64;
        if let Some(held) = &mut self.held {
            // Shrinking can't fail.
            let _ = held.try_resize(kept);
        }
    }
}

#[cfg(test)]
mod tests;
