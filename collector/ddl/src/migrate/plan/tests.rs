//! Tests of plans without a server: `observed` describes a server with exactly the declared tables,
//! then the test changes it.

use proptest::prelude::*;

use super::*;
use crate::declared::options::{Engine, Replication, Signals, TableOptions};
use crate::exactly::observed_as_declared;
use crate::live::observe::{ObservedColumn, ObservedTable};
use millrace_schema::{
    AttributeStorage, BodyIndex, ColumnCompression, ColumnType, PartitionInterval, Presence,
};

fn declared(engine: Engine, ttl: Option<u64>) -> Declared {
    let ttl = ttl.and_then(Ttl::from_seconds);
    let attributes = AttributeStorage::Map;
    let options = TableOptions { attributes, engine, ttl, ..TableOptions::default() };
    let name = |text: &str| text.parse().unwrap();
    Declared::uniform(name("telemetry"), name("acme"), Signals::ALL, &options)
}

fn traces(observed: &mut Observed) -> &mut ObservedTable {
    observed.tables.get_mut("acme_traces").unwrap()
}

/// Scenario: no objects exist. Guarantee: database, tables and view are created, each after the
/// objects it depends on.
#[test]
fn an_empty_server_gets_everything_in_order() {
    let declared = declared(Engine::MergeTree, None);
    let plan = plan_migration(&declared, &Observed::default());
    let all: Vec<_> = plan.steps.iter().map(|step| step.statement.clone()).collect();
    assert_eq!(all, render::create_all(&declared));
    assert_eq!(plan.steps[0].object, "telemetry");
    assert_eq!(plan.steps.last().unwrap().object, "telemetry.acme_traces_trace_id_ts_mv");
    assert!(plan.blocked.is_empty());
}

/// Scenario: all objects exist, in each engine. Guarantee: the plan is empty.
#[test]
fn an_equal_server_gets_nothing() {
    for engine in
        [Engine::MergeTree, Engine::ReplicatedMergeTree(Replication::default()), Engine::Null]
    {
        let declared = declared(engine, Some(86_400));
        assert_eq!(
            plan_migration(&declared, &observed_as_declared(&declared)),
            MigrationPlan::default()
        );
    }
}

/// Scenario: the server stores MergeTree tables in its shared engines. Guarantee: no difference.
#[test]
fn shared_engines_of_the_managed_service_are_equal() {
    let replicated = Engine::ReplicatedMergeTree(Replication::default());
    for engine in [Engine::MergeTree, replicated] {
        let declared = declared(engine, None);
        let mut observed = observed_as_declared(&declared);
        traces(&mut observed).engine = "SharedMergeTree".to_owned();
        assert!(plan_migration(&declared, &observed).is_empty());
    }
}

/// Scenario: a column in the middle is missing, and the table has rows. Guarantee: it is added at
/// its position by metadata alone, and the step has the table's size.
#[test]
fn a_missing_column_is_added_in_its_place() {
    let declared = declared(Engine::MergeTree, None);
    let mut observed = observed_as_declared(&declared);
    traces(&mut observed).columns.retain(|column| column.name != "SpanName");
    let plan = plan_migration(&declared, &observed);
    let [step] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert_eq!(
        step.statement.sql(),
        "ALTER TABLE `telemetry`.`acme_traces` ADD COLUMN IF NOT EXISTS `SpanName` \
         LowCardinality(String) CODEC(ZSTD(1)) AFTER `TraceState`"
    );
    assert_eq!((step.class, step.rows, step.bytes), (StepClass::MetadataOnly, 5, 500));
}

/// Scenario: the first column is missing, on a cluster. Guarantee: it is added first, on every
/// server.
#[test]
fn a_missing_first_column_comes_first_on_the_whole_cluster() {
    let mut declared = declared(Engine::MergeTree, None);
    declared.cluster = Some("prod".parse().unwrap());
    let mut observed = observed_as_declared(&declared);
    traces(&mut observed).columns.remove(0);
    let plan = plan_migration(&declared, &observed);
    let sql = plan.steps[0].statement.sql();
    assert!(sql.starts_with("ALTER TABLE `telemetry`.`acme_traces` ON CLUSTER 'prod' ADD COLUMN"));
    assert!(sql.ends_with(" FIRST"), "{sql}");
}

