//! What is looked at before anything runs, against a scripted server on loopback that answers each
//! question of system tables as it is told: versions, Keeper sessions, replicas. A real engine with
//! Keeper is not at hand.

use millrace_ddl::{
    AttributeStorage, Category, DdlClient, Declared, Engine, MigrateError, MigrateOptions,
    PreflightError, Replication, Signals, TableOptions, migrate_server, run_preflight,
    verify_tables,
};

use crate::scripted::{self, Answer, Asked, answer_empty, head, text};

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

fn answer(script: &Script, question: &str) -> Answer {
    if question.contains("version()") {
        let mut out = head(&[("version", "String"), ("host", "String")]);
        out.extend(text(script.version));
        out.extend(text("h"));
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
            out.extend(text(table));
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
        let mut out = head(&[("name", "String"), ("engine", "String")]);
        if script.has_database {
            out.extend([text("otel"), text("Atomic")].concat());
        }
        return Ok(out);
    }
    if let Some(answer) = answer_empty(question) {
        return Ok(answer);
    }
    if script.refuses_changes {
        let words = "otel: Not enough privileges. To execute this query, it's necessary to have \
                     the grant CREATE DATABASE ON otel.*. (ACCESS_DENIED)";
        return Err(format!("Code: 497. DB::Exception: {words}"));
    }
    Err(format!("Code: 62. DB::Exception: not in the script: {question}"))
}

fn serve(script: Script) -> (DdlClient, Asked) {
    scripted::serve(move |question| answer(&script, question))
}

fn replicated() -> Declared {
    let engine = Engine::ReplicatedMergeTree(Replication::default());
    let options =
        TableOptions { engine, attributes: AttributeStorage::Json, ..TableOptions::default() };
    let name = || "otel".parse().unwrap();
    Declared::uniform(name(), name(), Signals::ALL, &options)
}

async fn refused(script: Script) -> (PreflightError, Vec<String>) {
    let (client, asked) = serve(script);
    let error =
        migrate_server(&client, &replicated(), &MigrateOptions::new("t")).await.unwrap_err();
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

/// Scenario: a version nobody knows, two too old for JSON, one that is fine, with a live Keeper; the
/// second of the old ones has JSON, and can't read the form that gateways write. Guarantee: refused
/// with what is needed; or told what the server is.
#[tokio::test]
async fn versions_and_sessions_are_told() {
    let script = |version| Script { version, keeper: Some(Ok(3)), ..Script::default() };
    let (unknown, _) = refused(script("banana")).await;
    assert!(matches!(unknown, PreflightError::UnknownVersion(_)), "{unknown}");
    assert!(unknown.to_string().contains("\"banana\""), "{unknown}");
    assert!(unknown.to_string().contains("check the endpoint"), "{unknown}");
    for version in ["24.8.1.1", "25.3.2.39", "25.5.1.1"] {
        let (old, _) = refused(script(version)).await;
        let old = old.to_string();
        assert!(old.contains("25.6") && old.contains("attributes as Map"), "{old}");
    }
    let (client, _) = serve(script("25.8.1.8344"));
    let facts = run_preflight(&client, &replicated()).await.unwrap();
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
    let error = migrate_server(&client, &plain(), &MigrateOptions::new("t")).await.unwrap_err();
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
    let error = migrate_server(&client, &declared, &MigrateOptions::new("t")).await.unwrap_err();
    let message = error.to_string();
    assert!(message.contains("GRANT CLUSTER ON *.* TO `default`"), "{message}");
}

/// Scenario: a new installation on a cluster whose hosts have no database yet. Guarantee: the first
/// statement makes it on every host, as the tables' statements will expect it there.
#[tokio::test]
async fn a_new_database_is_made_on_every_host_of_the_cluster() {
    let script = Script {
        version: "26.9.2.1",
        keeper: Some(Ok(3)),
        refuses_changes: true,
        ..Script::default()
    };
    let (client, asked) = serve(script);
    let mut declared = plain();
    declared.cluster = Some("{cluster}".parse().unwrap());
    migrate_server(&client, &declared, &MigrateOptions::new("t")).await.unwrap_err();
    let asked = asked.lock().unwrap();
    let first = asked.iter().find(|question| question.starts_with("CREATE")).unwrap();
    let expected = "CREATE DATABASE IF NOT EXISTS `otel` ON CLUSTER '{cluster}'";
    assert_eq!(first.trim(), expected);
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
    let error = migrate_server(&client, &plain(), &MigrateOptions::new("t")).await.unwrap_err();
    assert_eq!(error.client_error().unwrap().category(), Category::ReadOnly, "{error}");
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
        options.as_mut().unwrap().attributes = millrace_ddl::AttributeStorage::Map;
    }
    let error = migrate_server(&client, &declared, &MigrateOptions::new("t")).await.unwrap_err();
    assert_eq!(error.client_error().unwrap().category(), Category::Privilege, "{error}");
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
    let error = verify_tables(&client, &plain()).await.unwrap_err();
    assert_eq!(error.category(), Category::Privilege, "{error}");
    assert!(error.to_string().contains("GRANT SHOW COLUMNS ON `otel`.* TO"), "{error}");
}
