//! Offset ranges and assignment generations: the two basic values of this crate.

use std::fmt;

/// One assignment of one partition to this worker. A later assignment has a greater number, so
/// that answers with the older one can be recognised and ignored.
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

    /// Its two halves, in order; none when it has one offset only. What salvage halves
    /// depends on the offsets alone, not on which messages are still there.
    #[must_use]
    pub fn halves(self) -> Option<(Self, Self)> {
        let middle = self.first + self.span() / 2;
        let halves = (Self { next: middle, ..self }, Self { first: middle, ..self });
        (self.span() > 1).then_some(halves)
    }

    /// The largest piece that begins where `piece` ends; none at the end. Pieces are the halves of
    /// a range, their halves, and so on.
    #[must_use]
    pub fn piece_after(self, piece: Self) -> Option<Self> {
        let (mut around, mut after) = (self, None);
        while around != piece {
            let (left, right) = around.halves()?;
            if piece.first < right.first {
                (around, after) = (left, Some(right));
            } else {
                around = right;
            }
        }
        after
    }

    /// Whether `piece` is one: not the whole, but a half, or half of a half, and so on.
    #[must_use]
    pub fn has_piece(self, piece: Self) -> bool {
        let mut around = self;
        while let Some((left, right)) = around.halves() {
            around = if piece.first < right.first { left } else { right };
            if around == piece {
                return true;
            }
        }
        false
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
#[path = "../tests/unit/range.rs"]
mod tests;
