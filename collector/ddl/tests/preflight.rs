//! What is looked at before anything runs, against a scripted server on loopback that answers each
//! question of system tables as it is told: versions, Keeper sessions, replicas. A real engine with
//! Keeper is not at hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use millrace_ddl::{
    Category, Client, ClientOptions, Declared, Engine, MigrateError, MigrateOptions,
    PreflightError, Replication, Signals, TableOptions, migrate, preflight, verify,
};

/// What the server answers to the questions of each kind.
#[derive(Clone, Default)]
struct Script {
    version: &'static str,
    /// Live sessions; `Err`: an exception.
    keeper: Option<Result<u64, &'static str>>,
    /// Table, read-only, total, active.
    replicas: Vec<(&'static str, u8, u64, u64)>,
    grants: Grants,
    /// The session's setting.
    readonly: u8,
    has_database: bool,
    /// Refuses every statement but a question.
    refuses_changes: bool,
}

/// What the user may do.
#[derive(Clone, Copy, Default)]
enum Grants {
    /// Everything.
    #[default]
    All,
    /// All but these, by their names.
    Without(&'static [&'static str]),
    /// The server is too old to be asked, and refuses what changes something.
    Untold,
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.push(u8::try_from(text.len()).unwrap());
    out.extend_from_slice(text.as_bytes());
}

/// The head of a `RowBinaryWithNamesAndTypes` answer.
fn head(columns: &[(&str, &str)]) -> Vec<u8> {
    let mut out = vec![u8::try_from(columns.len()).unwrap()];
    columns.iter().for_each(|(name, _)| text(&mut out, name));
    columns.iter().for_each(|(_, ty)| text(&mut out, ty));
    out
}

fn answer(script: &Script, question: &str) -> Result<Vec<u8>, String> {
    if question.contains("version()") {
        let mut out = head(&[("version", "String"), ("host", "String")]);
        text(&mut out, script.version);
        text(&mut out, "h");
        return Ok(out);
    }
    if question.contains("zookeeper_connection") {
        let mut out = head(&[("alive", "UInt64")]);
        return match script.keeper {
            None => Err("Code: 60. DB::Exception: Unknown table expression".to_owned()),
            Some(Err(words)) => Err(words.to_owned()),
            Some(Ok(alive)) => {
                out.extend_from_slice(&alive.to_le_bytes());
                Ok(out)
            }
        };
    }
    if question.contains("system.replicas") {
        let mut out = head(&[
            ("table", "String"),
            ("is_readonly", "UInt8"),
            ("total", "UInt64"),
            ("active", "UInt64"),
        ]);
        for (table, is_readonly, total, active) in &script.replicas {
            text(&mut out, table);
            out.push(*is_readonly);
            out.extend_from_slice(&total.to_le_bytes());
            out.extend_from_slice(&active.to_le_bytes());
        }
        return Ok(out);
    }
    if let Some(asked) = question.strip_prefix("CHECK GRANT ") {
        let granted = match script.grants {
            Grants::All => true,
            Grants::Without(names) => !names.iter().any(|name| asked.contains(name)),
            Grants::Untold => {
                return Err("Code: 62. DB::Exception: Syntax error: failed at CHECK".to_owned());
            }
        };
        let mut out = head(&[("result", "UInt8")]);
        out.push(u8::from(granted));
        return Ok(out);
    }
    if question.contains("getSetting('readonly')") {
        let mut out = head(&[("readonly", "UInt8")]);
        out.push(script.readonly);
        return Ok(out);
    }
    if question.contains("system.databases") {
        let mut out = head(&[("name", "String")]);
        if script.has_database {
            text(&mut out, "otel");
        }
        return Ok(out);
    }
    if let Some(answer) = empty_answer(question) {
        return Ok(answer);
    }
    if script.refuses_changes {
        let words = "otel: Not enough privileges. To execute this query, it's necessary to have \
                     the grant CREATE DATABASE ON otel.*. (ACCESS_DENIED)";
        return Err(format!("Code: 497. DB::Exception: {words}"));
    }
    Err(format!("Code: 62. DB::Exception: not in the script: {question}"))
}

