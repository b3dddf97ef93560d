//! Migrations on a real engine: cut at every request and gone on with, two runs at once, a journal
//! that someone changed, a failure that comes again, and what a shorter retention or a dropped
//! column needs. Not here: replicated tables.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::tables::ddl::client::{block_on, client, client_at};
use millrace_ddl::{
    AttributeStorage, Declared, MigrateError, MigrateOptions, MigrationState, Permit, Signals,
    StepClass, TableOptions, TableOrigin, Ttl, migrate_server, read_history,
};
use millrace_stack::clickhouse::{Engine, EngineOptions, Fault, FaultKind};

fn declared(database: &str, attributes: AttributeStorage) -> Declared {
    let ttl = Ttl::parse_optional("30d").unwrap();
    let options = TableOptions { attributes, ttl, ..TableOptions::default() };
    let prefix = "otel".parse().unwrap();
    Declared::uniform(database.parse().unwrap(), prefix, Signals::ALL, &options)
}

/// No retries: what fails here is meant to.
fn options() -> MigrateOptions {
    let mut options = MigrateOptions::new("test");
    options.retries = 0;
    options.patience = Duration::from_secs(60);
    options
}

/// Lets a day go by since the last row of a journal, so that a dead run's claim has ended.
fn let_a_day_go_by(engine: &Engine, database: &str) {
    let journal = format!("{database}.otel_schema_migrations");
    if engine.query(&format!("EXISTS TABLE {journal}")).unwrap().trim() == "0" {
        return;
    }
    for statement in [
        format!("CREATE TABLE {database}.aged AS {journal}"),
        format!(
            "INSERT INTO {database}.aged SELECT * REPLACE (At - INTERVAL 1 DAY AS At) FROM {journal}"
        ),
        format!("DROP TABLE {journal} SYNC"),
        format!("RENAME TABLE {database}.aged TO {journal}"),
    ] {
        engine.query(&statement).unwrap();
    }
}

/// A way to the engine that ends for good after so many requests: as if the runner had died there.
/// `is_answered`: the last request still reaches the engine, and only its answer is lost.
struct Cut {
    url: String,
    left: Arc<AtomicI64>,
    seen: Arc<AtomicUsize>,
}

impl Cut {
    fn start(engine: &Engine) -> Self {
        let upstream = engine.url().trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (left, seen) = (Arc::new(AtomicI64::new(i64::MAX)), Arc::new(AtomicUsize::new(0)));
        let (allowed, counted) = (Arc::clone(&left), Arc::clone(&seen));
        // Ends with the test's process.
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let (allowed, counted) = (Arc::clone(&allowed), Arc::clone(&counted));
                let upstream = upstream.clone();
                std::thread::spawn(move || serve(socket, &upstream, &allowed, &counted));
            }
        });
        Self { url, left, seen }
    }

    /// Lets `whole` requests pass; of the next one only the way there, if `half`.
    fn after(&self, whole: i64, half: bool) {
        self.seen.store(0, Ordering::SeqCst);
        self.left.store(whole * 2 + i64::from(half), Ordering::SeqCst);
    }
}

/// One request: the engine is told to close after its answer, and so is the client.
fn serve(mut socket: TcpStream, upstream: &str, left: &AtomicI64, seen: &AtomicUsize) {
    let Some(request) = read_message(&mut socket) else { return };
    seen.fetch_add(1, Ordering::SeqCst);
    if left.fetch_sub(1, Ordering::SeqCst) <= 0 {
        return;
    }
    let mut engine = TcpStream::connect(upstream).unwrap();
    let closing =
        String::from_utf8_lossy(&request).replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
    engine.write_all(closing.as_bytes()).unwrap();
    let mut answer = Vec::new();
    engine.read_to_end(&mut answer).unwrap();
    if left.fetch_sub(1, Ordering::SeqCst) > 0 {
        // A client that has gone needs no answer.
        let _ = socket.write_all(&answer);
    }
}

