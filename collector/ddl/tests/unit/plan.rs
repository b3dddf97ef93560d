//! Plans from what is to what should be, without a server: `observed` is made as a server that has
//! exactly the declared tables would describe them, then changed.

use proptest::prelude::*;

use super::*;
use crate::exactly::exactly;
use crate::observe::ObservedTable;
use crate::options::{Engine, Replication, Signals, TableOptions};
use millrace_schema::Attributes;

fn declared(engine: Engine, ttl: Option<u64>) -> Declared {
    let ttl = ttl.and_then(Ttl::from_seconds);
    let attributes = Attributes::Map;
    let options = TableOptions { attributes, engine, ttl, ..TableOptions::default() };
    let name = |text: &str| text.parse().unwrap();
    Declared::uniform(name("telemetry"), name("acme"), Signals::ALL, &options)
}

fn traces(observed: &mut Observed) -> &mut ObservedTable {
    observed.tables.get_mut("acme_traces").unwrap()
}

/// Scenario: nothing is there. Guarantee: database, tables and view are made, in an order in which
/// each finds what it needs.
#[test]
fn an_empty_server_gets_everything_in_order() {
    let declared = declared(Engine::MergeTree, None);
    let plan = plan(&declared, &Observed::default());
    let all: Vec<_> = plan.steps.iter().map(|step| step.statement.clone()).collect();
    assert_eq!(all, render::create_all(&declared));
    assert_eq!(plan.steps[0].object, "telemetry");
    assert_eq!(plan.steps.last().unwrap().object, "telemetry.acme_traces_trace_id_ts_mv");
    assert!(plan.blocked.is_empty());
}

/// Scenario: everything is there, in each engine. Guarantee: nothing to do.
#[test]
fn an_equal_server_gets_nothing() {
    for engine in
        [Engine::MergeTree, Engine::ReplicatedMergeTree(Replication::default()), Engine::Null]
    {
        let declared = declared(engine, Some(86_400));
        assert_eq!(plan(&declared, &exactly(&declared)), Plan::default());
    }
}

/// Scenario: the server stores MergeTree tables in its shared engines. Guarantee: no difference.
#[test]
fn shared_engines_of_the_managed_service_are_equal() {
    let replicated = Engine::ReplicatedMergeTree(Replication::default());
    for engine in [Engine::MergeTree, replicated] {
        let declared = declared(engine, None);
        let mut observed = exactly(&declared);
        traces(&mut observed).engine = "SharedMergeTree".to_owned();
        assert!(plan(&declared, &observed).is_empty());
    }
}

/// Scenario: a column in the middle is missing, with rows in the table. Guarantee: it is added in
/// its place, by metadata alone, and the size of the table is told.
#[test]
fn a_missing_column_is_added_in_its_place() {
    let declared = declared(Engine::MergeTree, None);
    let mut observed = exactly(&declared);
    traces(&mut observed).columns.retain(|column| column.name != "SpanName");
    let plan = plan(&declared, &observed);
    let [step] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!(
        step.statement.sql(),
        "ALTER TABLE `telemetry`.`acme_traces` ADD COLUMN IF NOT EXISTS `SpanName` \
         LowCardinality(String) CODEC(ZSTD(1)) AFTER `TraceState`"
    );
    assert_eq!((step.class, step.rows, step.bytes), (StepClass::MetadataOnly, 5, 500));
}

/// Scenario: the first column is missing, on a cluster. Guarantee: added first, on every server.
#[test]
fn a_missing_first_column_comes_first_on_the_whole_cluster() {
    let mut declared = declared(Engine::MergeTree, None);
    declared.cluster = Some("prod".parse().unwrap());
    let mut observed = exactly(&declared);
    traces(&mut observed).columns.remove(0);
    let plan = plan(&declared, &observed);
    let sql = plan.steps[0].statement.sql();
    assert!(sql.starts_with("ALTER TABLE `telemetry`.`acme_traces` ON CLUSTER 'prod' ADD COLUMN"));
    assert!(sql.ends_with(" FIRST"), "{sql}");
}