/// No tables, no columns, no indexes.
fn empty_answer(question: &str) -> Option<Vec<u8>> {
    let columns: &[(&str, &str)] = if question.contains("FROM system.tables") {
        &[
            ("name", "String"),
            ("engine", "String"),
            ("engine_full", "String"),
            ("partition_key", "String"),
            ("sorting_key", "String"),
            ("create_table_query", "String"),
            ("rows", "UInt64"),
            ("bytes", "UInt64"),
        ]
    } else if question.contains("FROM system.columns") {
        &[
            ("table", "String"),
            ("name", "String"),
            ("kind", "String"),
            ("default_kind", "String"),
            ("codec", "String"),
        ]
    } else if question.contains("FROM system.data_skipping_indices") {
        &[("table", "String"), ("name", "String")]
    } else {
        return None;
    };
    Some(head(columns))
}

/// A server of that script, and everything it was asked. Ends with the test's process.
fn serve(script: Script) -> (Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        for mut socket in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut piece = [0_u8; 65_536];
            let question = loop {
                let Ok(read @ 1..) = socket.read(&mut piece) else { break None };
                request.extend_from_slice(&piece[..read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .to_lowercase()
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok())
                    .unwrap_or(0_usize);
                if body.len() >= length {
                    break Some(body.to_owned());
                }
            };
            let Some(question) = question else { continue };
            seen.lock().unwrap().push(question.clone());
            let (status, body) = match answer(&script, &question) {
                Ok(body) => ("200 OK", body),
                Err(words) => ("500 Internal Server Error", words.into_bytes()),
            };
            let head = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = socket.write_all(head.as_bytes());
            let _ = socket.write_all(&body);
        }
    });
    let client = Client::new(ClientOptions::new(vec![url.parse().unwrap()])).unwrap();
    (client, asked)
}

fn replicated() -> Declared {
    let engine = Engine::ReplicatedMergeTree(Replication::default());
    let options = TableOptions { engine, ..TableOptions::default() };
    let name = || "otel".parse().unwrap();
    Declared::uniform(name(), name(), Signals::ALL, &options)
}

async fn refused(script: Script) -> (PreflightError, Vec<String>) {
    let (client, asked) = serve(script);
    let error = migrate(&client, &replicated(), &MigrateOptions::new("t")).await.unwrap_err();
    let MigrateError::Preflight(error) = error else { panic!("{error}") };
    let asked = asked.lock().unwrap().clone();
    (error, asked)
}

/// Scenario: no Keeper configured; configured, and every session dead; the server says Keeper does
/// not answer; a replica of ours is read-only. Guarantee: each is its own error with what to do,
/// and not one statement that changes something was sent.
#[tokio::test]
async fn a_lost_keeper_is_told_apart_and_nothing_runs() {
    let script = |keeper| Script { version: "26.9.2.1", keeper, ..Script::default() };
    let (none, asked_none) = refused(script(None)).await;
    assert!(matches!(none, PreflightError::NoKeeper), "{none}");
    let (dead, asked_dead) = refused(script(Some(Ok(0)))).await;
    assert!(matches!(dead, PreflightError::KeeperLost(_)), "{dead}");
    assert!(dead.to_string().contains("quorum"), "{dead}");
    let words = "Code: 999. Coordination::Exception: Connection loss";
    let (lost, asked_lost) = refused(script(Some(Err(words)))).await;
    assert!(matches!(lost, PreflightError::KeeperLost(_)), "{lost}");
    let read_only = Script {
        replicas: vec![("someone_elses", 1, 2, 1), ("otel_logs", 1, 3, 2)],
        ..script(Some(Ok(1)))
    };
    let (stuck, asked_stuck) = refused(read_only).await;
    assert!(stuck.to_string().contains("otel_logs") && stuck.to_string().contains("2 of 3"));
    for question in [asked_none, asked_dead, asked_lost, asked_stuck].concat() {
        assert!(question.starts_with("SELECT"), "{question}");
    }
}

/// Scenario: a version nobody knows, one too old for JSON, one that is fine, with a live Keeper.
/// Guarantee: refused with what is needed; or told what the server is.
#[tokio::test]
async fn versions_and_sessions_are_told() {
    let script = |version| Script { version, keeper: Some(Ok(3)), ..Script::default() };
    let (unknown, _) = refused(script("banana")).await;
    assert!(matches!(unknown, PreflightError::UnknownVersion(_)), "{unknown}");
    assert!(unknown.to_string().contains("\"banana\""), "{unknown}");
    assert!(unknown.to_string().contains("check the endpoint"), "{unknown}");
    let (old, _) = refused(script("24.8.1.1")).await;
    assert!(old.to_string().contains("25.3"), "{old}");
    let (client, _) = serve(script("25.8.1.8344"));
    let facts = preflight(&client, &replicated()).await.unwrap();
    assert_eq!((facts.version.year, facts.keeper_sessions), (25, Some(3)));
}

