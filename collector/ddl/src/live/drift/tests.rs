//! Tests of the private functions of `drift.rs`.

use super::*;

/// Scenario: the same retention in each writer's spelling, and others. Guarantee: only rules that
/// delete in the same second are equal.
#[test]
fn a_retention_is_told_by_when_it_deletes() {
    for (ours, theirs) in [
        ("TimestampTime + toIntervalDay(30)", "toDateTime(Timestamp) + toIntervalDay(30)"),
        ("TimestampTime + toIntervalDay(30)", "Timestamp + toIntervalDay(30)"),
        ("Start + toIntervalDay(30)", "toDateTime(Start) + toIntervalDay(30)"),
        ("toDateTime(TimeUnix) + toIntervalDay(1)", "TimeUnix + toIntervalDay(1)"),
        ("Start + toIntervalDay(7)", "Start + toIntervalWeek(1)"),
        ("Start + toIntervalDay(1)", "toDateTime(Start) + toIntervalSecond(86400)"),
        (
            "Start + toIntervalHour(1) TO VOLUME 'cold', Start + toIntervalDay(1)",
            "Start + toIntervalMinute(60) TO VOLUME 'cold', Start + toIntervalHour(24)",
        ),
    ] {
        assert_eq!(by_seconds(ours), by_seconds(theirs), "{ours} {theirs}");
    }
    for (ours, theirs) in [
        ("Start + toIntervalDay(30)", "Start + toIntervalDay(31)"),
        ("Start + toIntervalDay(30)", "End + toIntervalDay(30)"),
        ("Start + toIntervalDay(30)", "toDate(Start) + toIntervalDay(30)"),
        ("Start + toIntervalDay(30)", "Start + toIntervalMonth(1)"),
        ("Start + toIntervalDay(1)", "Start + toIntervalSecond(8640)"),
    ] {
        assert_ne!(by_seconds(ours), by_seconds(theirs), "{ours} {theirs}");
    }
}

/// Scenario: points with times in whole seconds, as the exporter creates its tables since 0.151 and
/// ClickStack its own, and types that store no times. Guarantee: the first accept inserts and the
/// lost precision is reported; the others do not accept them.
#[test]
fn coarser_times_accept_inserts_and_lose_precision() {
    for (declared, live) in [
        ("DateTime64(9)", "DateTime"),
        ("DateTime64(9)", "DateTime('UTC')"),
        ("DateTime64(9)", "DateTime64(3)"),
        ("Array(DateTime64(9))", "Array(DateTime)"),
    ] {
        assert!(accepts_inserts(declared, live), "{declared} {live}");
        let (declared, live) = (declared.to_owned(), live.to_owned());
        let kind = DriftKind::ColumnType { column: "TimeUnix".to_owned(), declared, live };
        let message = notice_drift(&"db.t", kind).to_string();
        assert!(message.ends_with(": inserts work, and times lose precision"), "{message}");
    }
    for (declared, live) in [
        ("DateTime64(9)", "Date"),
        ("DateTime64(9)", "UInt64"),
        ("DateTime64(9)", "Array(DateTime)"),
        ("Array(DateTime64(9))", "DateTime"),
        ("String", "DateTime"),
    ] {
        assert!(!accepts_inserts(declared, live), "{declared} {live}");
    }
}

/// Scenario: pairs of live and declared types. Guarantee: only lossless pairs count as equal.
#[test]
fn lossless_types_are_told_from_others() {
    for (declared, live) in [
        ("LowCardinality(String)", "String"),
        ("Array(String)", "Array(LowCardinality(String))"),
        ("DateTime64(9)", "DateTime64(9, 'UTC')"),
        ("DateTime", "DateTime('Europe/Berlin')"),
        ("Array(DateTime64(9))", "Array(DateTime64(9, 'Europe/Berlin'))"),
        ("Map(LowCardinality(String), String)", "Map(String, String)"),
        (
            "Map(LowCardinality(String), String)",
            "Map(LowCardinality(String), LowCardinality(String))",
        ),
        ("JSON", "JSON(max_dynamic_paths=256)"),
        ("JSON(`a.b` String)", "JSON"),
    ] {
        assert!(is_converted_on_insert(declared, live), "{declared} {live}");
    }
    for (declared, live) in [
        ("DateTime64(9)", "DateTime64(3)"),
        ("DateTime64(9)", "DateTime('UTC')"),
        ("UInt64", "UInt32"),
        ("JSON", "Map(LowCardinality(String), String)"),
        ("String", "FixedString(16)"),
    ] {
        assert!(!is_converted_on_insert(declared, live), "{declared} {live}");
    }
}
