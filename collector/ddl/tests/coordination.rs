//! How a ClickHouse server sees its Keeper, against a scripted server on loopback that answers each
//! question of system tables as it is told. A real engine with Keeper is not at hand.

use millrace_coordination::observation::{CoordinationView, ViewError};
use millrace_ddl::{
    DdlClient, Declared, Engine, Replication, Signals, TableOptions, needs_coordination,
    observe_coordination,
};

use crate::scripted::{self, Answer, head, text};

/// What the server answers about each table: rows as their bytes, or an exception.
#[derive(Clone)]
struct Script {
    sessions: Result<Vec<u8>, &'static str>,
    replicas: Result<Vec<u8>, &'static str>,
    counters: Result<Vec<u8>, &'static str>,
    loads: Result<Vec<u8>, &'static str>,
}

const REFUSED: &str = "Code: 497. DB::Exception: u: Not enough privileges. (ACCESS_DENIED)";

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn session(is_expired: u8) -> Vec<u8> {
    let port = 9_181_u16.to_le_bytes();
    [text("default"), text("keeper-1"), port.to_vec(), vec![is_expired], numbers(&[77])].concat()
}

fn replica(is_readonly: u8, exception: &str) -> Vec<u8> {
    let flags = vec![is_readonly, 0];
    [text("otel_logs"), flags, text(exception), numbers(&[5, 9, 3, 2])].concat()
}

fn healthy() -> Script {
    Script {
        sessions: Ok(session(0)),
        replicas: Ok(replica(0, "")),
        counters: Ok(numbers(&[1_000, 700, 2_000_000, 3, 50_000_000])),
        loads: Ok([
            [text("otel_logs"), numbers(&[40, 4_000_000, 600])].concat(),
            [text("otel_traces"), numbers(&[0, 0, 30])].concat(),
        ]
        .concat()),
    }
}

fn answer(script: &Script, question: &str) -> Answer {
    let (columns, rows): (&[(&str, &str)], _) = if question.contains("zookeeper_connection") {
        (
            &[
                ("name", "String"),
                ("host", "String"),
                ("port", "UInt16"),
                ("is_expired", "UInt8"),
                ("age_seconds", "UInt64"),
            ],
            &script.sessions,
        )
    } else if question.contains("system.replicas") {
        (
            &[
                ("table", "String"),
                ("is_readonly", "UInt8"),
                ("is_session_expired", "UInt8"),
                ("exception", "String"),
                ("queue_entries", "UInt64"),
                ("delay_seconds", "UInt64"),
                ("total", "UInt64"),
                ("active", "UInt64"),
            ],
            &script.replicas,
        )
    } else if question.contains("system.part_log") {
        (
            &[
                ("table", "String"),
                ("parts", "UInt64"),
                ("inserted_rows", "UInt64"),
                ("requests", "UInt64"),
            ],
            &script.loads,
        )
    } else {
        (
            &[
                ("requests", "UInt64"),
                ("multi_requests", "UInt64"),
                ("wait_microseconds", "UInt64"),
                ("broken", "UInt64"),
                ("rows", "UInt64"),
            ],
            &script.counters,
        )
    };
    let rows = rows.clone().map_err(str::to_owned)?;
    Ok([head(columns), rows].concat())
}

/// A server of that script. Ends with the test's process.
fn serve(script: Script) -> DdlClient {
    let answer = move |question: &str| {
        assert!(question.starts_with("SELECT"), "{question}");
        answer(&script, question)
    };
    scripted::serve(answer).0
}

fn declared(engine: Engine) -> Declared {
    let options = TableOptions { engine, ..TableOptions::default() };
    let name = || "otel".parse().unwrap();
    Declared::uniform(name(), name(), Signals::ALL, &options)
}

async fn seen(script: Script) -> Result<CoordinationView, ViewError> {
    let engine = Engine::ReplicatedMergeTree(Replication::default());
    observe_coordination(&serve(script), &declared(engine)).await
}

/// Scenario: a live session, a replica, counters. Guarantee: all of it is read.
#[tokio::test]
async fn a_server_that_sees_its_keeper_is_read() {
    let sight = seen(healthy()).await.unwrap();
    let [session] = &sight.sessions[..] else { panic!("{sight:?}") };
    assert_eq!((session.server.as_str(), session.is_expired), ("keeper-1:9181", false));
    let [replica] = &sight.replicas[..] else { panic!("{sight:?}") };
    assert_eq!(
        (replica.table.as_str(), replica.active, replica.queue_entries),
        ("otel_logs", 2, 5)
    );
    let counters = sight.counters.unwrap();
    assert_eq!((counters.requests_per_million_rows(), counters.broken), (Some(20), 3));
    assert_eq!((counters.mean_wait_microseconds(), sight.grant), (Some(2_000), None));
}

