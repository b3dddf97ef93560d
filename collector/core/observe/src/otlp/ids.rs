//! Ids of traces and spans, random enough that no two processes generate the same.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

/// A trace's id. Displays as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId(u128);

impl TraceId {
    /// Returns the id of a number; 0 is no valid id and becomes 1.
    #[must_use]
    pub fn new(id: u128) -> Self {
        Self(id.max(1))
    }

    /// The number for a span's field: `trace_id = id.as_u128()` makes the span the first of its
    /// trace.
    #[must_use]
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    pub(super) const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// Generates ids: a counter, mixed by a hash whose keys the system gave to this process.
#[derive(Debug, Default)]
pub(super) struct Ids {
    keys: RandomState,
    next: AtomicU64,
}

impl Ids {
    /// Returns a random number.
    pub(super) fn next_number(&self) -> u64 {
        self.keys.hash_one(self.next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn next_trace_id(&self) -> TraceId {
        TraceId::new(u128::from(self.next_number()) << 64 | u128::from(self.next_number()))
    }

    /// Returns a span's id, never 0.
    pub(super) fn next_span_id(&self) -> u64 {
        self.next_number().max(1)
    }
}