/// Scenario: a view fills another table. Guarantee: blocked, and not overwritten; a table whose
/// name only begins like the target's is not taken for it.
#[test]
fn a_view_with_another_target_is_in_the_way() {
    let declared = declared(Engine::MergeTree, None);
    for target in ["telemetry.other", "telemetry.acme_traces_trace_id_ts_old"] {
        let mut observed = exactly(&declared);
        let view = observed.tables.get_mut("acme_traces_trace_id_ts_mv").unwrap();
        view.create_statement = format!("CREATE MATERIALIZED VIEW x TO {target} AS SELECT 1");
        let plan = plan(&declared, &observed);
        assert!(plan.steps.is_empty());
        assert!(matches!(plan.blocked[0].drift.kind, DriftKind::ViewTarget { .. }), "{target}");
    }
}

/// Scenario: the deduplication window is too small, missing, or larger than asked. Guarantee: the
/// first two are mended by metadata alone, the last is left.
#[test]
fn a_small_deduplication_window_is_widened() {
    let declared = declared(Engine::MergeTree, None);
    for (settings, steps) in [
        (" SETTINGS non_replicated_deduplication_window = 100", 1),
        ("", 1),
        (" SETTINGS non_replicated_deduplication_window = 99999", 0),
    ] {
        let mut observed = exactly(&declared);
        traces(&mut observed).engine_full = format!("MergeTree{settings}");
        assert_eq!(plan(&declared, &observed).steps.len(), steps, "{settings}");
    }
}

/// Scenario: a column has a type that loses data, another engine, another key. Guarantee: blocked
/// or left with a notice; no statement is planned.
#[test]
fn what_would_write_data_again_is_not_planned() {
    let declared = declared(Engine::MergeTree, None);
    let mut observed = exactly(&declared);
    let table = traces(&mut observed);
    table.columns.iter_mut().find(|c| c.name == "Duration").unwrap().ty = "String".to_owned();
    table.sorting_key = "TraceId".to_owned();
    table.partition_key = "toYYYYMM(Timestamp)".to_owned();
    observed.tables.get_mut("acme_logs").unwrap().engine = "ReplacingMergeTree".to_owned();
    let plan = plan(&declared, &observed);
    assert!(plan.steps.is_empty(), "{plan:?}");
    assert_eq!(plan.blocked.len(), 2);
    let notices = diff(&declared, &observed);
    assert_eq!(notices.iter().filter(|drift| drift.severity == Severity::Notice).count(), 2);
}

proptest! {
    /// Guarantee: whatever columns and tables are missing, the plan only adds, names each once, and
    /// puts a column behind one that is there or added before it.
    #[test]
    fn a_plan_only_adds(missing in proptest::collection::vec((0_usize..8, 0_usize..30), 0..40)) {
        let declared = declared(Engine::MergeTree, Some(3_600));
        let mut observed = exactly(&declared);
        let tables = declared.tables();
        for (table, column) in missing {
            let table = &tables[table % tables.len()];
            if column == 29 {
                observed.tables.remove(table.name.table());
                continue;
            }
            let name = table.table.columns[column % table.table.columns.len()].name;
            if let Some(live) = observed.tables.get_mut(table.name.table()) {
                live.columns.retain(|column| column.name != name);
            }
        }
        let plan = plan(&declared, &observed);
        prop_assert!(plan.blocked.is_empty());
        for step in &plan.steps {
            let sql = step.statement.sql();
            prop_assert_eq!(step.class, StepClass::MetadataOnly);
            prop_assert!(sql.contains("IF NOT EXISTS"), "{}", sql);
            prop_assert!(!sql.contains("DROP"), "{}", sql);
            let Some((_, after)) = sql.rsplit_once(" AFTER ") else { continue };
            let name = after.trim_matches('`');
            let live = &observed.tables[step.object.strip_prefix("telemetry.").unwrap()];
            let is_there = live.columns.iter().any(|column| column.name == name);
            let is_added = plan.steps.iter().take_while(|other| *other != step).any(|other| {
                other.object == step.object && other.what.starts_with(&format!("add column {name} "))
            });
            prop_assert!(is_there || is_added, "{}", sql);
        }
    }
}
