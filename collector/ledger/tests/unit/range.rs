//! Tests of what `range.rs` keeps to itself.

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
