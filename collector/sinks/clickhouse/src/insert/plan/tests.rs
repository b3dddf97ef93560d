//! Tests of `plan.rs`.

use millrace_ddl::ObservedColumn;
use millrace_schema::{AttributeStorage, Identifier, TableKind};

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

/// Scenario: a live table lacks a column, then one that every row needs, then none; another
/// endpoint isn't checked. Guarantee: the first column isn't named, the second still is, and in the
/// end all are; the other endpoint's plan stays.
#[test]
fn what_a_live_table_lacks_is_not_named() {
    let name = |text| Identifier::new(text).unwrap();
    let tables = SinkTables::new(&name("db"), &name("otel"), AttributeStorage::Json);
    let plans = Plans::new(&tables, 2);
    let table = tables.of_kind(TableKind::Traces);
    let plan = || plans.plan_of(0, table.index);
    let whole = plan();
    assert_eq!((whole.has_dedup(), whole.missing_count()), (None, 0));

    assert!(
        plans.update_plan(0, table, &live(table, &["TraceState", "Links.SpanId"]), None).is_some()
    );
    assert!(
        plans.update_plan(0, table, &live(table, &["TraceState", "Links.SpanId"]), None).is_none()
    );
    let narrow = plan();
    assert_eq!(narrow.omitted_columns(), ["TraceState", "Links.SpanId"]);
    assert!(narrow.parameters().starts_with(SKIP_UNKNOWN));
    let names =
        |plan: &InsertPlan, column: &str| plan.parameters().contains(&format!("60{column}%"));
    assert!(!names(&narrow, "TraceState") && names(&narrow, "SpanName"));
    assert_eq!((narrow.insert_obstacle(), narrow.has_dedup()), (None, Some(true)));

    assert!(plans.update_plan(0, table, &live(table, &["TraceId"]), None).is_some());
    assert!(names(&plan(), "TraceId") && plan().omitted_columns().is_empty());
    assert_eq!(plan().insert_obstacle().as_deref(), Some("column TraceId is missing"));

    assert!(
        plans.update_plan(0, table, &ObservedTable::default(), None).is_none(),
        "nothing was seen"
    );
    let newest = "26.9.1.1".parse().ok();
    assert!(plans.update_plan(0, table, &live(table, &[]), newest).is_some());
    assert_eq!((plan().parameters(), plan().missing_count()), (whole.parameters(), 0));
    assert_eq!(plans.plan_of(1, table.index), whole);
    assert_eq!(plans.plans_of_table(table.index).count(), 2);
}

/// Scenario: servers of several versions, one of an unknown version, and one before it was checked.
/// Guarantee: each gets only the settings that it knows: from 23.2 on the Keeper retries, from 24.6
/// on deferred indexes, from 26.2 on deduplication, from 26.4 on blocks without limits; before the
/// check all of them, so that no profile applies. The inserted data is the same.
#[test]
fn a_server_is_told_what_its_version_knows() {
    let name = |text| Identifier::new(text).unwrap();
    let tables = SinkTables::new(&name("db"), &name("otel"), AttributeStorage::Map);
    let retries = "&insert_keeper_max_retries=7";
    let both = format!("&materialize_skip_indexes_on_insert=0{retries}");
    let three = format!("&deduplicate_insert=enable{both}");
    let all = format!("&use_strict_insert_block_limits=0{three}");
    let told = [
        ("26.9.2.1", all.as_str()),
        ("26.4.1.1", &all),
        ("26.3.9.9", &three),
        ("26.2.1.1", &three),
        ("26.1.9.9", &both),
        ("24.6.1.1", &both),
        ("24.5.9.9", retries),
        ("23.2.1.1", retries),
        ("23.1.9.9", ""),
        ("unknown", ""),
    ];
    let plans = Plans::new(&tables, told.len());
    let table = tables.of_kind(TableKind::Logs);
    let whole = plans.plan_of(0, table.index);
    let data = whole.parameters().strip_prefix(&all).expect("each setting");
    assert!(data.starts_with("&query="));
    for (endpoint, (version, told)) in told.iter().enumerate() {
        plans.update_plan(endpoint, table, &live(table, &[]), version.parse().ok());
        let plan = plans.plan_of(endpoint, table.index);
        assert_eq!(plan.parameters().strip_prefix(*told), Some(data), "{version}");
    }
}

/// Scenario: two endpoints whose tables declare the same JSON type in one column, and different
/// ones in another; before and after both were checked. Guarantee: encoders get the types that all
/// endpoints share, and none before all were checked.
#[test]
fn types_that_all_endpoints_have_alike_are_known() {
    let name = |text| Identifier::new(text).unwrap();
    let tables = SinkTables::new(&name("db"), &name("otel"), AttributeStorage::Json);
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
    plans.update_plan(0, table, &with(host, "JSON(level String)"), None);
    assert_eq!(plans.typed_columns(&tables), []);
    plans.update_plan(1, table, &with(host, "JSON"), None);
    let expected = TypedColumn::from_live(TableKind::Logs, "ResourceAttributes", host).unwrap();
    assert_eq!(plans.typed_columns(&tables), [expected]);
    plans.update_plan(1, table, &with("JSON", "JSON"), None);
    assert_eq!(plans.typed_columns(&tables), []);
}