/// Scenario: a view fills another table. Guarantee: it is blocked and not overwritten; a table
/// whose name starts with the target's is not mistaken for it.
#[test]
fn a_view_with_another_target_is_in_the_way() {
    let declared = declared(Engine::MergeTree, None);
    for target in ["telemetry.other", "telemetry.acme_traces_trace_id_ts_old"] {
        let mut observed = observed_as_declared(&declared);
        let view = observed.tables.get_mut("acme_traces_trace_id_ts_mv").unwrap();
        view.create_statement = format!("CREATE MATERIALIZED VIEW x TO {target} AS SELECT 1");
        let plan = plan_migration(&declared, &observed);
        assert!(plan.steps.is_empty());
        assert!(matches!(plan.blocked[0].drift.kind, DriftKind::ViewTarget { .. }), "{target}");
    }
}

/// Scenario: a view into the declared table with another query. Guarantee: a notice; nothing is
/// planned, for a person chose that query.
#[test]
fn a_view_with_another_query_is_reported() {
    let declared = declared(Engine::MergeTree, None);
    let mut observed = observed_as_declared(&declared);
    let view = observed.tables.get_mut("acme_traces_trace_id_ts_mv").unwrap();
    view.create_statement = view.create_statement.replace("WHERE TraceId != ''", "WHERE 0");
    let found = find_drift(&declared, &observed);
    let [drift] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(drift.severity, Severity::Notice);
    assert!(drift.to_string().contains("FROM telemetry.acme_traces WHERE 0 GROUP BY"), "{drift}");
    assert!(plan_migration(&declared, &observed).is_empty());
}

/// Scenario: the deduplication window is too small, missing, or larger than declared. Guarantee:
/// the first two are repaired by metadata alone, the last is unchanged.
#[test]
fn a_small_deduplication_window_is_widened() {
    let declared = declared(Engine::MergeTree, None);
    for (settings, steps) in [
        (" SETTINGS non_replicated_deduplication_window = 100", 1),
        ("", 1),
        (" SETTINGS non_replicated_deduplication_window = 99999", 0),
    ] {
        let mut observed = observed_as_declared(&declared);
        traces(&mut observed).engine_full = format!("MergeTree{settings}");
        assert_eq!(plan_migration(&declared, &observed).steps.len(), steps, "{settings}");
    }
}

/// Scenario: a column type that loses data, another engine, another key. Guarantee: each is blocked
/// or unchanged with a notice; no statement is planned.
#[test]
fn what_would_write_data_again_is_not_planned() {
    let declared = declared(Engine::MergeTree, None);
    let mut observed = observed_as_declared(&declared);
    let table = traces(&mut observed);
    table.columns.iter_mut().find(|c| c.name == "Duration").unwrap().ty = "String".to_owned();
    table.sorting_key = "TraceId".to_owned();
    table.partition_key = "toYYYYMM(Timestamp)".to_owned();
    observed.tables.get_mut("acme_logs").unwrap().engine = "ReplacingMergeTree".to_owned();
    let plan = plan_migration(&declared, &observed);
    assert!(plan.steps.is_empty(), "{plan:?}");
    assert_eq!(plan.blocked.len(), 2);
    let notices = find_drift(&declared, &observed);
    assert_eq!(notices.iter().filter(|drift| drift.severity == Severity::Notice).count(), 2);
}

