//! A worker's buffer: reused from request to request, and covered by the byte budget before it
//! grows.

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
mod tests {
    use super::{Scratch, Unreadable};
    use crate::otlp::denied::Kind;
    use millrace_pipeline::budget::Budget;

    fn write(length: usize) -> impl FnMut(usize, &mut Vec<u8>) -> Result<(), Unreadable> {
        move |cap, out| {
            out.clear();
            if length > cap {
                return Err(Unreadable::TooLong("long".to_owned()));
            }
            out.resize(length, 7);
            Ok(())
        }
    }

    /// Scenario: results of the expected length, longer, and past the limit. Guarantee: the budget
    /// covers each while it lasts, and only what is kept afterwards.
    #[test]
    fn the_budget_covers_the_buffer() {
        let budget = Budget::new(10_000);
        let mut scratch = Scratch::default();
        assert!(scratch.fill(&budget, 100, 4000, write(100)).is_ok());
        assert_eq!((scratch.bytes().len(), budget.used_bytes()), (100, 101));
        assert!(scratch.fill(&budget, 100, 4000, write(3000)).is_ok());
        assert_eq!((scratch.bytes().len(), budget.used_bytes()), (3000, 4001));
        scratch.trim(500);
        assert!(budget.used_bytes() <= 600, "{}", budget.used_bytes());
        let (denied, _) = scratch.fill(&budget, 100, 4000, write(4001)).unwrap_err();
        assert_eq!(denied.kind, Kind::TooLarge);
        drop(scratch);
        assert_eq!(budget.used_bytes(), 0);
    }

    /// Scenario: a budget with room for the expected length only. Guarantee: refused with a delay
    /// when more is needed.
    #[test]
    fn what_the_budget_cannot_cover_is_refused_with_a_delay() {
        let budget = Budget::new(1000);
        let mut scratch = Scratch::default();
        let (denied, _) = scratch.fill(&budget, 100, 4000, write(3000)).unwrap_err();
        assert!(matches!(denied.kind, Kind::Full(_)));
    }
}
