//! Tests of what `intent.rs` keeps to itself.

use super::*;
use crate::partition::MAX_APART;

fn batch(first: i64, next: i64) -> Intent {
    Intent::new(OffsetRange::new(first, next).unwrap(), first - 1)
}

fn at_piece(batch: Intent, first: i64, next: i64) -> Intent {
    let part = PartName { table: u32::MAX, day: -1 };
    let piece = OffsetRange::new(first, next).unwrap();
    Intent { apart: Some(Apart { part, piece }), ..batch }
}

#[test]
fn what_was_written_is_read_back() {
    let early = Intent::new(OffsetRange::new(4_005, 4_006).unwrap(), -1);
    let open = vec![batch(100, 200), at_piece(batch(200, 4_000), 200, 2_100), early];
    let text = encode(100, &open);
    let written = "millrace:2:0+64@63,0+ed8@c7!ffffffff.ffffffff.0.76c,5+1@ffffffffffffffff";
    assert_eq!(text, written);
    assert_eq!(decode(100, &text).unwrap(), open);
}

#[test]
fn the_longest_list_fits_into_a_commit() {
    // One more than may be open, as many told apart as may be, and all numbers of 16 digits.
    let most = MAX_OPEN_RANGES as i64 + 1;
    let span = i64::MAX / (2 * most);
    let long = |i: i64| {
        let range = OffsetRange::new(2 * i * span + span, 2 * (i + 1) * span).unwrap();
        let piece = range.halves().unwrap().1;
        let batch = Intent::new(range, -1);
        if i > MAX_APART as i64 { batch } else { at_piece(batch, piece.first(), piece.next()) }
    };
    let open: Vec<_> = (0..most).map(long).collect();
    let text = encode(0, &open);
    assert!(text.len() <= MAX_METADATA_BYTES, "{} bytes", text.len());
    assert_eq!(decode(0, &text).unwrap(), open);
}

#[test]
fn metadata_of_others_and_of_later_versions_is_foreign() {
    for text in ["hello", "millrace:1:0+64", "millrace:3:0+64@0", "NO_METADATA", "millrace"] {
        assert_eq!(decode(0, text), Err(IntentError::Foreign), "{text}");
    }
}

#[test]
fn torn_metadata_is_damaged_or_a_shorter_list_that_was_written_so() {
    let text = encode(7, &[batch(7, 50), at_piece(batch(60, 90), 60, 75)]);
    for cut in HEADER.len()..text.len() {
        match decode(7, &text[..cut]) {
            Ok(ranges) => assert_eq!(encode(7, &ranges), text[..cut]),
            Err(error) => assert!(matches!(error, IntentError::Damaged { .. }), "{error}"),
        }
    }
    for bad in [
        "0+0@1",
        "+1@1",
        "1+@1",
        "-1+2@1",
        "0+1@1,,0+1@1",
        "00+1@1",
        "0+fffffffffffffffff@1",
        "0+A@1",
        "0+1",
        "0+1@",
        "0+1@01",
        "0+8@1!",
        "0+8@1!1.1.0",
        "0+8@1!1.1.0.8",
        "0+8@1!1.1.1.4",
        "0+8@1!1.1.8.4",
        "0+8@1!100000000.1.0.4",
        "0+8@1!1.1.0.4.1",
    ] {
        let text = format!("{HEADER}{bad}");
        assert!(matches!(decode(7, &text), Err(IntentError::Damaged { .. })), "{bad}");
    }
}

#[test]
fn more_ranges_than_we_write_are_refused() {
    let list = vec!["0+1@1"; MAX_OPEN_RANGES + 2].join(",");
    assert_eq!(decode(0, &format!("{HEADER}{list}")), Err(IntentError::TooMany));
}

#[test]
fn a_plan_repeats_ranges_and_stops_free_batches_before_them() {
    let mut plan = CutPlan::new(vec![batch(10, 20), batch(30, 40)]);
    assert_eq!(plan.at(5), Cut::Before { limit: 10 });
    assert_eq!(plan.at(10), Cut::Exactly(batch(10, 20)));
    assert_eq!(plan.at(19), Cut::Exactly(batch(10, 20)));
    assert_eq!(plan.at(20), Cut::Before { limit: 30 });
    assert_eq!(plan.at(35), Cut::Exactly(batch(30, 40)));
    assert_eq!(plan.at(40), Cut::Free);
    plan.forget_before(20);
    assert_eq!(plan.at(5), Cut::Before { limit: 30 });
    plan.forget_before(40);
    assert_eq!(plan.len(), 0);
}
