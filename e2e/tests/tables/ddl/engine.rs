//! The ddl crate against a real ClickHouse engine: every table in every variant, drift found and
//! mended, and the errors of a server that cannot or will not. Not here: replicated tables
//! (`e2e/tests/replicated`), and clusters, which this engine cannot run (their text is under
//! snapshot in the crate).

use crate::tables::ddl::client::{block_on, client, options};
use millrace_ddl::render::drop_all;
use millrace_ddl::{
    AttributeStorage, Category, ClientOptions, ConvergeReport, DdlClient, Declared,
    Engine as TableEngine, Identifier, MigrateError, MigrateOptions, Permit, Secret, Severity,
    Signals, StepClass, TableOptions, Ttl, UserCredentials, observe_declared, plan_migration,
    verify_tables,
};
use millrace_stack::clickhouse::{Engine, EngineOptions};

fn name(text: &str) -> Identifier {
    text.parse().unwrap()
}

fn declared(database: &str, attributes: AttributeStorage, engine: TableEngine) -> Declared {
    let ttl = Ttl::parse_optional("30d").unwrap();
    let options = TableOptions { attributes, engine, ttl, ..TableOptions::default() };
    Declared::uniform(name(database), name("otel"), Signals::ALL, &options)
}

/// A run without retries: what fails here is meant to.
async fn converge(
    client: &DdlClient,
    declared: &Declared,
    permit: Permit,
) -> Result<ConvergeReport, MigrateError> {
    let mut options = MigrateOptions::new("test");
    options.permit = permit;
    options.retries = 0;
    millrace_ddl::converge_servers(client, declared, &options).await
}

fn lines(drift: &[millrace_ddl::Drift]) -> Vec<String> {
    drift.iter().map(ToString::to_string).collect()
}

/// Scenario: an empty server, then all tables in both variants and as Null tables, each made twice.
/// Guarantee: the server takes every statement, describes the tables exactly as declared (not even
/// a notice), and the second time nothing is run.
#[test]
fn every_variant_is_made_verified_and_left_alone() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    block_on(async {
        for (database, attributes, table_engine) in [
            ("json", AttributeStorage::Json, TableEngine::MergeTree),
            ("map", AttributeStorage::Map, TableEngine::MergeTree),
            ("void", AttributeStorage::Json, TableEngine::Null),
        ] {
            let wanted = declared(database, attributes, table_engine);
            let first = converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
            let made = wanted.tables().len() + usize::from(wanted.view().is_some());
            assert_eq!(first.applied.len(), made, "{database}");
            assert!(first.drift.is_empty(), "{database}: {:?}", first.drift);
            let second = converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
            assert!(second.applied.is_empty() && second.drift.is_empty(), "{database}");
        }
    });
}

/// Scenario: a table lacks two columns, one of them a Nested part, an index, its deduplication
/// window and its view, and has a column of its own. Guarantee: each is named, the missing ones are
/// mended without touching a row, the foreign one is left and only noticed.
#[test]
fn what_is_missing_is_named_and_mended() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let wanted = declared("db", AttributeStorage::Json, TableEngine::MergeTree);
    block_on(async {
        converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
        engine
            .query("INSERT INTO db.otel_traces (Timestamp, TraceId, SpanName) VALUES (now64(9), 'a', 'x')")
            .unwrap();
        for change in [
            "ALTER TABLE db.otel_traces DROP COLUMN StatusMessage",
            "ALTER TABLE db.otel_traces DROP COLUMN `Links.TraceState`",
            "ALTER TABLE db.otel_traces DROP INDEX idx_trace_id",
            "ALTER TABLE db.otel_traces RESET SETTING non_replicated_deduplication_window",
            "ALTER TABLE db.otel_traces ADD COLUMN Extra UInt8",
            "DROP VIEW db.otel_traces_trace_id_ts_mv",
        ] {
            engine.query(change).unwrap();
        }
        let found = lines(&verify_tables(&client, &wanted).await.unwrap());
        assert_eq!(
            found,
            [
                "db.otel_traces: column StatusMessage (String) is missing",
                "db.otel_traces: column Links.TraceState (Array(String)) is missing",
                "db.otel_traces: column Extra (UInt8) is not declared",
                "db.otel_traces: index idx_trace_id is missing",
                "db.otel_traces: setting non_replicated_deduplication_window is none, declared 10000",
                "db.otel_traces_trace_id_ts_mv: the view does not exist",
            ]
        );
        let planned = plan_migration(&wanted, &observe_declared(&client, &wanted).await.unwrap());
        assert_eq!(planned.steps.len(), 5);
        assert!(planned.steps.iter().all(|step| step.class == StepClass::MetadataOnly));
        assert_eq!(planned.steps[0].rows, 1);

        let mended = converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
        let left: Vec<_> = mended.drift.iter().map(|(_, drift)| drift.to_string()).collect();
        assert_eq!(left, ["db.otel_traces: column Extra (UInt8) is not declared"]);
        assert!(mended.drift.iter().all(|(_, drift)| drift.severity == Severity::Notice));
        // The columns came back in their places, and the row is still there.
        let order = "SELECT arrayStringConcat(groupArray(name), ',') FROM (SELECT name FROM \
                     system.columns WHERE database = 'db' AND table = 'otel_traces' ORDER BY position)";
        let order = engine.query(order).unwrap();
        assert!(order.contains("StatusCode,StatusMessage,Events.Timestamp"), "{order}");
        assert!(order.contains("Links.SpanId,Links.TraceState,Links.Attributes"), "{order}");
        assert_eq!(engine.query("SELECT count() FROM db.otel_traces").unwrap().trim(), "1");
    });
}

