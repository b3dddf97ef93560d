//! Records of who holds tables, in the journal on a real engine.

use crate::tables::ddl::client::{block_on, client};
use millrace_ddl::{
    Declared, MigrateOptions, RecordedHolder, Signals, TableOptions, TableOrigin, fetch_holders,
    migrate_server, read_history, record_holder,
};
use millrace_stack::clickhouse::{Engine, EngineOptions};

fn declared(database: &str, signals: Signals) -> Declared {
    let prefix = "otel".parse().unwrap();
    Declared::uniform(database.parse().unwrap(), prefix, signals, &TableOptions::default())
}

fn told(held: &[RecordedHolder]) -> Vec<(&str, &str)> {
    let mut told: Vec<(&str, &str)> =
        held.iter().map(|it| (it.signal.as_str(), it.holder.as_str())).collect();
    told.sort_unstable();
    told
}

/// Scenario: no database, then no journal; holders of all signals and of one; one gives up; and
/// migrations beside. Guarantee: whoever wrote last for a signal is read, by who declares that
/// signal; records are no part of any migration, and no table of another's is passed over because
/// the journal was made for a record.
#[test]
fn who_wrote_last_holds_a_signals_tables() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let (all, logs) = (
        declared("held", Signals::ALL),
        declared("held", Signals { logs: true, ..Signals::default() }),
    );
    block_on(async {
        assert_eq!(fetch_holders(&client, &all).await.unwrap(), []);
        assert!(record_holder(&client, &all, "v1:early").await.is_err(), "there is no database");
        engine.query("CREATE DATABASE held").unwrap();
        assert_eq!(fetch_holders(&client, &all).await.unwrap(), []);
        record_holder(&client, &all, "v1:east/o'bscure").await.unwrap();
        record_holder(&client, &logs, "v1:west").await.unwrap();
        let held = fetch_holders(&client, &all).await.unwrap();
        let east = "v1:east/o'bscure";
        assert_eq!(told(&held), [("logs", "v1:west"), ("metrics", east), ("traces", east)]);
        assert!(held.iter().all(|it| it.age.as_secs() < 60), "{held:?}");
        assert_eq!(told(&fetch_holders(&client, &logs).await.unwrap()), [("logs", "v1:west")]);
        let before = read_history(&client, &all).await.unwrap().unwrap();
        assert!(before.migrations.is_empty() && before.claims.is_empty());
        let done = migrate_server(&client, &all, &MigrateOptions::new("test")).await.unwrap();
        assert_eq!((done.migrations, done.adopted), (vec![1], None));
        record_holder(&client, &logs, "").await.unwrap();
        assert_eq!(told(&fetch_holders(&client, &logs).await.unwrap()), [("logs", "")]);
        let done = migrate_server(&client, &all, &MigrateOptions::new("test")).await.unwrap();
        assert!(done.migrations.is_empty() && done.drift.is_empty());
        // A journal that was made for a record alone: the tables are adopted all the same.
        engine.query("DROP TABLE held.otel_schema_migrations SYNC").unwrap();
        record_holder(&client, &all, "v1:east").await.unwrap();
        let done = migrate_server(&client, &all, &MigrateOptions::new("test")).await.unwrap();
        assert_eq!(done.adopted, Some(TableOrigin::Millrace));
        assert_eq!(told(&fetch_holders(&client, &logs).await.unwrap()), [("logs", "v1:east")]);
    });
}
