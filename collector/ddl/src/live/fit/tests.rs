//! Tests of the private functions of `fit.rs`.

use millrace_schema::{AttributeStorage, TableKind, build_table};

use super::*;
use crate::live::observe::ObservedColumn;

fn live(declared: &Table) -> ObservedTable {
    let column = |column: &millrace_schema::Column| ObservedColumn {
        name: column.name.to_owned(),
        ty: column.ty.to_string(),
        default_kind: String::new(),
        codec: String::new(),
    };
    ObservedTable {
        engine: "MergeTree".to_owned(),
        engine_full: "MergeTree PARTITION BY toDate(Timestamp) ORDER BY ServiceName \
                      SETTINGS non_replicated_deduplication_window = 1000"
            .to_owned(),
        partition_key: "toDate(Timestamp)".to_owned(),
        columns: declared.insert_columns().map(column).collect(),
        ..ObservedTable::default()
    }
}

/// Scenario: the declared table, then one with a column dropped, one computed, one changed without
/// loss and one changed with loss. Guarantee: the result names each of them and nothing else.
#[test]
fn what_a_live_table_does_not_take_is_named() {
    let declared = build_table(TableKind::Traces, AttributeStorage::Json);
    let mut there = live(&declared);
    let remembers = LiveDeduplicationWindow { inserts: 1000, seconds: None };
    assert_eq!(
        assess_fit(&declared, &there),
        Some(Fit { dedup_window: remembers, ..Fit::default() })
    );
    there.columns.retain(|column| column.name != "Links.Attributes");
    let mut change = |name: &str, ty: &str, default_kind: &str| {
        let column = there.columns.iter_mut().find(|column| column.name == name).unwrap();
        (column.ty, column.default_kind) = (ty.to_owned(), default_kind.to_owned());
    };
    change("StatusCode", "LowCardinality(String)", "MATERIALIZED");
    change("SpanName", "String", "");
    change("Duration", "UInt64", "DEFAULT");
    change("SpanAttributes", "Map(String, String)", "");
    let fit = assess_fit(&declared, &there).unwrap();
    assert_eq!(fit.missing, ["StatusCode", "Links.Attributes"]);
    let told: Vec<String> = fit.mismatched.iter().map(TypeMismatch::to_string).collect();
    assert_eq!(told, ["column SpanAttributes is Map(String, String), written as JSON"]);
}

/// Scenario: the server shows no column. Guarantee: no result, rather than one with all columns
/// missing.
#[test]
fn a_table_that_is_not_seen_is_not_judged() {
    let declared = build_table(TableKind::Logs, AttributeStorage::Map);
    assert_eq!(assess_fit(&declared, &ObservedTable::default()), None);
}

/// Scenario: engines, windows and partition keys. Guarantee: only tables that remember an insert as
/// a unit count as deduplicating.
#[test]
fn tables_that_forget_inserts_are_told_from_others() {
    let judged = |engine: &str, settings: &str, key: &str| {
        dedup_fault(&ObservedTable {
            engine: engine.to_owned(),
            engine_full: format!("{engine} ORDER BY a{settings}"),
            partition_key: key.to_owned(),
            ..ObservedTable::default()
        })
    };
    let window = " SETTINGS index_granularity = 8192, non_replicated_deduplication_window = 9";
    for key in ["toDate(Timestamp)", "toMonday(Timestamp)", "toYYYYMM(TimeUnix)", "tuple()", ""] {
        assert_eq!(judged("MergeTree", window, key), None, "{key}");
        assert_eq!(judged("ReplicatedMergeTree", "", key), None, "{key}");
        assert_eq!(judged("SharedMergeTree", "", key), None, "{key}");
    }
    for key in ["toStartOfHour(Timestamp)", "(toDate(Timestamp), ServiceName)", "ServiceName"] {
        let expected = Some(DedupFault::PartitionKey(key.to_owned()));
        assert_eq!(judged("MergeTree", window, key), expected, "{key}");
    }
    let zero = " SETTINGS replicated_deduplication_window = 0";
    for (engine, settings, setting) in [
        ("MergeTree", "", "non_replicated_deduplication_window"),
        ("ReplicatedMergeTree", zero, "replicated_deduplication_window"),
    ] {
        let expected = Some(DedupFault::NoWindow(setting));
        assert_eq!(judged(engine, settings, "toDate(Timestamp)"), expected);
    }
    for engine in ["Null", "Distributed", "Memory"] {
        let expected = Some(DedupFault::Engine(engine.to_owned()));
        assert_eq!(judged(engine, "", ""), expected);
    }
}

/// Scenario: keys by day over columns with a time zone, written in each way. Guarantee: only days of
/// UTC count as an insert's unit, since a gateway cuts its inserts there.
#[test]
fn days_of_another_time_zone_may_cut_an_insert() {
    for (ty, key, is_whole) in [
        ("DateTime64(9)", "toDate(Timestamp)", true),
        ("DateTime64(9, 'UTC')", "toDate(Timestamp)", true),
        ("DateTime('Etc/UTC')", "toYYYYMM(Timestamp)", true),
        ("DateTime64(9, 'Europe/Berlin')", "toDate(Timestamp)", false),
        ("DateTime('America/New_York')", "toMonday(Timestamp)", false),
        ("DateTime64(9, 'Europe/Berlin')", "tuple()", true),
        ("DateTime64(9, 'Europe/Berlin')", "toDate(TimestampTime)", true),
    ] {
        let column = ObservedColumn {
            name: "Timestamp".to_owned(),
            ty: ty.to_owned(),
            default_kind: String::new(),
            codec: String::new(),
        };
        let fault = dedup_fault(&ObservedTable {
            engine: "ReplicatedMergeTree".to_owned(),
            partition_key: key.to_owned(),
            columns: vec![column],
            ..ObservedTable::default()
        });
        assert_eq!(fault.is_none(), is_whole, "{ty} {key}: {fault:?}");
    }
}

/// Scenario: a plain and a replicated table with and without their settings, and an engine that
/// remembers nothing. Guarantee: the table's settings decide; without them, the minimum of servers'
/// defaults.
#[test]
fn what_a_table_remembers_is_read_from_its_settings() {
    let judged = |engine: &str, settings: &str| {
        let live = ObservedTable {
            engine: engine.to_owned(),
            engine_full: format!("{engine} ORDER BY a{settings}"),
            partition_key: "toDate(Timestamp)".to_owned(),
            ..ObservedTable::default()
        };
        let LiveDeduplicationWindow { inserts, seconds } =
            dedup_window(&live, dedup_fault(&live).as_ref());
        (inserts, seconds)
    };
    let plain = " SETTINGS non_replicated_deduplication_window = 36000";
    assert_eq!(judged("MergeTree", plain), (36_000, None));
    assert_eq!(judged("MergeTree", ""), (0, None));
    let replicated = " SETTINGS replicated_deduplication_window = 20000, \
                      replicated_deduplication_window_seconds = 604800";
    assert_eq!(judged("ReplicatedMergeTree", replicated), (20_000, Some(604_800)));
    assert_eq!(judged("ReplicatedMergeTree", ""), (1_000, Some(3_600)));
    assert_eq!(judged("Null", ""), (0, None));
}
