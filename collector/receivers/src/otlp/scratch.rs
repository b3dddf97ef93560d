//! A worker's buffer, reused from request to request. The byte budget covers it before it grows.

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::telemetry::Refusal;

use super::denied::Denied;

/// A buffer with its share of the budget.
#[derive(Default)]
pub(crate) struct Scratch {
    bytes: Vec<u8>,
    /// Covers the buffer; none until it is first needed.
    held: Option<Reservation>,
}

/// Why bytes could not be turned into others.
pub(crate) enum Unreadable {
    /// The result is longer than the cap.
    TooLong(String),
    /// They are not what they claim to be.
    Malformed(String),
}

impl Scratch {
    /// What the buffer holds.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Replaces what the buffer holds by what `write` makes under a cap: first the expected length,
    /// then the limit, so that a few bytes don't take the budget of a long request.
    pub(crate) fn fill(
        &mut self,
        budget: &Budget,
        expected_bytes: usize,
        limit_bytes: usize,
        mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<(), Unreadable>,
    ) -> Result<(), (Denied, Refusal)> {
        for cap_bytes in [expected_bytes.min(limit_bytes), limit_bytes] {
            if !self.hold(cap_bytes, budget) {
                break;
            }
            match write(cap_bytes, &mut self.bytes) {
                Ok(()) => return Ok(()),
                Err(Unreadable::TooLong(_)) if cap_bytes < limit_bytes => {}
                Err(Unreadable::TooLong(message)) => {
                    let denied = Denied::too_large(format!("{message}; send smaller batches"));
                    return Err((denied, Refusal::TooLarge));
                }
                Err(Unreadable::Malformed(message)) => {
                    return Err((Denied::malformed(message), Refusal::Malformed));
                }
            }
        }
        Err((Denied::full(), Refusal::Full))
    }

    /// Makes the budget cover a buffer that may grow to `bytes`.
    fn hold(&mut self, bytes: usize, budget: &Budget) -> bool {
        // The decompressor takes one byte more, to tell a body that just fits.
        let bytes = bytes.saturating_add(1).max(self.bytes.capacity()) as u64;
        match &mut self.held {
            Some(held) => held.try_resize(bytes),
            None => {
                self.held = budget.try_reserve(bytes);
                self.held.is_some()
            }
        }
    }

    /// Empties the buffer and gives back what it took beyond what it may keep.
    pub(crate) fn trim(&mut self, kept_bytes: usize) {
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
#[path = "../../tests/unit/otlp/scratch.rs"]
mod tests;
