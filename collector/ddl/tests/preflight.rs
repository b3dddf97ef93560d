//! What is looked at before anything runs, against a scripted server on loopback that answers each
//! question of system tables as it is told: versions, Keeper sessions, replicas. A real engine with
//! Keeper is not at hand.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use millrace_ddl::{
    Client, ClientOptions, Declared, Engine, MigrateError, MigrateOptions, PreflightError,
    Replication, Signals, TableOptions, migrate, preflight,
};

/// What the server answers to the questions of each kind.
#[derive(Clone, Default)]
struct Script {
    version: &'static str,
    /// Live sessions; `Err`: an exception.
    keeper: Option<Result<u64, &'static str>>,
    /// Table, read-only, total, active.
    replicas: Vec<(&'static str, u8, u64, u64)>,
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
    Err(format!("Code: 62. DB::Exception: not in the script: {question}"))
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
    let script = |keeper| Script { version: "26.9.2.1", keeper, replicas: Vec::new() };
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
    let script = |version| Script { version, keeper: Some(Ok(3)), replicas: Vec::new() };
    let (unknown, _) = refused(script("banana")).await;
    assert!(matches!(unknown, PreflightError::UnknownVersion(_)), "{unknown}");
    let (old, _) = refused(script("24.8.1.1")).await;
    assert!(old.to_string().contains("25.3"), "{old}");
    let (client, _) = serve(script("25.8.1.8344"));
    let facts = preflight(&client, &replicated()).await.unwrap();
    assert_eq!((facts.version.year, facts.keeper_sessions), (25, Some(3)));
}
