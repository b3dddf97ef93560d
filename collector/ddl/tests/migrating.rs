//! Runs against a scripted server on loopback, for what the engine of the end-to-end tests can't
//! have: a lease that runs out, other servers of a cluster, databases that replicate themselves.

use std::time::Duration;

use millrace_ddl::{
    Category, DdlClient, Declared, Engine, MigrateError, MigrateOptions, Replication, Signals,
    TableOptions, drop_tables, migrate_server,
};

use crate::scripted::{self, Answer, Asked, answer_empty, head, text};

/// The columns of a journal's rows.
const JOURNAL: [(&str, &str); 14] = [
    ("number", "UInt32"),
    ("event", "String"),
    ("position", "UInt32"),
    ("at_millis", "Int64"),
    ("runner", "String"),
    ("author", "String"),
    ("tool", "String"),
    ("phase", "String"),
    ("origin", "String"),
    ("revision", "String"),
    ("statements", "Array(String)"),
    ("duration_millis", "UInt64"),
    ("detail", "String"),
    ("now_millis", "Int64"),
];

/// A server with an empty database of this engine and an empty journal that accepts every change.
fn answer(database_engine: &str, question: &str) -> Answer {
    let row = |columns: &[(&str, &str)], row: &[u8]| Ok([&head(columns), row].concat());
    if let Some(answer) = answer_empty(question) {
        return Ok(answer);
    }
    if question.contains("version()") {
        let facts = [text("26.9.2.1"), text("h")].concat();
        return row(&[("version", "String"), ("host", "String")], &facts);
    }
    if question.contains("zookeeper_connection") {
        return row(&[("alive", "UInt64")], &1_u64.to_le_bytes());
    }
    if question.contains("system.replicas") {
        let columns = [
            ("table", "String"),
            ("is_readonly", "UInt8"),
            ("total", "UInt64"),
            ("active", "UInt64"),
        ];
        return row(&columns, &[]);
    }
    if question.starts_with("CHECK GRANT") {
        return row(&[("result", "UInt8")], &[1]);
    }
    if question.contains("system.databases") {
        let found = [text("otel"), text(database_engine)].concat();
        return row(&[("name", "String"), ("engine", "String")], &found);
    }
    match question.starts_with("SELECT") {
        true => row(&JOURNAL, &[]),
        false => Ok(Vec::new()),
    }
}

fn logs(engine: Engine) -> Declared {
    let options = TableOptions { engine, ..TableOptions::default() };
    let name = || "otel".parse().unwrap();
    Declared::uniform(name(), name(), Signals { logs: true, ..Signals::default() }, &options)
}

/// What was asked that begins like this.
fn asked_for(asked: &Asked, start: &str) -> Vec<String> {
    let asked = asked.lock().unwrap();
    asked.iter().filter(|question| question.starts_with(start)).cloned().collect()
}

/// A server that answers the first attempt of the table's statement with an overload, and is slow
/// to store the journal's rows with this event.
fn slow_server(event: &'static str, delay: Duration) -> (DdlClient, Asked) {
    let mut attempts = 0;
    scripted::serve(move |question| {
        if question.starts_with("CREATE TABLE") && question.contains("`otel_logs`") {
            attempts += 1;
            if attempts == 1 {
                return Err("Code: 202. DB::Exception: Too many queries.".to_owned());
            }
        }
        // The claim that begins a run is no renewal.
        let is_of_event = question.starts_with("INSERT") && question.contains(event);
        if is_of_event && (event != "'claimed'" || attempts > 0) {
            std::thread::sleep(delay);
        }
        answer("Atomic", question)
    })
}

