//! Offset ranges and assignment generations: the two basic values of this crate.

use std::fmt;

/// The most pieces into which a range is divided. With n messages and one bad one among them,
/// dividing takes log16(n) rounds of a commit and 16 inserts each: 5 rounds and 80 inserts for
/// 200,000 messages, where halves would take 18 rounds and 36 inserts. One hexadecimal digit names
/// a piece.
pub(crate) const MAX_PIECES: i64 = 16;

/// One assignment of one partition to this worker. A later assignment has a greater number, so that
/// answers with an older one are recognised and ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub(crate) u64);

impl Generation {
    /// Returns the number, for logs.
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

/// The offsets from `first` up to, but not including, `next`. Never empty, never negative. Offsets
/// inside may be missing from the topic (compaction, transaction markers); that is normal.
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
    /// Returns the range from `first` up to, but not including, `next`.
    ///
    /// # Errors
    /// If the range would be empty, reversed or negative.
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

    /// The number of offsets it spans, present in the topic or not.
    #[must_use]
    pub fn span(self) -> i64 {
        self.next - self.first
    }

    /// Returns the piece that contains `offset`; `None` outside of the range. Pieces follow from
    /// the range alone, not from the messages that still exist. A range of one offset is its own
    /// piece.
    #[must_use]
    pub fn piece_at(self, offset: i64) -> Option<Self> {
        if !self.contains(offset) {
            return None;
        }
        let span = self.piece_span();
        let first = self.first + (offset - self.first) / span * span;
        Some(Self { first, next: self.next.min(first.saturating_add(span)) })
    }

    /// Returns the span of each piece but the last, which may be shorter.
    fn piece_span(self) -> i64 {
        (self.span() - 1) / MAX_PIECES + 1
    }

    /// Returns which piece of this range `piece` begins with, from 0.
    pub(crate) fn index_of(self, piece: Self) -> i64 {
        (piece.first - self.first) / self.piece_span()
    }

    /// Returns the first offset of the piece with this number, from 0.
    pub(crate) fn first_of_piece(self, index: i64) -> i64 {
        self.first.saturating_add(index.saturating_mul(self.piece_span()))
    }

    /// Whether `offset` is inside.
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
mod tests;