/// One request with its body, as text: what this client sends is text.
fn read_message(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut piece = [0_u8; 65_536];
    loop {
        let read = socket.read(&mut piece).ok().filter(|read| *read > 0)?;
        bytes.extend_from_slice(&piece[..read]);
        let Some(head) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&bytes[..head]).to_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.trim().parse::<usize>().unwrap());
        assert!(!text.contains("transfer-encoding"), "a body of unknown length");
        if bytes.len() >= head + 4 + length {
            return Some(bytes);
        }
    }
}

/// The tables of a database as the engine would make them again, journal aside.
fn schema_of(engine: &Engine, database: &str) -> String {
    let query = format!(
        "SELECT replaceAll(create_table_query, '{database}.', '') FROM system.tables WHERE \
         database = '{database}' AND name NOT LIKE '%schema_migrations' ORDER BY name"
    );
    engine.query(&query).unwrap()
}

/// Scenario: tables that lack a view, a column, an index and a setting, so that a run has
/// statements of every kind; the run is cut before each of its requests, and after each before its
/// answer; then another goes on. Guarantee: at every position the end is the same schema, the
/// journal tells an unbroken story, and no migration is left open. Slow: each cut, of which there
/// are two for each of over 20 requests, is a database with three runs.
#[test]
fn a_run_cut_anywhere_is_gone_on_with_and_ends_the_same() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let (whole, cut) = (client(&engine), Cut::start(&engine));
    let through = client_at(&engine, &cut.url);
    let wanted = |database: &str| {
        let mut wanted = declared(database, AttributeStorage::Json);
        wanted.logs = None;
        wanted.metrics = None;
        wanted
    };
    // An older set: one table, short of a column, an index and its window.
    let prepare = |database: &str| {
        engine.query(&format!("CREATE DATABASE {database}")).unwrap();
        let table = &millrace_ddl::render::create_all(&wanted(database))[1];
        engine.query(table.sql()).unwrap();
        for change in [
            "DROP COLUMN StatusMessage",
            "DROP INDEX idx_trace_id",
            "RESET SETTING non_replicated_deduplication_window",
        ] {
            engine.query(&format!("ALTER TABLE {database}.otel_traces {change}")).unwrap();
        }
    };
    block_on(async {
        prepare("whole");
        cut.after(i64::from(i32::MAX), false);
        migrate_server(&through, &wanted("whole"), &options()).await.unwrap();
        let requests = i64::try_from(cut.seen.load(Ordering::SeqCst)).unwrap();
        let expected = schema_of(&engine, "whole");
        assert!(requests > 20, "{requests}");
        for position in 0..requests {
            for half in [false, true] {
                let database = format!("cut_{position}_{}", u8::from(half));
                let wanted = wanted(&database);
                prepare(&database);
                cut.after(position, half);
                let died = migrate_server(&through, &wanted, &options()).await;
                // The last request only takes the claim back: losing it loses nothing.
                assert!(died.is_err() || position == requests - 1, "{database}");
                let_a_day_go_by(&engine, &database);
                migrate_server(&whole, &wanted, &options()).await.unwrap();
                assert_eq!(schema_of(&engine, &database), expected, "{database}");
                let story = read_history(&whole, &wanted).await.unwrap().unwrap();
                assert_eq!(story.open_migrations().count(), 0, "{database}");
                let again = migrate_server(&whole, &wanted, &options()).await.unwrap();
                assert!(again.applied.done.is_empty(), "{database}");
                engine.query(&format!("DROP DATABASE {database}")).unwrap();
            }
        }
        println!("cut at {} positions", requests * 2);
    });
}

