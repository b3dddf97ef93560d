//! Tests of the private code of `range.rs`.

use super::*;

#[test]
fn an_empty_reversed_or_negative_range_is_refused() {
    for (first, next) in [(3, 3), (4, 3), (-1, 3)] {
        assert_eq!(OffsetRange::new(first, next), Err(RangeError { first, next }));
    }
}

/// Scenario: ranges of 1 to 600 offsets, and the longest one. Guarantee: their pieces follow each
/// other from the first offset to the last, at most 16, and each offset of a piece gives that
/// piece.
#[test]
fn pieces_follow_each_other_to_the_end() {
    let spans = (1..600).chain([i64::MAX - 7]);
    for range in spans.map(|span| OffsetRange::new(7, 7 + span).unwrap()) {
        let mut at = range.first();
        let mut count = 0;
        while let Some(piece) = range.piece_at(at) {
            assert_eq!(piece.first(), at);
            assert_eq!(range.piece_at(piece.last()), Some(piece));
            assert_eq!((range.index_of(piece), range.first_of_piece(count)), (count, at));
            (at, count) = (piece.next(), count + 1);
        }
        assert_eq!(at, range.next());
        assert!(count <= MAX_PIECES && (count > 1 || range.span() == 1), "{count} of {range}");
        assert_eq!((range.piece_at(6), range.piece_at(range.next())), (None, None));
    }
}

#[test]
fn a_range_holds_its_first_offset_and_not_its_next() {
    let range = OffsetRange::new(10, 13).unwrap();
    assert!(range.contains(10) && range.contains(12));
    assert!(!range.contains(9) && !range.contains(13));
    assert_eq!((range.last(), range.span()), (12, 3));
}
