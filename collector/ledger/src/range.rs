//! Offset ranges and assignment generations: the two values everything else here is made of.

use std::fmt;

/// One assignment of one partition to this worker. A later assignment has a greater number, so
/// that whatever still carries the older one can be told apart and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(crate) u64);

impl Generation {
    /// The number itself, for logs.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The offsets from `first` up to, not including, `next`. Never empty, never negative. Offsets
/// inside may be missing from the topic (compaction, transaction markers): that is normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OffsetRange {
    first: i64,
    next: i64,
}

/// Two offsets that don't make a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offsets {first}..{next} are not a range: expected 0 <= first < next")]
pub struct RangeError {
    /// The lower offset as given.
    pub first: i64,
    /// The upper offset as given.
    pub next: i64,
}

impl OffsetRange {
    /// A range from `first` up to, not including, `next`.
    ///
    /// # Errors
    /// When it would be empty, reversed or negative.
    pub fn new(first: i64, next: i64) -> Result<Self, RangeError> {
        if first < 0 || next <= first {
            return Err(RangeError { first, next });
        }
        Ok(Self { first, next })
    }

    /// The lowest offset inside.
    #[must_use]
    pub fn first(self) -> i64 {
        self.first
    }

    /// The lowest offset after it.
    #[must_use]
    pub fn next(self) -> i64 {
        self.next
    }

    /// The highest offset inside.
    #[must_use]
    pub fn last(self) -> i64 {
        self.next - 1
    }

    /// How many offsets it spans, present in the topic or not.
    #[must_use]
    pub fn span(self) -> i64 {
        self.next - self.first
    }

    /// Whether `offset` lies inside.
    #[must_use]
    pub fn contains(self, offset: i64) -> bool {
        self.first <= offset && offset < self.next
    }
}

impl fmt::Display for OffsetRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.first, self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_reversed_or_negative_range_is_refused() {
        for (first, next) in [(3, 3), (4, 3), (-1, 3)] {
            assert_eq!(OffsetRange::new(first, next), Err(RangeError { first, next }));
        }
    }

    #[test]
    fn a_range_holds_its_first_offset_and_not_its_next() {
        let range = OffsetRange::new(10, 13).unwrap();
        assert!(range.contains(10) && range.contains(12));
        assert!(!range.contains(9) && !range.contains(13));
        assert_eq!((range.last(), range.span()), (12, 3));
    }
}
