//! Tables over shards on a real engine, whose cluster `one_shard` is the engine itself. Not here:
//! several shards.

use crate::tables::ddl::client::{block_on, client};
use millrace_ddl::{
    AttributeStorage, Declared, MigrateOptions, Signals, TableOptions, migrate_server,
};
use millrace_stack::clickhouse::{self, Engine, EngineOptions};

fn declared() -> Declared {
    let attributes = AttributeStorage::Map;
    let options = TableOptions { attributes, ..TableOptions::default() };
    let mut declared =
        Declared::uniform("db".parse().unwrap(), "otel".parse().unwrap(), Signals::ALL, &options);
    declared.distributed = Some("one_shard".parse().unwrap());
    declared
}

/// Scenario: tables over shards as an earlier release made them, without a column of today's, and
/// one that a consent has since dropped from the shards. Guarantee: a run gives them the column and
/// takes the other away, a reader then sees what the shards store, and another run has nothing to do.
#[test]
fn tables_over_shards_get_the_columns_of_the_shards() {
    clickhouse::require_own_engine("its cluster is configured for tests").unwrap();
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (client, declared, options) = (client(&engine), declared(), MigrateOptions::new("test"));
    let run = || block_on(migrate_server(&client, &declared, &options)).unwrap();
    let first = run();
    assert!(first.drift.is_empty(), "{first:?}");
    for statement in [
        "ALTER TABLE db.otel_logs DROP COLUMN EventName",
        "ALTER TABLE db.otel_logs_distributed DROP COLUMN EventName",
        "ALTER TABLE db.otel_logs_distributed ADD COLUMN Gone String",
    ] {
        engine.query(statement).unwrap();
    }
    let report = run();
    let objects: Vec<&str> = report.applied.done.iter().map(|step| &*step.object).collect();
    let over = "db.otel_logs_distributed";
    assert_eq!(objects, ["db.otel_logs", over, over], "{report:?}");
    assert!(report.drift.is_empty(), "{report:?}");
    engine.query("INSERT INTO db.otel_logs (Timestamp, EventName) VALUES (1, 'started')").unwrap();
    let read = engine.query("SELECT EventName FROM db.otel_logs_distributed").unwrap();
    assert_eq!(read.trim(), "started");
    engine.query("SELECT * FROM db.otel_logs_distributed").unwrap();
    assert!(run().applied.done.is_empty());
}