/// Scenario: four runs on one empty database at the same moment. Guarantee: all end well, the
/// journal's numbers have no gap and no double, every statement ran under one claim only.
#[test]
fn runs_at_once_keep_out_of_each_others_way() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let wanted = declared("db", AttributeStorage::Json);
    let mut patient = options();
    patient.lease = Duration::from_secs(30);
    patient.patience = Duration::from_secs(60);
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let (client, wanted, patient) = (client(&engine), wanted.clone(), patient.clone());
            std::thread::spawn(move || {
                block_on(async { migrate_server(&client, &wanted, &patient).await.unwrap() })
            })
        })
        .collect();
    let done: Vec<_> = runs.into_iter().map(|run| run.join().unwrap()).collect();
    let worked = done.iter().filter(|run| !run.applied.done.is_empty()).count();
    assert_eq!(worked, 1, "only one found something to do");
    assert!(done.iter().all(|run| run.drift.is_empty()));
    let story = block_on(read_history(&client(&engine), &wanted)).unwrap().unwrap();
    assert_eq!(story.migrations.len(), 1);
    assert_eq!(story.migrations[0].standing, MigrationState::Finished);
    assert_eq!(story.migrations[0].author, "test");

    // A run that is at work and stays: the next one says who, and runs nothing.
    engine
        .query("INSERT INTO db.otel_schema_migrations (Event, Runner, Author) VALUES ('claimed', 'x', 'eve')")
        .unwrap();
    engine.query("ALTER TABLE db.otel_logs DROP INDEX idx_body").unwrap();
    let mut impatient = patient;
    impatient.patience = Duration::ZERO;
    let error = block_on(migrate_server(&client(&engine), &wanted, &impatient)).unwrap_err();
    assert!(matches!(error, MigrateError::Busy { .. }), "{error}");
    assert!(error.to_string().contains("eve"), "{error}");
}

/// Scenario: someone changes a migration on record, removes one, and renames the journal.
/// Guarantee: the next run does what is due from what is there, since the journal is an audit and
/// no plan depends on it; under a new journal the tables are adopted. Slow: several migrations and
/// mutations on a real engine.
#[test]
fn a_journal_that_was_changed_keeps_nothing_from_running() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let wanted = declared("db", AttributeStorage::Json);
    let journal = "db.otel_schema_migrations";
    block_on(async {
        migrate_server(&client, &wanted, &options()).await.unwrap();
        for change in
            ["UPDATE Statements = ['SELECT 1'] WHERE Number = 1", "DELETE WHERE Number = 1"]
        {
            engine.query("ALTER TABLE db.otel_logs DROP INDEX idx_body").unwrap();
            engine
                .query(&format!("ALTER TABLE {journal} {change} SETTINGS mutations_sync = 2"))
                .unwrap();
            let done = migrate_server(&client, &wanted, &options()).await.unwrap();
            assert!(done.drift.is_empty(), "{change}: {:?}", done.drift);
        }
        let story = read_history(&client, &wanted).await.unwrap().unwrap();
        let numbers = story.migrations.iter().map(|each| each.number);
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 3]);
        // Renamed, the tables are adopted as they are.
        engine.query(&format!("RENAME TABLE {journal} TO db.aside")).unwrap();
        engine.query("ALTER TABLE db.otel_logs DROP INDEX idx_body").unwrap();
        let done = migrate_server(&client, &wanted, &options()).await.unwrap();
        assert_eq!(done.adopted, Some(TableOrigin::Millrace));
        assert!(done.drift.is_empty());
    });
}