/// Scenario: the row that plans a migration takes longer to store than the lease; the renewal
/// before a statement's second attempt takes as long as a third of it; then each is stored at once.
/// Guarantee: the first runs no statement, the second not a second attempt, and both say which
/// object they stopped at; the last one finishes.
#[tokio::test]
async fn a_run_that_lost_its_lease_runs_no_further_statement() {
    // A retry waits half a second, over a third of this.
    let lease = Duration::from_millis(1_200);
    let mut options = MigrateOptions::new("t");
    options.lease = lease;
    for (event, delay, attempts) in [
        ("'planned'", lease, 0),
        ("'claimed'", lease / 3, 1),
        ("'planned'", Duration::ZERO, 2),
        ("'claimed'", Duration::ZERO, 2),
    ] {
        let (client, asked) = slow_server(event, delay);
        let outcome = migrate_server(&client, &logs(Engine::MergeTree), &options).await;
        let tables = asked_for(&asked, "CREATE TABLE IF NOT EXISTS `otel`.`otel_logs`\n");
        assert_eq!(tables.len(), attempts, "{event} {delay:?}: {outcome:?}");
        match outcome {
            Err(MigrateError::LeaseLost { object }) => assert_eq!(object, "otel.otel_logs"),
            other => {
                assert!(delay.is_zero(), "{event} {delay:?}: {other:?}");
                assert_eq!(other.unwrap().migrations, [1], "{event}");
            }
        }
    }
}

/// Scenario: the database exists on the queried server alone, and a cluster is declared; then
/// another server refuses to create it. Guarantee: the database is created on every server and the
/// statement runs again; a refusal is the run's error.
#[tokio::test]
async fn a_database_that_other_servers_of_the_cluster_lack_is_created_there() {
    let missing = "Code: 81. DB::Exception: There was an error on [ch-2:9000]: Code: 81. \
                   DB::Exception: Database otel does not exist. (UNKNOWN_DATABASE)";
    let database = "CREATE DATABASE IF NOT EXISTS `otel` ON CLUSTER 'all'";
    let refusal = "Code: 497. DB::Exception: t: Not enough privileges. (ACCESS_DENIED)";
    for is_refused in [false, true] {
        let mut is_created = false;
        let (client, asked) = scripted::serve(move |question| {
            if question.starts_with("CREATE DATABASE") {
                is_created = !is_refused;
                return if is_refused { Err(refusal.to_owned()) } else { Ok(Vec::new()) };
            }
            match question.starts_with("CREATE") && question.contains(" ON CLUSTER ") && !is_created
            {
                true => Err(missing.to_owned()),
                false => answer("Atomic", question),
            }
        });
        let mut declared = logs(Engine::MergeTree);
        declared.cluster = Some("all".parse().unwrap());
        let outcome = migrate_server(&client, &declared, &MigrateOptions::new("t")).await;
        let table = "CREATE TABLE IF NOT EXISTS `otel`.`otel_logs` ON CLUSTER 'all'";
        let of_cluster: Vec<bool> = asked_for(&asked, "CREATE")
            .iter()
            .filter(|question| question.contains(" ON CLUSTER "))
            .map(|question| question.starts_with(table) || question.trim() != database)
            .collect();
        match is_refused {
            false => {
                assert_eq!(outcome.unwrap().migrations, [1]);
                assert_eq!(of_cluster, [true, false, true]);
            }
            true => {
                let error = outcome.unwrap_err();
                assert_eq!(
                    error.client_error().unwrap().category(),
                    Category::Privilege,
                    "{error}"
                );
                assert_eq!(of_cluster, [true, false]);
            }
        }
    }
}

