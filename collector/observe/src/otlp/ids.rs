//! Ids of traces and spans: random enough that no two processes make the same ones.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A trace's id; prints as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// From a number; 0 is no trace's and becomes 1.
    #[must_use]
    pub fn new(id: u128) -> Self {
        Self(id.max(1))
    }

    /// As a field of a span: `trace_id = id.number()` makes it the first of its trace.
    #[must_use]
    pub const fn number(self) -> u128 {
        self.0
    }

    pub(super) const fn bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Makes ids: a counter, mixed by a hash whose keys the system gave to this process.
#[derive(Debug, Default)]
pub(super) struct Ids {
    keys: RandomState,
    next: AtomicU64,
}

impl Ids {
    /// A random number.
    pub(super) fn number(&self) -> u64 {
        self.keys.hash_one(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn trace(&self) -> TraceId {
        TraceId::new(u128::from(self.number()) << 64 | u128::from(self.number()))
    }

    /// A span's id, never 0.
    pub(super) fn span(&self) -> u64 {
        self.number().max(1)
    }
}