/// Scenario: a migration fails in the same way 40 times, as the operator tries it again; then three
/// times at the same statement for another reason, and once more for the first. Guarantee: each of
/// the two failures is on record once, the journal stays readable and as short, and once the
/// declaration is repaired the next one is finished. Slow: over forty migrations on a real engine.
#[test]
fn a_migration_that_keeps_failing_is_on_record_once() {
    let engine =
        Engine::start(EngineOptions { test_faults: true, ..EngineOptions::default() }).unwrap();
    let client = client(&engine);
    let mut wanted = declared("db", AttributeStorage::Map);
    block_on(async {
        migrate_server(&client, &wanted, &options()).await.unwrap();
        wanted.logs.as_mut().unwrap().storage.policy = Some("no_such_policy".parse().unwrap());
        let rows = || {
            let of_claims = "Event IN ('claimed', 'released')";
            let query = format!("SELECT countIf(NOT {of_claims}) FROM db.otel_schema_migrations");
            engine.query(&query).unwrap()
        };
        let mut after_first = String::new();
        for attempt in 0..40 {
            let error = migrate_server(&client, &wanted, &options()).await.unwrap_err().to_string();
            assert!(error.contains("no_such_policy"), "{attempt}: {error}");
            if attempt == 0 {
                after_first = rows();
            }
        }
        assert_eq!(rows(), after_first);
        if engine.is_own() {
            let (kind, matching) = (FaultKind::Error { code: 243 }, "storage_policy =".to_owned());
            engine.inject(&Fault { kind, matching, times: 3 }).unwrap();
            for _ in 0..3 {
                let error = migrate_server(&client, &wanted, &options()).await.unwrap_err();
                assert!(error.to_string().contains("code 243"), "{error}");
            }
            let after = after_first.trim().parse::<u32>().unwrap() + 1;
            assert_eq!(rows().trim(), after.to_string());
            // The first reason again.
            migrate_server(&client, &wanted, &options()).await.unwrap_err();
            assert_eq!(rows().trim(), after.to_string());
        }
        let story = read_history(&client, &wanted).await.unwrap().unwrap();
        let last = story.migrations.last().unwrap();
        assert_eq!((story.migrations.len(), last.standing), (2, MigrationState::Failed));
        let is_named = last.detail.contains("no_such_policy") || last.detail.contains("code 243");
        assert!(is_named, "{}", last.detail);
        assert!(story.claims.is_empty(), "{:?}", story.claims);
        wanted.logs.as_mut().unwrap().storage.policy = None;
        engine.query("ALTER TABLE db.otel_logs DROP INDEX idx_body").unwrap();
        let done = migrate_server(&client, &wanted, &options()).await.unwrap();
        assert_eq!((done.migrations, done.drift.len()), (vec![3], 0));
    });
}

/// Scenario: a shorter retention, and a column and an index that nobody declares any more.
/// Guarantee: none goes before its name is given; then exactly that goes, in its phase.
#[test]
fn what_destroys_something_needs_its_name() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let mut wanted = declared("db", AttributeStorage::Json);
    wanted.logs = None;
    wanted.metrics = None;
    block_on(async {
        migrate_server(&client, &wanted, &options()).await.unwrap();
        for change in ["ADD COLUMN Old UInt8", "ADD INDEX idx_old Duration TYPE minmax"] {
            engine.query(&format!("ALTER TABLE db.otel_traces {change}")).unwrap();
        }
        wanted.traces.as_mut().unwrap().ttl = Ttl::from_seconds(3_600);
        let mut all = options();
        all.permit = Permit::up_to(StepClass::Destructive);
        let refused = migrate_server(&client, &wanted, &all).await.unwrap();
        assert!(refused.applied.done.is_empty());
        assert_eq!(refused.applied.refused.len(), 2, "both tables' retention");
        wanted.consent.extend([
            "db.otel_traces.Old".to_owned(),
            "db.otel_traces.idx_old".to_owned(),
            "db.otel_traces.ttl".to_owned(),
        ]);
        let done = migrate_server(&client, &wanted, &options()).await.unwrap();
        assert_eq!(done.applied.done.len(), 3);
        assert_eq!(done.migrations.len(), 2, "expand, then contract");
        assert_eq!(done.applied.refused.len(), 1, "the lookup's retention was not named");
        let left: Vec<_> = done.drift.iter().map(|drift| drift.object.as_str()).collect();
        assert_eq!(left, ["db.otel_traces_trace_id_ts"]);
    });
}