/// Scenario: a database that replicates itself, of a server's or the managed service's engine, and
/// an ordinary one; replicated tables and a cluster are declared, and the tables are dropped again.
/// Guarantee: in the first two no statement has a Keeper path, a replica or a cluster, but each the
/// settings by which it doesn't wait for a replica that is down; in the last one as declared.
#[tokio::test]
async fn tables_of_a_replicated_database_get_the_servers_defaults() {
    for (engine, replicates) in [("Replicated", true), ("Shared", true), ("Atomic", false)] {
        let (client, asked) = scripted::serve(move |question| answer(engine, question));
        let mut declared = logs(Engine::ReplicatedMergeTree(Replication::default()));
        declared.cluster = Some("all".parse().unwrap());
        let done = migrate_server(&client, &declared, &MigrateOptions::new("t")).await.unwrap();
        for step in &done.applied.done {
            let sql = step.statement.sql();
            assert_eq!(sql.contains("ENGINE = ReplicatedMergeTree\n"), replicates, "{sql}");
            assert_eq!(sql.contains(" ON CLUSTER 'all'"), !replicates, "{sql}");
            assert_eq!(step.statement.settings()[0].0, "distributed_ddl_task_timeout");
            let needs_cluster = step.privileges.iter().any(|each| each.name == "CLUSTER");
            assert_eq!(needs_cluster, !replicates, "{:?}", step.privileges);
        }
        drop_tables(&client, &declared).await.unwrap();
        let dropped = asked_for(&asked, "DROP");
        assert_eq!(dropped.len(), 2, "{dropped:?}");
        for sql in dropped {
            assert_eq!(sql.contains(" ON CLUSTER 'all'"), !replicates, "{sql}");
        }
    }
}

/// Scenario: the server refuses a Keeper path that the declaration names, or a cluster. Guarantee:
/// the error says what to declare instead.
#[tokio::test]
async fn refusals_of_a_replicated_database_are_explained() {
    let path = "Code: 36. DB::Exception: It's not allowed to specify explicit zookeeper_path and \
                replica_name for ReplicatedMergeTree arguments in Replicated database. If you \
                really want to specify them explicitly, enable setting \
                database_replicated_allow_replicated_engine_arguments. (BAD_ARGUMENTS)";
    let cluster = "Code: 80. DB::Exception: It's not initial query. ON CLUSTER is not allowed for \
                   Replicated database. (INCORRECT_QUERY)";
    let other = "Code: 36. DB::Exception: Something else. (BAD_ARGUMENTS)";
    for (words, advice) in [
        (path, Some("declare replication ServerDefault")),
        (cluster, Some("remove the cluster from the declaration")),
        (other, None),
    ] {
        let (client, _) = scripted::serve(move |question| {
            match question.starts_with("CREATE TABLE") && question.contains("`otel_logs`") {
                true => Err(words.to_owned()),
                false => answer("Atomic", question),
            }
        });
        let declared = logs(Engine::MergeTree);
        let error = migrate_server(&client, &declared, &MigrateOptions::new("t")).await;
        let error = error.unwrap_err().to_string();
        match advice {
            Some(advice) => assert!(error.ends_with(advice), "{error}"),
            None => assert!(error.ends_with("(BAD_ARGUMENTS)"), "{error}"),
        }
    }
}

/// Scenario: the tables of logs are dropped, while those of traces exist under the same prefix;
/// then while they don't. Guarantee: the journal, which has who holds the others' tables, stays in
/// the first case and goes in the second; no table of traces is dropped.
#[tokio::test]
async fn a_journal_that_other_signals_share_is_not_dropped() {
    for is_shared in [true, false] {
        let (client, asked) = scripted::serve(move |question| {
            let found = answer("Atomic", question)?;
            let asks_for_traces = question.contains("FROM system.tables WHERE database = 'otel'")
                && question.contains("'otel_traces'");
            if !(is_shared && asks_for_traces) {
                return Ok(found);
            }
            let words = ["otel_traces", "MergeTree", "MergeTree", "", "", ""].map(text).concat();
            Ok([found, words, vec![0; 16]].concat())
        });
        drop_tables(&client, &logs(Engine::MergeTree)).await.unwrap();
        let dropped = asked_for(&asked, "DROP");
        let has = |name: &str| dropped.iter().any(|sql| sql.contains(name));
        assert!(has("`otel_logs`") && !has("`otel_traces`"), "{dropped:?}");
        assert_eq!(has("`otel_schema_migrations`"), !is_shared, "{dropped:?}");
    }
}
