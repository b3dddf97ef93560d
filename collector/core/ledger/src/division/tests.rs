//! Tests of the private code of `division.rs`.

use super::*;

fn range(first: i64, next: i64) -> OffsetRange {
    OffsetRange::new(first, next).unwrap()
}

fn part(table: u32) -> PartName {
    PartName { table, day: 20_000 }
}

/// Returns the pieces from each of which the next one follows, from `first` on.
fn pieces(divisions: &Divisions, within: OffsetRange) -> Vec<OffsetRange> {
    let mut at = within.first();
    std::iter::from_fn(|| {
        let piece = (at < within.next()).then(|| divisions.piece_at(at).unwrap())?;
        assert_eq!(piece.first(), at);
        at = piece.next();
        Some(piece)
    })
    .collect()
}

/// Scenario: a range of 1,000 offsets is divided, then two of its pieces, then a piece of one of
/// them. Guarantee: the pieces cover the range exactly, each belongs to the smallest division
/// around it, and only that one's parts are refused.
#[test]
fn a_piece_belongs_to_the_smallest_division_around_it() {
    let whole = range(100, 1_100);
    let mut divisions = Divisions::default();
    divisions.divide(whole, &RefusedParts::of([part(1), part(2), part(3)]));
    let first = pieces(&divisions, whole);
    assert_eq!((first.len(), first[0]), (16, range(100, 163)));
    divisions.divide(first[4], &RefusedParts::of([part(3), part(1)]));
    divisions.divide(first[2], &RefusedParts::of([part(2)]));
    let inner = pieces(&divisions, first[4]);
    assert_eq!((inner.len(), inner[0].span()), (16, 4));
    divisions.divide(inner[1], &RefusedParts::of([part(3)]));
    let all = pieces(&divisions, whole);
    assert_eq!(all.len(), 14 + 16 + 15 + 4);
    let refused = |offset| divisions.refused_at(offset).unwrap();
    let list = |offset| [1, 2, 3].map(|table| refused(offset).contains(part(table)));
    assert_eq!(list(100), [true; 3]);
    assert_eq!(list(first[2].first()), [false, true, false]);
    assert_eq!(list(first[4].first()), [true, false, true]);
    assert_eq!(list(inner[1].last()), [false, false, true]);
    assert_eq!(list(inner[2].first()), [true, false, true]);
    assert_eq!(divisions.refused_at(1_100), None);
}

/// Scenario: pieces of a division are committed, then all of it. Guarantee: what is committed is
/// forgotten, and nothing else.
#[test]
fn a_division_is_forgotten_once_its_range_is_committed() {
    let mut divisions = Divisions::default();
    divisions.divide(range(0, 64), &RefusedParts::of([part(1)]));
    divisions.divide(range(4, 8), &RefusedParts::of([part(1)]));
    divisions.divide(range(70, 80), &RefusedParts::of([part(2)]));
    divisions.forget_before(6);
    assert_eq!(divisions.piece_at(6), Some(range(6, 7)));
    divisions.forget_before(8);
    assert_eq!(divisions.piece_at(6), Some(range(4, 8)), "the piece of the complete range");
    divisions.forget_before(64);
    assert_eq!((divisions.piece_at(10), divisions.first_after(10)), (None, Some(70)));
}

/// Scenario: the longest range with as many parts as may be listed is divided down to one message.
/// Guarantee: what a commit names of it has at most the bytes of the arithmetic.
#[test]
fn the_longest_chain_of_divisions_fits() {
    let mut around = range(0, i64::MAX);
    let names = (0..20).map(|n| PartName { table: u32::MAX - n, day: -1 });
    let parts = RefusedParts::of(names.take(MAX_REFUSED_PARTS));
    let mut divisions = Divisions::default();
    loop {
        divisions.divide(around, &parts);
        around = divisions.piece_at(i64::MAX - 1).unwrap();
        if around.span() == 1 {
            break;
        }
    }
    assert_eq!(divisions.list()[0].pieces.len(), 15);
    let bytes = divisions.text_bytes(0);
    assert!((500..=MAX_CHAIN_BYTES).contains(&bytes), "{bytes}");
}

/// Scenario: more parts are refused than are listed. Guarantee: the list is full and states that
/// there are more; then each message is cut alone.
#[test]
fn more_refused_parts_than_are_listed_divide_into_single_messages() {
    let parts = RefusedParts::of((0..MAX_REFUSED_PARTS as u32).map(part));
    assert!(!parts.has_more());
    let parts = RefusedParts::of((0..=MAX_REFUSED_PARTS as u32).map(part));
    assert!(parts.has_more());
    let mut divisions = Divisions::default();
    divisions.divide(range(0, 1_000), &parts);
    assert_eq!(divisions.piece_at(17), Some(range(17, 18)));
    assert!(divisions.refused_at(17).unwrap().has_more());
}

/// Scenario: retention deletes all of a division but not of the next one, and a promised piece is
/// still to be read. Guarantee: only a division of which nothing can be read is forgotten.
#[test]
fn a_deleted_division_is_forgotten() {
    let mut divisions = Divisions::default();
    for first in [0, 20] {
        divisions.divide(range(first, first + 10), &RefusedParts::of([part(1)]));
    }
    assert_eq!(divisions.forget_deleted(25, Some(9)), None);
    assert_eq!(divisions.forget_deleted(25, Some(20)), Some(10));
    assert_eq!((divisions.piece_at(5), divisions.piece_at(25)), (None, Some(range(25, 26))));
}
