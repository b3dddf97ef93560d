//! Tests of private items of `select.rs`.

use jiff::Timestamp;
use millrace_pipeline::dead_letter::DeadLetterHeaders;
use millrace_wire::Signal;

use super::{PartitionOffset, PartitionRange, Selection, parse_since};

/// Scenario: positions as people write them. Guarantee: only partition and offsets pass.
#[test]
fn places_are_partition_and_offsets() {
    assert_eq!("3:12".parse(), Ok(PartitionOffset { partition: 3, offset: 12 }));
    assert_eq!("3:12-14".parse(), Ok(PartitionRange { partition: 3, first: 12, last: 14 }));
    for bad in ["", "3", "3:", ":3", "-1:3", "3:-1", "3:5-4", "a:b", "3:1-", "1:2:3"] {
        assert!(
            bad.parse::<PartitionOffset>().is_err() && bad.parse::<PartitionRange>().is_err(),
            "{bad}"
        );
    }
    assert!("3:12-14".parse::<PartitionOffset>().is_err());
}

/// Scenario: times and durations. Guarantee: both are parsed, anything else is not.
#[test]
fn since_is_a_time_or_how_long_ago() {
    let now: Timestamp = "2026-01-02T00:00:00Z".parse().unwrap();
    let since = |text| parse_since(text, now);
    assert_eq!(since("2026-01-01T00:00:00Z"), Ok(1_767_225_600_000));
    assert_eq!(since("1d"), since("2026-01-01T00:00:00Z"));
    assert_eq!(since("90m"), since("2026-01-01T22:30:00Z"));
    for bad in ["", "d", "1", "1w", "-1d", "yesterday", "4294967295d", "1ä"] {
        assert!(since(bad).is_err(), "{bad}");
    }
}

/// Scenario: one dead letter against selections. Guarantee: it is selected when it meets all
/// conditions.
#[test]
fn a_letter_has_to_meet_all_that_is_asked() {
    let letter =
        DeadLetterHeaders { reason: Some("utf8".to_owned()), ..DeadLetterHeaders::default() };
    let place = PartitionOffset { partition: 1, offset: 5 };
    let takes =
        |selection: Selection| selection.selects(place, Some(100), Some(Signal::Logs), &letter);
    assert!(takes(Selection::default()));
    let reasons = |reasons: &[&str]| Selection {
        reasons: reasons.iter().map(|reason| (*reason).to_owned()).collect(),
        ..Selection::default()
    };
    assert!(takes(reasons(&["truncated", "utf8"])) && !takes(reasons(&["truncated"])));
    let since = |millis| Selection { since_millis: Some(millis), ..Selection::default() };
    assert!(takes(since(100)) && !takes(since(101)));
    let signal = |signal| Selection { signal: Some(signal), ..Selection::default() };
    assert!(takes(signal(Signal::Logs)) && !takes(signal(Signal::Traces)));
    let at = |text: &str| Selection { ranges: vec![text.parse().unwrap()], ..Selection::default() };
    assert!(takes(at("1:4-5")) && !takes(at("0:5")) && !takes(at("1:6")));
}
