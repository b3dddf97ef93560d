//! Tests of what `clickhouse/plan.rs` keeps to itself.

use millrace_ddl::ObservedColumn;
use millrace_schema::{Attributes, Identifier, TableKind};

use super::*;

fn live(table: &TableEntry, without: &[&str]) -> ObservedTable {
    let columns = table.definition.insert_columns();
    let columns = columns.filter(|column| !without.contains(&column.name));
    let column = |column: &millrace_schema::Column| ObservedColumn {
        name: column.name.to_owned(),
        ty: column.ty.to_string(),
        default_kind: String::new(),
        codec: String::new(),
    };
    ObservedTable {
        engine: "ReplicatedMergeTree".to_owned(),
        partition_key: "toDate(Timestamp)".to_owned(),
        columns: columns.map(column).collect(),
        ..ObservedTable::default()
    }
}

/// Scenario: a live table without a column, then without one that every row needs, then whole
/// again; another endpoint isn't looked at. Guarantee: the first isn't named, the second still
/// is, and in the end all are; the other endpoint's plan stays.
#[test]
fn what_a_live_table_lacks_is_not_named() {
    let name = |text| Identifier::new(text).unwrap();
    let tables = Tables::new(&name("db"), &name("otel"), Attributes::Json);
    let plans = Plans::new(&tables, 2);
    let table = tables.of_kind(TableKind::Traces);
    let plan = || plans.of(0, table.index).unwrap();
    let whole = plan();
    assert_eq!((whole.deduplicates(), whole.missing()), (None, 0));

    assert!(plans.learn(0, table, &live(table, &["TraceState", "Links.SpanId"]), false).is_some());
    assert!(plans.learn(0, table, &live(table, &["TraceState", "Links.SpanId"]), false).is_none());
    let narrow = plan();
    assert_eq!(narrow.left_out(), ["TraceState", "Links.SpanId"]);
    assert!(narrow.parameters().starts_with(SKIP_UNKNOWN));
    let names = |plan: &Plan, column: &str| plan.parameters().contains(&format!("60{column}%"));
    assert!(!names(&narrow, "TraceState") && names(&narrow, "SpanName"));
    assert_eq!((narrow.obstacle(), narrow.deduplicates()), (None, Some(true)));

    assert!(plans.learn(0, table, &live(table, &["TraceId"]), false).is_some());
    assert!(names(&plan(), "TraceId") && plan().left_out().is_empty());
    assert_eq!(plan().obstacle().as_deref(), Some("column TraceId is missing"));

    assert!(plans.learn(0, table, &ObservedTable::default(), false).is_none(), "nothing was seen");
    assert!(plans.learn(0, table, &live(table, &[]), false).is_some());
    assert_eq!((plan().parameters(), plan().missing()), (whole.parameters(), 0));
    assert_eq!(plans.of(1, table.index).unwrap(), whole);
    assert_eq!(plans.everywhere(table.index).count(), 2);
    assert!(plans.of(2, table.index).is_none());
}

/// Scenario: a server that can leave indexes to merges, and one that can't. Guarantee: only the
/// first is told so, and how often to ask a lost Keeper; what is inserted is the same.
#[test]
fn indexes_are_left_to_merges_where_the_server_can() {
    let name = |text| Identifier::new(text).unwrap();
    let tables = Tables::new(&name("db"), &name("otel"), Attributes::Map);
    let plans = Plans::new(&tables, 2);
    let table = tables.of_kind(TableKind::Logs);
    let whole = plans.of(0, table.index).unwrap();
    assert!(!whole.parameters().contains("materialize_skip_indexes"));
    plans.learn(0, table, &live(table, &[]), true);
    plans.learn(1, table, &live(table, &[]), false);
    let (can, cannot) = (plans.of(0, table.index).unwrap(), plans.of(1, table.index).unwrap());
    let told = "&materialize_skip_indexes_on_insert=0&insert_keeper_max_retries=7";
    assert_eq!(can.parameters().strip_prefix(told), Some(whole.parameters()));
    assert_eq!(cannot.parameters(), whole.parameters());
}

/// Scenario: two endpoints whose tables have the same JSON type of their own in one column, and
/// different ones in another; before and after both were checked. Guarantee: encoders are given
/// what all endpoints have alike, and nothing before all were checked.
#[test]
fn types_that_all_endpoints_have_alike_are_known() {
    let name = |text| Identifier::new(text).unwrap();
    let tables = Tables::new(&name("db"), &name("otel"), Attributes::Json);
    let plans = Plans::new(&tables, 2);
    let table = tables.of_kind(TableKind::Logs);
    let with = |resource: &str, log: &str| {
        let mut live = live(table, &[]);
        for column in &mut live.columns {
            match &*column.name {
                "ResourceAttributes" => column.ty = resource.to_owned(),
                "LogAttributes" => column.ty = log.to_owned(),
                _ => {}
            }
        }
        live
    };
    let host = "JSON(`host.name` LowCardinality(String))";
    plans.learn(0, table, &with(host, "JSON(level String)"), false);
    assert_eq!(plans.typed(&tables), []);
    plans.learn(1, table, &with(host, "JSON"), false);
    let expected = TypedColumn::of_live(TableKind::Logs, "ResourceAttributes", host).unwrap();
    assert_eq!(plans.typed(&tables), [expected]);
    plans.learn(1, table, &with("JSON", "JSON"), false);
    assert_eq!(plans.typed(&tables), []);
}
