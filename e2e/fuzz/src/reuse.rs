//! Things that are kept from one input to the next, so that an execution doesn't pay for making
//! them: what is fuzzed are parts that the product itself uses again and again.
//!
//! A rule that only a thing with a past breaks can't be repeated from one input alone; each user
//! therefore compares with a fresh one where an input's first byte says so.

use std::cell::Cell;

/// A place of a thread where something waits for the next input.
pub(crate) struct Kept<T>(Cell<Option<T>>);

impl<T> Kept<T> {
    pub(crate) const fn none() -> Self {
        Self(Cell::new(None))
    }

    /// What waits there, if anything. An input that panics doesn't put it back, so nothing half
    /// done is used again.
    pub(crate) fn take(&self) -> Option<T> {
        self.0.take()
    }

    pub(crate) fn put(&self, thing: T) {
        self.0.set(Some(thing));
    }
}
