//! Tests of what `fit.rs` keeps to itself.

use millrace_schema::{Attributes, TableKind, table};

use super::*;
use crate::observe::ObservedColumn;

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

/// Scenario: the declared table, then one with a column dropped, one computed, one changed
/// without loss and one changed with. Guarantee: each is told, and nothing else.
#[test]
fn what_a_live_table_does_not_take_is_named() {
    let declared = table(TableKind::Traces, Attributes::Json);
    let mut there = live(&declared);
    let remembers = Remembers { inserts: 1000, seconds: None };
    assert_eq!(fit(&declared, &there), Some(Fit { remembers, ..Fit::default() }));
    there.columns.retain(|column| column.name != "Links.Attributes");
    let mut change = |name: &str, ty: &str, default_kind: &str| {
        let column = there.columns.iter_mut().find(|column| column.name == name).unwrap();
        (column.ty, column.default_kind) = (ty.to_owned(), default_kind.to_owned());
    };
    change("StatusCode", "LowCardinality(String)", "MATERIALIZED");
    change("SpanName", "String", "");
    change("Duration", "UInt64", "DEFAULT");
    change("SpanAttributes", "Map(String, String)", "");
    let fit = fit(&declared, &there).unwrap();
    assert_eq!(fit.missing, ["StatusCode", "Links.Attributes"]);
    let told: Vec<String> = fit.differing.iter().map(Differing::to_string).collect();
    assert_eq!(told, ["column SpanAttributes is Map(String, String), written as JSON"]);
}

/// Scenario: no column is shown. Guarantee: no judgement, rather than that all are missing.
#[test]
fn a_table_that_is_not_seen_is_not_judged() {
    let declared = table(TableKind::Logs, Attributes::Map);
    assert_eq!(fit(&declared, &ObservedTable::default()), None);
}

/// Scenario: engines, windows and partition keys. Guarantee: only those that remember an insert
/// as a whole count as deduplicating.
#[test]
fn tables_that_forget_inserts_are_told_from_others() {
    let judged = |engine: &str, settings: &str, key: &str| {
        undeduplicated(&ObservedTable {
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
        let expected = Some(Undeduplicated::PartitionKey(key.to_owned()));
        assert_eq!(judged("MergeTree", window, key), expected, "{key}");
    }
    let zero = " SETTINGS replicated_deduplication_window = 0";
    for (engine, settings, setting) in [
        ("MergeTree", "", "non_replicated_deduplication_window"),
        ("ReplicatedMergeTree", zero, "replicated_deduplication_window"),
    ] {
        let expected = Some(Undeduplicated::NoWindow(setting));
        assert_eq!(judged(engine, settings, "toDate(Timestamp)"), expected);
    }
    for engine in ["Null", "Distributed", "Memory"] {
        let expected = Some(Undeduplicated::Engine(engine.to_owned()));
        assert_eq!(judged(engine, "", ""), expected);
    }
}

/// Scenario: a plain and a replicated table with and without their settings, and an engine that
/// remembers nothing. Guarantee: what the table says; where it says nothing, the least of what
/// servers had by default.
#[test]
fn what_a_table_remembers_is_read_from_its_settings() {
    let judged = |engine: &str, settings: &str| {
        let live = ObservedTable {
            engine: engine.to_owned(),
            engine_full: format!("{engine} ORDER BY a{settings}"),
            partition_key: "toDate(Timestamp)".to_owned(),
            ..ObservedTable::default()
        };
        let Remembers { inserts, seconds } = remembers(&live, undeduplicated(&live).as_ref());
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