/// Scenario: the release before wrote a column that this one has not, and lacked two that it has;
/// both releases' collectors insert by their own column lists, before and after each phase.
/// Guarantee: the older one's insert works before and after expand; nothing is taken away while
/// older collectors are at work, though its name was given; this one's works from expand on, and
/// after contract. Slow: several migrations and inserts on a real engine.
#[test]
fn both_releases_insert_between_expand_and_contract() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let mut wanted = declared("db", AttributeStorage::Json);
    wanted.metrics = None;
    let ours = |table: &str| -> Vec<String> {
        let tables = wanted.tables();
        let table = tables.iter().find(|each| each.name.table() == table).unwrap();
        table.table.insert_columns().map(|column| format!("`{}`", column.name)).collect()
    };
    // Each release's list, as a gateway sends it: every column by name.
    let insert = |table: &str, columns: &[String]| {
        let columns = columns.join(", ");
        let row = format!("INSERT INTO db.{table} ({columns}) SELECT {columns} FROM db.sample");
        engine.query(&row)
    };
    let gone = ["`StatusMessage`", "`Links.TraceState`"];
    let current = ours("otel_traces");
    let mut older: Vec<String> =
        current.iter().filter(|name| !gone.contains(&name.as_str())).cloned().collect();
    older.push("`Old`".to_owned());
    block_on(async {
        migrate_server(&client, &wanted, &options()).await.unwrap();
        engine.query("CREATE TABLE db.sample AS db.otel_traces").unwrap();
        engine.query("ALTER TABLE db.sample ADD COLUMN Old String").unwrap();
        engine.query("INSERT INTO db.sample (Timestamp, TraceId) VALUES (now64(9), 'a')").unwrap();
        for change in
            ["DROP COLUMN StatusMessage", "DROP COLUMN `Links.TraceState`", "ADD COLUMN Old String"]
        {
            engine.query(&format!("ALTER TABLE db.otel_traces {change}")).unwrap();
        }
        insert("otel_traces", &older).unwrap();
        insert("otel_traces", &current).unwrap_err();

        wanted.consent.insert("db.otel_traces.Old".to_owned());
        let mut held = options();
        held.permit = held.permit.without_contract();
        let done = migrate_server(&client, &wanted, &held).await.unwrap();
        assert_eq!(done.applied.done.len(), 2, "{:?}", done.applied.done);
        assert_eq!(done.applied.refused.len(), 1, "{:?}", done.applied.refused);
        insert("otel_traces", &older).unwrap();
        insert("otel_traces", &current).unwrap();

        let done = migrate_server(&client, &wanted, &options()).await.unwrap();
        assert_eq!(done.applied.done.len(), 1, "{:?}", done.applied.done);
        insert("otel_traces", &current).unwrap();
        let refused = insert("otel_traces", &older).unwrap_err().to_string();
        assert!(refused.contains("Old"), "{refused}");
        let kept = engine.query("SELECT count() FROM db.otel_traces").unwrap();
        assert_eq!(kept.trim(), "4");
    });
}

/// Scenario: another compression is declared, then another storage policy, for tables with rows.
/// Guarantee: compression reaches the existing columns in one statement a table, and the rows stay;
/// a policy that the server does not have is its error, and on record.
#[test]
fn changed_compression_and_storage_reach_existing_tables() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let mut wanted = declared("db", AttributeStorage::Map);
    wanted.metrics = None;
    block_on(async {
        migrate_server(&client, &wanted, &options()).await.unwrap();
        engine
            .query("INSERT INTO db.otel_logs (Timestamp, Body) VALUES (now64(9), 'kept')")
            .unwrap();
        wanted.logs.as_mut().unwrap().layout.compression =
            Some(millrace_ddl::ColumnCompression::ZstdHigher);
        let done = migrate_server(&client, &wanted, &options()).await.unwrap();
        assert_eq!(done.applied.done.len(), 1, "{:?}", done.applied.done);
        assert!(done.drift.is_empty(), "{:?}", done.drift);
        let codecs = "SELECT countIf(compression_codec LIKE '%ZSTD(3)%') > 10, countIf( \
                      compression_codec LIKE '%ZSTD(1)%') FROM system.columns WHERE database = \
                      'db' AND table = 'otel_logs'";
        assert_eq!(engine.query(codecs).unwrap().trim(), "1\t0");
        assert_eq!(engine.query("SELECT Body FROM db.otel_logs").unwrap().trim(), "kept");

        wanted.logs.as_mut().unwrap().storage.policy = Some("no_such_policy".parse().unwrap());
        let error = migrate_server(&client, &wanted, &options()).await.unwrap_err().to_string();
        assert!(error.contains("no_such_policy"), "{error}");
        let story = read_history(&client, &wanted).await.unwrap().unwrap();
        assert_eq!(story.migrations.last().unwrap().standing, MigrationState::Failed);
    });
}