proptest! {
    /// Guarantee: whatever columns and tables are missing, the plan only adds, names each once, and
    /// puts a column behind one that exists or was added before it.
    #[test]
    fn a_plan_only_adds(missing in proptest::collection::vec((0_usize..8, 0_usize..30), 0..40)) {
        let declared = declared(Engine::MergeTree, Some(3_600));
        let mut observed = observed_as_declared(&declared);
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
        let plan = plan_migration(&declared, &observed);
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

/// Scenario: a table from before 2025, or of another owner, gets a time to live; its partitions are
/// days, as declared or not, or months, and it has none of the settings or the other value.
/// Guarantee: the settings come before the rule, so that it rewrites no part; they follow the
/// partitions that the table has: parts of a month are not dropped as units, since they would
/// outlive the rule by a month, and those of a day are.
#[test]
fn a_time_to_live_that_comes_later_rewrites_no_part() {
    let planned = |declared_partition, live_key: &str, settings: &str| -> Vec<String> {
        let mut declared = declared(Engine::MergeTree, Some(30 * 86_400));
        let options = declared.traces.as_mut().unwrap();
        options.layout.partition = declared_partition;
        options.layout.trace_lookup = Presence::Omitted;
        let mut observed = observed_as_declared(&declared);
        let live = traces(&mut observed);
        live.partition_key = live_key.to_owned();
        live.engine_full = format!(
            "MergeTree SETTINGS index_granularity = 8192, \
             non_replicated_deduplication_window = 10000{settings}"
        );
        let steps = plan_migration(&declared, &observed).steps;
        assert_eq!(steps[0].class, StepClass::MetadataOnly);
        let of_step =
            |step: &PlanStep| step.statement.sql().rsplit_once("MODIFY ").unwrap().1.into();
        steps.iter().map(of_step).collect()
    };
    let recalculated = "SETTING materialize_ttl_recalculate_only = 1";
    let [dropped, merged] = [1, 0].map(|value| format!("SETTING ttl_only_drop_parts = {value}"));
    let rule = "TTL toDateTime(`Timestamp`) + toIntervalDay(30)";
    let (day, month) = ("toDate(Timestamp)", "toYYYYMM(Timestamp)");
    for declared in [PartitionInterval::Day, PartitionInterval::Month] {
        assert_eq!(planned(declared, day, ""), [recalculated, &dropped, rule]);
        assert_eq!(planned(declared, month, ""), [recalculated, rule]);
        for (key, live, first) in [(day, 0, &dropped), (month, 1, &merged), ("", 1, &merged)] {
            let settings = format!(", ttl_only_drop_parts = {live}");
            assert_eq!(planned(declared, key, &settings), [recalculated, first, rule], "{key}");
        }
    }
}

/// Scenario: a source by month has a roll-up, which is by day. Guarantee: parts of the roll-up's
/// days are dropped as units, those of the source's months are not.
#[test]
fn a_roll_up_drops_its_days_whatever_its_source_is_cut_into() {
    let mut declared = declared(Engine::MergeTree, Some(30 * 86_400));
    let layout = &mut declared.traces.as_mut().unwrap().layout;
    (layout.partition, layout.rollup) = (PartitionInterval::Month, Presence::Included);
    for statement in render::create_all(&declared) {
        let sql = statement.sql();
        let is_by_day = sql.contains("PARTITION BY toDate(");
        assert_eq!(sql.contains("ttl_only_drop_parts = 1"), is_by_day, "{sql}");
    }
}

/// Scenario: a table has a roll-up, whose rule has another unit; then its retention becomes longer,
/// then shorter. Guarantee: the first is no difference; the roll-up's rule follows the others, at
/// once, then as a loss that needs its name.
#[test]
fn a_roll_up_keeps_its_rows_as_long_as_its_source() {
    let mut declared = declared(Engine::MergeTree, Some(30 * 86_400));
    declared.traces.as_mut().unwrap().layout.rollup = Presence::Included;
    let mut observed = observed_as_declared(&declared);
    let [rollup] = declared.rollups().try_into().unwrap();
    let ttl = |interval: &str| format!("AggregatingMergeTree TTL Timestamp + {interval}");
    let rule = |days: u64| ttl(&format!("toIntervalDay({days})"));
    for name in [&rollup.name, &rollup.view] {
        let live = ObservedTable {
            engine: "AggregatingMergeTree".to_owned(),
            engine_full: rule(30),
            ..ObservedTable::default()
        };
        observed.tables.insert(name.table().to_owned(), live);
    }
    for equal in ["toIntervalDay(30)", "toIntervalHour(720)", "toIntervalSecond(2592000)"] {
        observed.tables.get_mut(rollup.name.table()).unwrap().engine_full = ttl(equal);
        assert_eq!(plan_migration(&declared, &observed), MigrationPlan::default(), "{equal}");
    }
    let mut planned = |days: u64| {
        let live = observed.tables.get_mut(rollup.name.table()).unwrap();
        live.engine_full = rule(days);
        let [step] = plan_migration(&declared, &observed).steps.try_into().unwrap();
        assert_eq!(step.object, rollup.name.to_string());
        let rule = "MODIFY TTL `Timestamp` + toIntervalDay(30)";
        assert!(step.statement.sql().ends_with(rule), "{}", step.statement.sql());
        assert_eq!(step.privileges.iter().next().unwrap().name, "ALTER TTL");
        (step.class, step.loss)
    };
    assert_eq!(planned(7), (StepClass::MetadataOnly, Loss::None));
    let name = format!("{}.ttl", rollup.name);
    assert_eq!(planned(60), (StepClass::Destructive, Loss::Unagreed(name)));
}

/// Scenario: a table's owner chose another codec for a column; the declaration names none, then
/// names the default. Guarantee: the first is a notice without a statement, the second is applied.
#[test]
fn a_codec_of_the_tables_owner_stays_until_compression_is_declared() {
    let mut declared = declared(Engine::MergeTree, None);
    let mut observed = observed_as_declared(&declared);
    let column = traces(&mut observed).columns.iter_mut().find(|it| it.name == "SpanName").unwrap();
    column.codec = "CODEC(ZSTD(9))".to_owned();
    let notices = find_drift(&declared, &observed);
    assert!(notices[0].to_string().contains("SpanName has CODEC(ZSTD(9))"), "{notices:?}");
    assert_eq!((notices.len(), notices[0].severity), (1, Severity::Notice));
    assert_eq!(plan_migration(&declared, &observed), MigrationPlan::default());
    declared.traces.as_mut().unwrap().layout.compression = Some(ColumnCompression::Zstd);
    let [step] = plan_migration(&declared, &observed).steps.try_into().unwrap();
    let sql = step.statement.sql();
    assert!(sql.ends_with("MODIFY COLUMN `SpanName` CODEC(ZSTD(1))"), "{sql}");
}

/// Scenario: points whose texts are plain, as in older tables and in other writers', and a span's
/// with values in dictionaries, which no declaration has. Guarantee: the first is no difference, the
/// second a notice; neither is changed.
#[test]
fn points_with_plain_texts_are_no_difference() {
    let declared = declared(Engine::MergeTree, None);
    let mut observed = observed_as_declared(&declared);
    let points = observed.tables.get_mut("acme_metrics_sum").unwrap();
    for column in &mut points.columns {
        column.ty = column.ty.replace("LowCardinality(String)", "String");
    }
    assert!(find_drift(&declared, &observed).is_empty());
    let attributes = traces(&mut observed).columns.iter_mut();
    let mut spans = attributes.filter(|column| column.name == "SpanAttributes");
    spans.next().unwrap().ty = ColumnType::DictionaryMap.to_string();
    let notices = find_drift(&declared, &observed);
    assert_eq!((notices.len(), notices[0].severity), (1, Severity::Notice), "{notices:?}");
    assert_eq!(plan_migration(&declared, &observed), MigrationPlan::default());
}

/// Scenario: tables of filters, declared with inverted indexes. Guarantee: the new indexes are added
/// by metadata alone; the filters are reported and stay until the consent names them.
#[test]
fn an_index_of_another_kind_reaches_a_table_that_exists() {
    let filters = declared(Engine::MergeTree, None);
    let observed = observed_as_declared(&filters);
    let mut wanted = filters;
    if let Some(logs) = &mut wanted.logs {
        logs.layout.body_index = BodyIndex::Text;
    }
    let plan = plan_migration(&wanted, &observed);
    let [step] = plan.steps.as_slice() else { panic!("{plan:?}") };
    let sql = step.statement.sql();
    assert!(sql.ends_with(
        "ADD INDEX IF NOT EXISTS `idx_body_text` `Body` TYPE text(tokenizer = 'splitByNonAlpha') \
         GRANULARITY 100000000"
    ));
    assert_eq!(step.class, StepClass::MetadataOnly);
    wanted.consent.insert("telemetry.acme_logs.idx_body".to_owned());
    let plan = plan_migration(&wanted, &observed);
    let dropped: Vec<_> = plan.steps.iter().filter(|step| step.loss != Loss::None).collect();
    assert_eq!(dropped.len(), 1, "{plan:?}");
    assert!(dropped[0].statement.sql().ends_with("DROP INDEX IF EXISTS `idx_body`"));
}

/// Scenario: an index has a declared name, and another expression or type, or only another size.
/// Guarantee: the first two are notices, and dropped once the consent names them; the last is equal.
#[test]
fn an_index_that_finds_something_else_is_reported() {
    let mut declared = declared(Engine::MergeTree, None);
    let change = |expr: &str, kind: &str| {
        let mut observed = observed_as_declared(&declared);
        let live = observed.tables.get_mut("acme_logs").unwrap().indexes.get_mut("idx_body");
        let live = live.unwrap();
        (live.expr, live.kind) = (expr.to_owned(), kind.to_owned());
        observed
    };
    for same in ["Body", "`Body`"] {
        assert!(find_drift(&declared, &change(same, "tokenbf_v1")).is_empty());
    }
    for observed in [change("lower(Body)", "tokenbf_v1"), change("Body", "ngrambf_v1")] {
        let found = find_drift(&declared, &observed);
        let [drift] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(drift.severity, Severity::Notice);
        assert!(drift.to_string().ends_with("declared Body tokenbf_v1"), "{drift}");
        assert!(plan_migration(&declared, &observed).is_empty());
    }
    let observed = change("Body", "ngrambf_v1");
    declared.consent.insert("telemetry.acme_logs.idx_body".to_owned());
    let plan = plan_migration(&declared, &observed);
    let [step] = plan.steps.as_slice() else { panic!("{plan:?}") };
    assert!(step.statement.sql().ends_with("DROP INDEX IF EXISTS `idx_body`"), "{step:?}");
}

/// Scenario: a table over shards lacks a column of the declaration, and has one that the shards'
/// table has lost. Guarantee: the first is added in its place and the second dropped, by metadata
/// alone; a column that the shards still have stays.
#[test]
fn tables_over_shards_follow_the_columns_of_the_shards() {
    let mut declared = declared(Engine::MergeTree, None);
    declared.distributed = Some("prod".parse().unwrap());
    let mut observed = observed_as_declared(&declared);
    for table in declared.distributed_tables() {
        let columns = observed.tables[table.local.table()].columns.clone();
        let engine = "Distributed".to_owned();
        let live = ObservedTable { engine, columns, ..ObservedTable::default() };
        observed.tables.insert(table.name.table().to_owned(), live);
    }
    assert!(plan_migration(&declared, &observed).is_empty());
    let extra = |name: &str| ObservedColumn {
        name: name.to_owned(),
        ty: "String".to_owned(),
        default_kind: String::new(),
        codec: String::new(),
    };
    observed.tables.get_mut("acme_logs").unwrap().columns.push(extra("Foreign"));
    let over = observed.tables.get_mut("acme_logs_distributed").unwrap();
    over.columns.retain(|column| column.name != "Body");
    over.columns.extend([extra("Foreign"), extra("Gone")]);
    let plan = plan_migration(&declared, &observed);
    let all: Vec<_> = plan.steps.iter().map(|step| (step.class, step.statement.sql())).collect();
    let over = "ALTER TABLE `telemetry`.`acme_logs_distributed`";
    let added =
        format!("{over} ADD COLUMN IF NOT EXISTS `Body` String CODEC(ZSTD(1)) AFTER `ServiceName`");
    let dropped = format!("{over} DROP COLUMN IF EXISTS `Gone`");
    assert_eq!(all, [&*added, &*dropped].map(|sql| (StepClass::MetadataOnly, sql)));
    let on = PrivilegeScope::Table(declared.distributed_tables()[2].name.clone());
    let needed = Privilege { name: "ALTER ADD COLUMN", on };
    assert!(plan.steps[0].privileges.contains(&needed), "{plan:?}");
}
