//! Live tables that differ from the declared ones: which columns inserts omit, what stops inserts,
//! how that is reported, and how answers are judged where a repetition would be stored twice.

use millrace_pipeline::sink::{DeliveryOutcome, Sink};
use millrace_schema::{AttributeStorage, TableKind, build_table};

use super::fake_server::{FakeServer, Live, Reply, Request};
use super::{Fixture, PATIENCE, eventually};

const VERSION: &str = "26.9.2.1";
const MISSING: &str = "millrace_table_columns_missing{table=\"otel.otel_traces\"}";
const DEDUPLICATES: &str = "millrace_table_deduplicates{table=\"otel.otel_traces\"}";

/// Returns a live traces table of a server of this version, as declared.
fn traces_at(version: &str) -> Live {
    let live = traces("ReplicatedMergeTree", &[]);
    Live { tables: live.tables.replace(VERSION, version), ..live }
}

/// Returns a live traces table of an engine, with some columns changed to another type or removed.
fn traces(engine: &str, changes: &[(&str, Option<&str>)]) -> Live {
    let declared = build_table(TableKind::Traces, AttributeStorage::Json);
    let column = |column: &millrace_schema::Column| {
        let change = changes.iter().find(|(name, _)| *name == column.name);
        let ty = match change {
            Some((_, ty)) => (*ty)?.to_owned(),
            None => column.ty.to_string(),
        };
        let name = column.name;
        Some(format!(
            "{{\"table\":\"otel_traces\",\"name\":\"{name}\",\"kind\":\"{ty}\",\
             \"default_kind\":\"\"}}\n"
        ))
    };
    Live {
        tables: format!(
            "{{\"name\":\"otel_traces\",\"engine\":\"{engine}\",\"engine_full\":\"{engine}\",\
             \"partition_key\":\"toDate(Timestamp)\",\"server\":\"{VERSION}\"}}\n"
        ),
        columns: declared.insert_columns().filter_map(column).collect(),
    }
}

/// Returns whether an insert names a column.
fn names(insert: &Request, column: &str) -> bool {
    insert.parameter("query").unwrap().contains(&format!("%60{column}%60"))
}

/// Returns a fixture whose sink has checked the live table.
fn looked(server: &FakeServer) -> Fixture {
    let fixture = Fixture::new(&[server]);
    eventually("a look", || fixture.metric(DEDUPLICATES).is_some());
    fixture
}

/// Scenario: two columns are dropped under a running sink and come back. Guarantee: the failed
/// insert is sent again at once without them, with the same bytes and token; a metric and a note
/// report it, readiness is unchanged; after the repair they are written again automatically.
#[test]
fn dropped_columns_are_left_out_until_they_are_back() {
    let server = FakeServer::start([
        Reply::Wrote(3),
        Reply::Exception(500, 16),
        Reply::Wrote(3),
        Reply::Wrote(3),
    ]);
    server.show(traces("ReplicatedMergeTree", &[]));
    let mut fixture = looked(&server);
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let dropped = [("TraceState", None), ("Links.Attributes", None)];
    server.show(traces("ReplicatedMergeTree", &dropped));
    assert_eq!(fixture.store(1), DeliveryOutcome::Stored);
    let inserts = server.inserts();
    assert_eq!(inserts.len(), 3);
    let token =
        |insert: &Request| insert.parameter("insert_deduplication_token").map(str::to_owned);
    assert_eq!(token(&inserts[1]), token(&inserts[2]));
    assert_eq!(inserts[1].body, inserts[2].body);
    for column in ["TraceState", "Links.Attributes"] {
        assert!(names(&inserts[1], column) && !names(&inserts[2], column), "{column}");
    }
    assert!(names(&inserts[2], "SpanName"));
    // A server from 24.6 on: every insert that follows a check.
    let later =
        |insert: &Request| insert.parameter("materialize_skip_indexes_on_insert") == Some("0");
    assert!(inserts.iter().all(later));
    assert_eq!(inserts[2].parameter("input_format_skip_unknown_fields"), Some("1"));
    assert_eq!(fixture.metric(MISSING), Some(2));
    let note = "clickhouse: otel.otel_traces: rows are stored without TraceState, Links.Attributes";
    assert_eq!(fixture.readiness.warnings(), [note]);
    assert!(fixture.readiness.is_ready());

    server.show(traces("ReplicatedMergeTree", &[]));
    eventually("the repair is seen", || fixture.metric(MISSING) == Some(0));
    assert_eq!(fixture.store(2), DeliveryOutcome::Stored);
    assert!(names(server.inserts().last().unwrap(), "TraceState"));
    assert!(fixture.readiness.warnings().is_empty());
}

/// Scenario: a column that every span needs is dropped. Guarantee: inserts wait with the reason,
/// nothing is stored without it, and they end once it is back.
#[test]
fn an_essential_column_is_never_left_out() {
    let server = FakeServer::start([Reply::Exception(500, 16)]);
    server.show(traces("ReplicatedMergeTree", &[("TraceId", None)]));
    let mut fixture = looked(&server);
    let completion = fixture.answers.open_part().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    let reason = "clickhouse: otel.otel_traces: the table does not match (code 16): column TraceId \
                  is missing";
    eventually("blocked", || fixture.readiness.reasons() == [reason]);
    assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);
    let inserts = server.inserts();
    assert!(inserts.iter().all(|insert| names(insert, "TraceId")));
}