/// Scenario: a table of the same name has other types, or is a view. Guarantee: said, with advice,
/// and not touched.
#[test]
fn what_cannot_be_mended_is_said_and_left_alone() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let wanted = declared("db", AttributeStorage::Json, TableEngine::MergeTree);
    block_on(async {
        let map = declared("db", AttributeStorage::Map, TableEngine::MergeTree);
        converge(&client, &map, Permit::ADDITIVE).await.unwrap();
        engine.query("DROP TABLE db.otel_logs").unwrap();
        engine.query("CREATE VIEW db.otel_logs AS SELECT 1 AS one").unwrap();
        let done = converge(&client, &wanted, Permit::up_to(StepClass::Destructive)).await.unwrap();
        let blocked: Vec<_> = done.blocked.iter().map(|(_, each)| each.drift.to_string()).collect();
        let types = "column SpanAttributes is Map(LowCardinality(String), String), declared JSON";
        assert!(blocked.contains(&format!("db.otel_traces: {types}")), "{blocked:?}");
        assert!(
            blocked.contains(&"db.otel_logs: engine is View, declared MergeTree".to_owned()),
            "{blocked:?}"
        );
        for each in &done.blocked {
            assert!(each.1.advice.contains("rename"), "{:?}", each.1);
        }
        assert_eq!(engine.query("SELECT one FROM db.otel_logs").unwrap().trim(), "1");
        assert!(
            verify_tables(&client, &map).await.unwrap().iter().any(|d| d.object == "db.otel_logs")
        );
    });
}

/// Scenario: rows are to be retained for longer, for ever, then for less. Guarantee: the longer
/// retention also applies to rows that the tables have; only the shorter one needs consent; and the
/// tables end as declared. Slow: an engine starts, and eight tables are made and changed three
/// times.
#[test]
fn a_time_to_live_is_changed_as_far_as_allowed() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let kept = |text: &str| {
        let mut wanted = declared("db", AttributeStorage::Json, TableEngine::MergeTree);
        let ttl = Ttl::parse_optional(text).unwrap();
        for options in [&mut wanted.traces, &mut wanted.logs, &mut wanted.metrics] {
            options.as_mut().unwrap().ttl = ttl;
        }
        wanted
    };
    block_on(async {
        converge(&client, &kept("30d"), Permit::ADDITIVE).await.unwrap();
        engine.query("INSERT INTO db.otel_logs (Timestamp) VALUES (now64(9))").unwrap();
        let expires_after = "SELECT toUInt32(any(delete_ttl_info_max)) - (SELECT toUInt32(\
                             toDateTime(any(Timestamp))) FROM db.otel_logs) FROM system.parts \
                             WHERE database = 'db' AND table = 'otel_logs' AND active";
        let expires_after = || engine.query(expires_after).unwrap().trim().parse::<u64>().unwrap();
        assert_eq!(expires_after(), 30 * 86_400);
        for (text, class) in [
            ("60d", StepClass::MetadataOnly),
            ("0s", StepClass::MetadataOnly),
            ("36h", StepClass::Destructive),
        ] {
            let wanted = kept(text);
            let planned =
                plan_migration(&wanted, &observe_declared(&client, &wanted).await.unwrap());
            assert_eq!(planned.steps.len(), 8, "{text}");
            assert!(planned.steps.iter().all(|step| step.class == class), "{text}");
            if class > StepClass::MetadataOnly {
                let refused = converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
                assert_eq!((refused.applied.len(), refused.refused.len()), (0, 8), "{text}");
            }
            let mut wanted = wanted;
            let names = wanted.tables().into_iter().map(|table| format!("{}.ttl", table.name));
            wanted.consent = names.collect();
            let done = converge(&client, &wanted, Permit::up_to(class)).await.unwrap();
            assert!(done.drift.is_empty(), "{text}: {:?}", done.drift);
            if text == "60d" {
                assert_eq!(expires_after(), 60 * 86_400);
            }
        }
    });
}