/// Scenario: the record of parts has two tables: one with inserts, the other with merges alone;
/// then there is no such record, an old one without counters, and one that the user may not read.
/// Guarantee: requests for rows and parts of the first, none for the second, whose requests count;
/// otherwise no figures, the rest of the look as before, and the GRANT in the last case alone.
#[tokio::test]
async fn requests_are_counted_by_table() {
    let sight = seen(healthy()).await.unwrap();
    let [logs, traces] = &sight.tables[..] else { panic!("{sight:?}") };
    assert_eq!((logs.table.as_str(), logs.requests_per_million_rows()), ("otel_logs", Some(150)));
    assert_eq!((logs.rows_per_part(), logs.requests_per_part()), (Some(100_000), Some(15)));
    assert_eq!((traces.requests, traces.requests_per_million_rows()), (30, None));
    let none = "Code: 60. DB::Exception: Unknown table expression identifier. (UNKNOWN_TABLE)";
    let old = "Code: 47. DB::Exception: Missing columns: 'ProfileEvents'. (UNKNOWN_IDENTIFIER)";
    let right = "GRANT SELECT ON system.part_log TO `default`";
    for (words, grant) in [(none, None), (old, None), (REFUSED, Some(right))] {
        let sight = seen(Script { loads: Err(words), ..healthy() }).await.unwrap();
        assert_eq!((sight.tables.len(), sight.replicas.len()), (0, 1), "{words}");
        assert!(sight.counters.is_some(), "{words}");
        assert_eq!(sight.grant.as_deref(), grant, "{words}");
    }
}

/// Scenario: an expired session with a read-only replica; no Keeper; a Keeper that doesn't answer.
/// Guarantee: each as it is.
#[tokio::test]
async fn trouble_is_told_apart() {
    let sight = seen(Script {
        sessions: Ok(session(1)),
        replicas: Ok(replica(1, "Session expired")),
        ..healthy()
    });
    let sight = sight.await.unwrap();
    assert!(sight.sessions[0].is_expired && sight.replicas[0].is_readonly);
    assert_eq!(sight.replicas[0].exception, "Session expired");
    let words = "Code: 60. DB::Exception: Unknown table expression identifier. (UNKNOWN_TABLE)";
    let none = seen(Script { sessions: Err(words), ..healthy() }).await;
    assert_eq!(none, Err(ViewError::NoKeeper));
    let words =
        "Code: 999. Coordination::Exception: All connection tries failed. (version 26.9.2.1)";
    let lost = seen(Script { sessions: Err(words), ..healthy() }).await.unwrap_err();
    let ViewError::SessionLost(said) = &lost else { panic!("{lost:?}") };
    assert!(said.contains("All connection tries") && !said.contains("26.9"), "{said}");
}

/// Scenario: a user without the right on each table. Guarantee: the GRANT that is missing, on these
/// tables alone; what may be read is read.
#[tokio::test]
async fn a_missing_right_is_named_and_is_no_outage() {
    let sight = seen(Script { counters: Err(REFUSED), ..healthy() }).await.unwrap();
    assert_eq!((sight.counters, sight.replicas.len()), (None, 1));
    assert_eq!(sight.grant.unwrap(), "GRANT SELECT ON system.events TO `default`");
    let blind = seen(Script { sessions: Err(REFUSED), ..healthy() }).await.unwrap_err();
    let ViewError::NotAllowed { grant } = &blind else { panic!("{blind:?}") };
    assert!(grant.starts_with("GRANT SELECT ON system.zookeeper_connection, "), "{grant}");
}

/// Scenario: tables with and without replication, and on a cluster. Guarantee: the first and the
/// last need coordination.
#[test]
fn only_replicated_tables_and_clusters_need_it() {
    assert!(!needs_coordination(&declared(Engine::MergeTree)));
    assert!(needs_coordination(&declared(Engine::ReplicatedMergeTree(Replication::default()))));
    let cluster = Some("all".parse().unwrap());
    assert!(needs_coordination(&Declared { cluster, ..declared(Engine::MergeTree) }));
}
