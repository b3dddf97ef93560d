//! Tests of the private code of `intent.rs`.

use super::*;
use crate::division::{MAX_REFUSED_PARTS, PartName, RefusedParts};

fn range(first: i64, next: i64) -> OffsetRange {
    OffsetRange::new(first, next).unwrap()
}

fn batch(first: i64, next: i64) -> Intent {
    Intent::new(range(first, next), first - 1)
}

fn division(first: i64, next: i64) -> Division {
    let parts = [PartName { table: u32::MAX, day: -1 }, PartName { table: 1, day: 16 }];
    Division::new(range(first, next), RefusedParts::of(parts))
}

fn ranges(list: &[Intent]) -> Promises {
    list.to_vec().into()
}

#[test]
fn what_was_written_is_read_back() {
    let early = Intent::new(range(4_005, 4_006), -1);
    let mut divisions = Divisions::new(vec![division(90, 200)]);
    divisions.divide(range(200, 4_000), &RefusedParts::of([PartName { table: 7, day: 8 }]));
    divisions.divide(range(118, 125), &RefusedParts::of([PartName { table: 1, day: 16 }]));
    let promises = Promises {
        topic: Some(0xabc),
        ranges: vec![batch(104, 111), batch(125, 132), early],
        divisions: divisions.list().to_vec(),
    };
    let text = encode_metadata(100, &promises);
    let written = "millrace:4:00000abc:4+7@67,e+7@7c,f21+1@ffffffffffffffff\
                   ;64-6e!1.10!ffffffff.ffffffff~4.1;f3c-ed8!7.8";
    assert_eq!(text, written);
    assert_eq!(decode_metadata(100, &text).unwrap(), promises);
    let topic = Promises { topic: Some(7), ..Promises::default() };
    assert_eq!(encode_metadata(100, &topic), "millrace:4:00000007:");
    assert_eq!(decode_metadata(100, "millrace:4:00000007:").unwrap(), topic);
    let divided = Promises { topic: None, ranges: Vec::new(), ..promises };
    assert_eq!(decode_metadata(100, &encode_metadata(100, &divided)).unwrap(), divided);
    assert_eq!(encode_metadata(100, &Promises::default()), "");
}

#[test]
fn the_longest_list_fits_into_a_commit() {
    // One more range than may be open, all numbers with 16 digits, and the longest divisions.
    let most = MAX_OPEN_RANGES as i64 + 1;
    let span = i64::MAX / (2 * most);
    let long = |i: i64| Intent::new(range(2 * i * span + span, 2 * (i + 1) * span), -1);
    let mut promises = ranges(&(0..most).map(long).collect::<Vec<_>>());
    promises.topic = Some(u32::MAX);
    assert_eq!(decode_metadata(0, &encode_metadata(0, &promises)).unwrap(), promises);
    let names = (0..MAX_REFUSED_PARTS as u32).map(|n| PartName { table: u32::MAX - n, day: -1 });
    promises.divisions.push(Division::new(range(0, span), RefusedParts::of(names)));
    let text = encode_metadata(0, &promises);
    assert_eq!(decode_metadata(0, &text).unwrap(), promises);
    let room = MAX_DIVISIONS_BYTES - Divisions::new(promises.divisions).text_bytes(0);
    assert!(text.len() + room <= MAX_METADATA_BYTES, "{} bytes", text.len());
}

#[test]
fn metadata_of_others_and_of_later_versions_is_foreign() {
    for text in ["hello", "millrace:2:0+64@0", "millrace:5:0+64@0", "NO_METADATA", "millrace"] {
        assert_eq!(decode_metadata(0, text), Err(IntentError::Foreign), "{text}");
    }
}

#[test]
fn torn_metadata_is_damaged_or_a_shorter_list_that_was_written_so() {
    let divisions = vec![division(60, 90), division(100, 2_000)];
    let topic = Some(0x1234_5678);
    let ranges = vec![batch(7, 50), batch(60, 62)];
    let text = encode_metadata(7, &Promises { topic, ranges, divisions });
    for cut in HEADER.len()..text.len() {
        match decode_metadata(7, &text[..cut]) {
            Ok(promises) => assert_eq!(encode_metadata(7, &promises), text[..cut]),
            Err(error) => assert!(matches!(error, IntentError::Damaged { .. }), "{error}"),
        }
    }
    for bad in ["", "0:0+1@1", "1234567:", "123456789:", "1234567A:", "12345678", "::"] {
        let text = format!("{HEADER}{bad}");
        assert!(matches!(decode_metadata(7, &text), Err(IntentError::Damaged { .. })), "{bad}");
    }
    for bad in [
        "",
        ";",
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
        "0+1@1;",
        ";8-8",
        ";8-8!",
        ";8-8!1",
        ";8-8!1.",
        ";8-8!2.1!1.1",
        ";8-8!1.1!1.1",
        ";8-8!100000000.1",
        ";8-8!1.1;8-8!1.1",
        ";8-10!1.1",
        ";0-1!1.1",
        ";28-20!1.1~.1",
        ";28-20!1.1~10.1",
        ";28-20!1.1~0.0",
        ";28-20!1.1~0.2",
        ";28-20!1.1+~0.1",
        ";28-20!1.1~1.1~0.1",
        ";28-20!1.1~0.1~0.1",
        "8+3@1;28-20!1.1",
        "7+2@1;28-20!1.1",
    ] {
        let text = format!("{HEADER}:{bad}");
        assert!(matches!(decode_metadata(7, &text), Err(IntentError::Damaged { .. })), "{bad}");
    }
}

#[test]
fn more_ranges_than_we_write_are_refused() {
    let list = vec!["0+1@1"; MAX_OPEN_RANGES + 2].join(",");
    assert_eq!(decode_metadata(0, &format!("{HEADER}:{list}")), Err(IntentError::TooMany));
    let divisions: String = (1..99).map(|n| format!(";{n:x}0-8!1.1")).collect();
    assert_eq!(decode_metadata(0, &format!("{HEADER}:{divisions}")), Err(IntentError::TooMany));
}

#[test]
fn a_plan_repeats_ranges_and_stops_free_batches_before_them() {
    let mut plan = CutPlan::new(vec![batch(10, 20), batch(30, 40)]);
    assert_eq!(plan.cut_at(5), Cut::Before { limit: 10 });
    assert_eq!(plan.cut_at(10), Cut::Exactly(batch(10, 20)));
    assert_eq!(plan.cut_at(19), Cut::Exactly(batch(10, 20)));
    assert_eq!(plan.cut_at(20), Cut::Before { limit: 30 });
    assert_eq!(plan.cut_at(35), Cut::Exactly(batch(30, 40)));
    assert_eq!(plan.cut_at(40), Cut::Free);
    plan.forget_before(20);
    assert_eq!(plan.cut_at(5), Cut::Before { limit: 30 });
    plan.forget_before(40);
    assert_eq!(plan.len(), 0);
}