/// Scenario: values don't fit into a column whose type was changed; then the same answer from a
/// table that is as declared. Guarantee: the first waits for the table with both types named, and
/// none goes to the dead letters; the second are bad rows.
#[test]
fn a_changed_type_is_not_taken_for_bad_rows() {
    let server = FakeServer::start([Reply::Exception(400, 6), Reply::Exception(400, 6)]);
    server.show(traces("ReplicatedMergeTree", &[("SpanName", Some("UInt64"))]));
    let mut fixture = looked(&server);
    let completion = fixture.answers.open_part().unwrap();
    fixture.sink.submit(fixture.insert(0), completion).unwrap();
    eventually("blocked", || {
        let reasons = fixture.readiness.reasons().join("");
        reasons.ends_with("column SpanName is UInt64, written as LowCardinality(String)")
    });
    assert_eq!(fixture.answers.next_within(PATIENCE).unwrap().outcome, DeliveryOutcome::Stored);

    let server = FakeServer::start([Reply::Exception(400, 6)]);
    server.show(traces("ReplicatedMergeTree", &[]));
    let mut fixture = looked(&server);
    assert!(matches!(fixture.store(0), DeliveryOutcome::Rejected(_)));
}

/// Scenario: answers without a row count, from a table that recognises repetitions. Guarantee: the
/// first insert is sent once more with its token, and an answer with the count ends it; if none has
/// it, the endpoint is trusted from then on, and counted, until it states counts again.
#[test]
fn a_success_without_a_number_of_rows_is_asked_once_more() {
    let server = FakeServer::start([Reply::Ok, Reply::Wrote(3), Reply::Ok, Reply::Ok, Reply::Ok]);
    server.show(traces("ReplicatedMergeTree", &[]));
    let mut fixture = looked(&server);
    let unverified =
        |f: &Fixture| f.metric("millrace_inserts_unverified_total{cause=\"no_count\"}");
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    assert_eq!((server.inserts().len(), unverified(&fixture)), (2, None));
    assert_eq!((fixture.retries("retry_same"), fixture.retries("done")), (1, 0));
    assert_eq!(server.inserts()[0].target, server.inserts()[1].target);
    assert_eq!(fixture.store(1), DeliveryOutcome::Stored);
    assert_eq!((server.inserts().len(), unverified(&fixture)), (4, Some(1)));
    assert_eq!(fixture.store(2), DeliveryOutcome::Stored);
    assert_eq!((server.inserts().len(), unverified(&fixture)), (5, Some(2)));
}

/// Scenario: servers of several versions answer an insert twice with no written rows, then with all
/// of them. Guarantee: a version that counts the rows of a repetition too is never believed to have
/// stored what it doesn't count; others, which may have recognised a repetition, are the second
/// time.
#[test]
fn no_written_rows_end_an_insert_only_where_repetitions_may_not_be_counted() {
    let versions =
        [("27.1.1.1", 3), ("26.9.2.1", 3), ("26.8.9.9", 2), ("25.8.1.1", 2), ("unknown", 2)];
    for (version, expected) in versions {
        let server = FakeServer::start([Reply::Wrote(0), Reply::Wrote(0), Reply::Wrote(3)]);
        server.show(traces_at(version));
        let mut fixture = looked(&server);
        assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
        assert_eq!(server.inserts().len(), expected, "{version}");
    }
}

/// Scenario: an insert before its server's version is known, to a new server; then to one that is
/// older than its last check found, and refuses an unknown setting. Guarantee: the first has the
/// settings without which a user's profile would apply; the second is sent again at once with the
/// same token, without the settings that the older server doesn't know.
#[test]
fn a_profile_applies_to_no_insert_before_the_version_is_known() {
    let newer = ["deduplicate_insert", "use_strict_insert_block_limits"];
    let server = FakeServer::start([Reply::Wrote(3)]);
    let mut fixture = Fixture::new(&[&server]);
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let insert = server.inserts().remove(0);
    assert_eq!(newer.map(|name| insert.parameter(name)), [Some("enable"), Some("0")]);

    let server = FakeServer::start([Reply::Exception(404, 115), Reply::Wrote(3)]);
    server.show(traces_at("26.9.2.1"));
    let mut fixture = looked(&server);
    server.show(traces_at("25.8.1.1"));
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    let inserts = server.inserts();
    assert_eq!(inserts.len(), 2);
    let token = inserts.iter().map(|insert| insert.parameter("insert_deduplication_token"));
    assert_eq!(token.collect::<std::collections::BTreeSet<_>>().len(), 1);
    assert_eq!(newer.map(|name| inserts[1].parameter(name)), [None, None]);
    assert_eq!(inserts[1].parameter("materialize_skip_indexes_on_insert"), Some("0"));
    assert!(fixture.readiness.is_ready(), "{:?}", fixture.readiness.reasons());
}

/// Scenario: a table that stores a repetition again, with answers without a row count and with too
/// few rows. Guarantee: the first is trusted and counted, the second repeated once, then counted;
/// metric and note state the table's limitation; the process is ready.
#[test]
fn a_table_that_forgets_inserts_is_told_and_not_repeated_into() {
    let server = FakeServer::start([Reply::Ok, Reply::Wrote(2), Reply::Wrote(2)]);
    server.show(traces("Null", &[]));
    let mut fixture = looked(&server);
    assert_eq!(fixture.metric(DEDUPLICATES), Some(0));
    let note = "clickhouse: otel.otel_traces: a repeated insert may be stored twice, engine Null \
                remembers no inserts";
    eventually("a note", || fixture.readiness.warnings() == [note]);
    assert_eq!(fixture.store(0), DeliveryOutcome::Stored);
    assert_eq!(server.inserts().len(), 1);
    assert_eq!(fixture.store(1), DeliveryOutcome::Stored);
    assert_eq!(server.inserts().len(), 3);
    for cause in ["no_count", "short_count"] {
        let series = format!("millrace_inserts_unverified_total{{cause=\"{cause}\"}}");
        assert_eq!(fixture.metric(&series), Some(1), "{cause}");
    }
    eventually("ready", || fixture.readiness.is_ready());
}