/// Scenario: tables are larger than a server lets anyone drop, 50 GB by default; here the limit is a
/// byte. Guarantee: the server refuses to drop one; requested deletion drops all.
#[test]
fn a_large_table_is_dropped_if_that_is_requested() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let wanted = declared("db", AttributeStorage::Json, TableEngine::MergeTree);
    block_on(async {
        converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
        engine.query("INSERT INTO db.otel_logs (Timestamp) VALUES (now64(9))").unwrap();
        let path = "/?query=DROP%20TABLE%20db.otel_logs&max_table_size_to_drop=1";
        let refused = engine.request(path, &[], &[]).unwrap();
        assert_eq!(refused.header("x-clickhouse-exception-code"), Some("359"));
        for statement in drop_all(&wanted) {
            let settings = statement.settings();
            assert!(settings.contains(&("max_table_size_to_drop", "0".to_owned())));
            client.execute(&statement).await.unwrap();
        }
        let left = "SELECT count() FROM system.tables WHERE database = 'db' AND name IN \
                    ('otel_logs', 'otel_traces', 'otel_traces_trace_id_ts', 'otel_metrics_gauge')";
        assert_eq!(engine.query(left).unwrap().trim(), "0");
    });
}

/// Scenario: an older table as Rotel makes it (other types of text, no window, no end of life).
/// Guarantee: texts that convert are notices; what matters is planned without loss.
#[test]
fn an_older_table_is_adopted_without_loss() {
    let engine = Engine::start(EngineOptions::default()).unwrap();
    let client = client(&engine);
    let signals = Signals { logs: true, ..Signals::default() };
    let options = TableOptions { attributes: AttributeStorage::Map, ..TableOptions::default() };
    let wanted = Declared::uniform(name("db"), name("otel"), signals, &options);
    engine.query("CREATE DATABASE db").unwrap();
    engine
        .query(
            "CREATE TABLE db.otel_logs (Timestamp DateTime64(9), TimestampTime DateTime DEFAULT \
             toDateTime(Timestamp), TraceId String, SpanId String, TraceFlags UInt8, SeverityText \
             String, SeverityNumber UInt8, ServiceName LowCardinality(String), Body String, \
             ResourceSchemaUrl String, ResourceAttributes Map(LowCardinality(String), String), \
             ScopeSchemaUrl LowCardinality(String), ScopeName String, ScopeVersion String, \
             ScopeAttributes Map(LowCardinality(String), String), LogAttributes \
             Map(LowCardinality(String), String)) ENGINE = MergeTree PARTITION BY \
             toDate(TimestampTime) PRIMARY KEY (ServiceName, TimestampTime) ORDER BY \
             (ServiceName, TimestampTime, Timestamp)",
        )
        .unwrap();
    engine.query("INSERT INTO db.otel_logs (Timestamp, Body) VALUES (now64(9), 'kept')").unwrap();
    block_on(async {
        let done = converge(&client, &wanted, Permit::ADDITIVE).await.unwrap();
        assert!(done.blocked.is_empty() && done.refused.is_empty(), "{done:?}");
        assert!(done.drift.iter().all(|(_, drift)| drift.severity == Severity::Notice));
        let kept = "SELECT Body, EventName = '' FROM db.otel_logs";
        assert_eq!(engine.query(kept).unwrap().trim(), "kept\t1");
    });
}

/// Scenario: wrong password, unknown host, nobody listening, a database that is not there, a user
/// who may only read. Guarantee: each is told apart, and no message holds the password.
#[test]
fn servers_that_cannot_or_will_not_are_told_apart() {
    let users = ["writer", "reader"].map(|user| millrace_stack::clickhouse::User {
        name: millrace_stack::service::Secret::new(user).unwrap(),
        password: millrace_stack::service::Secret::new("correct-horse").unwrap(),
        read_only: user == "reader",
    });
    let engine =
        Engine::start(EngineOptions { users: users.into(), ..EngineOptions::default() }).unwrap();
    let wanted = declared("db", AttributeStorage::Json, TableEngine::MergeTree);
    let at = |endpoint: &str, user: &str, password: &str| {
        let mut options = ClientOptions::new(vec![endpoint.parse().unwrap()]);
        options.credentials =
            UserCredentials::Password { user: user.to_owned(), password: Secret::new(password) };
        DdlClient::new(options).unwrap()
    };
    let url = engine.url();
    block_on(async {
        for (client, category) in [
            (at(&url, "writer", "wrong-battery"), Category::Authentication),
            (at(&url, "reader", "correct-horse"), Category::ReadOnly),
            (at("http://no-such-host.invalid:8123", "writer", "x"), Category::UnknownHost),
            (at("http://127.0.0.1:1", "writer", "x"), Category::Unreachable),
        ] {
            let error = converge(&client, &wanted, Permit::ADDITIVE).await.unwrap_err();
            assert_eq!(error.client_error().unwrap().category(), category, "{error}");
            let message = error.to_string();
            assert!(!message.contains("battery") && !message.contains("horse"), "{message}");
        }
        // One server that is down does not hold up the other.
        let mut both = options(&engine, &engine.url(), engine.password());
        both.endpoints.insert(0, "http://127.0.0.1:1".parse().unwrap());
        let done =
            converge(&DdlClient::new(both).unwrap(), &wanted, Permit::ADDITIVE).await.unwrap();
        assert_eq!(done.failed.len(), 1);
        assert!(done.drift.is_empty() && !done.applied.is_empty());
    });
}