fn plain() -> Declared {
    let name = || "otel".parse().unwrap();
    Declared::uniform(name(), name(), Signals::ALL, &TableOptions::default())
}

/// Scenario: the user may not make tables, nor the view. Guarantee: told before anything runs, each
/// privilege by its name on its table, with one statement that grants exactly what is missing.
#[tokio::test]
async fn missing_privileges_are_named_before_anything_runs() {
    let script = Script {
        version: "26.9.2.1",
        has_database: true,
        grants: Grants::Without(&["CREATE TABLE", "CREATE VIEW"]),
        ..Script::default()
    };
    let (client, asked) = serve(script);
    let error = migrate(&client, &plain(), &MigrateOptions::new("t")).await.unwrap_err();
    let message = error.to_string();
    for words in [
        "user \"default\" lacks CREATE TABLE on otel.otel_logs",
        "CREATE TABLE on otel.otel_schema_migrations",
        "CREATE VIEW on otel.otel_traces_trace_id_ts_mv",
        "CREATE TABLE ON `otel`.*",
        "CREATE VIEW ON `otel`.`otel_traces_trace_id_ts_mv`",
        "TO `default`; nothing was run",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert!(!message.contains("INSERT on") && !message.contains("INSERT ON"), "{message}");
    for question in asked.lock().unwrap().iter() {
        assert!(["SELECT", "CHECK"].iter().any(|word| question.starts_with(word)), "{question}");
    }
}

/// Scenario: statements would run ON CLUSTER, and the user lacks the grant for that alone.
/// Guarantee: named, on the server.
#[tokio::test]
async fn a_missing_cluster_grant_is_named() {
    let script = Script {
        version: "26.9.2.1",
        keeper: Some(Ok(3)),
        grants: Grants::Without(&["CLUSTER ON"]),
        ..Script::default()
    };
    let (client, _) = serve(script);
    let mut declared = plain();
    declared.cluster = Some("{cluster}".parse().unwrap());
    let error = migrate(&client, &declared, &MigrateOptions::new("t")).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("GRANT CLUSTER ON *.* TO `default`"), "{message}");
}

/// Scenario: a session that may only read. Guarantee: told so, for no grant would help.
#[tokio::test]
async fn a_reading_session_is_no_missing_grant() {
    let script = Script {
        version: "26.9.2.1",
        grants: Grants::Without(&["CREATE"]),
        readonly: 1,
        ..Script::default()
    };
    let (client, _) = serve(script);
    let error = migrate(&client, &plain(), &MigrateOptions::new("t")).await.unwrap_err();
    assert_eq!(error.client().unwrap().category(), Category::ReadOnly, "{error}");
    assert!(!error.to_string().contains("GRANT"), "{error}");
}

/// Scenario: a server that can't be asked about grants, and refuses the first statement. Guarantee:
/// its own words name the privilege, and nothing else is sent.
#[tokio::test]
async fn a_server_that_cannot_tell_is_asked_once_and_refuses_by_itself() {
    let script = Script {
        version: "24.3.1.1",
        grants: Grants::Untold,
        refuses_changes: true,
        ..Script::default()
    };
    let (client, asked) = serve(script);
    let mut declared = plain();
    for options in [&mut declared.traces, &mut declared.logs, &mut declared.metrics] {
        options.as_mut().unwrap().attributes = millrace_ddl::Attributes::Map;
    }
    let error = migrate(&client, &declared, &MigrateOptions::new("t")).await.unwrap_err();
    assert_eq!(error.client().unwrap().category(), Category::Privilege, "{error}");
    assert!(error.to_string().contains("CREATE DATABASE ON otel.*"), "{error}");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.iter().filter(|question| question.starts_with("CHECK GRANT")).count(), 1);
    assert_eq!(asked.iter().filter(|question| question.starts_with("CREATE")).count(), 1);
}

/// Scenario: the tables may be there, but the user may not see any. Guarantee: never said to be
/// missing; the grant is named.
#[tokio::test]
async fn tables_that_may_not_be_seen_are_not_called_missing() {
    let script = Script {
        version: "26.9.2.1",
        has_database: true,
        grants: Grants::Without(&["SHOW COLUMNS"]),
        ..Script::default()
    };
    let (client, _) = serve(script);
    let error = verify(&client, &plain()).await.unwrap_err();
    assert_eq!(error.category(), Category::Privilege, "{error}");
    assert!(error.to_string().contains("GRANT SHOW COLUMNS ON `otel`.* TO"), "{error}");
}
