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

    /// Its two halves, in order; none when it has one offset only. What is told apart by halving
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

    /// Scenario: a range of 13 offsets is told apart, each piece after the one before, from every
    /// piece on. Guarantee: what comes after begins where the last one ended and goes on to the
    /// end.
    #[test]
    fn pieces_follow_each_other_to_the_end() {
        fn all(range: OffsetRange, out: &mut Vec<OffsetRange>) {
            if let Some((left, right)) = range.halves() {
                out.extend([left, right]);
                all(left, out);
                all(right, out);
            }
        }
        let range = OffsetRange::new(7, 20).unwrap();
        let mut pieces = Vec::new();
        all(range, &mut pieces);
        assert_eq!(pieces.len(), 2 * 13 - 2);
        for piece in &pieces {
            assert!(range.has_piece(*piece));
            let mut at = *piece;
            while let Some(next) = range.piece_after(at) {
                assert_eq!(next.first(), at.next());
                assert!(pieces.contains(&next));
                at = next;
            }
            assert_eq!(at.next(), 20);
        }
        assert!(!range.has_piece(range));
        assert!(!range.has_piece(OffsetRange::new(8, 20).unwrap()));
        assert!(!range.has_piece(OffsetRange::new(5, 9).unwrap()));
    }

    #[test]
    fn a_range_holds_its_first_offset_and_not_its_next() {
        let range = OffsetRange::new(10, 13).unwrap();
        assert!(range.contains(10) && range.contains(12));
        assert!(!range.contains(9) && !range.contains(13));
        assert_eq!((range.last(), range.span()), (12, 3));
    }
}
