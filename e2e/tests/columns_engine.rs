//! The columns crate against a real ClickHouse engine: what it writes is taken, and what is read
//! back is what the reference library's messages say, row by row. Not here: the broker and the
//! collector around it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../collector/columns/tests/native/mod.rs"]
mod native;
#[path = "../../collector/columns/tests/oracle/mod.rs"]
mod oracle;
#[path = "../../collector/wire/tests/requests/mod.rs"]
mod requests;

use std::fmt::Debug;

use millrace_columns::{BlockSet, Compression, Options};
use millrace_ddl::{
    Client, ClientOptions, Credentials, Declared, Engine as TableEngine, Permit, Secret, Signals,
    TableName, TableOptions, converge, render,
};
use millrace_schema::{Attributes, Identifier, TableKind, table};
use millrace_stack::clickhouse::{Engine, EngineOptions};
use millrace_wire::Signal;
use native::Value;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use oracle::{Oracle, Rows};
use proptest::strategy::{BoxedStrategy, Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use prost::Message;

/// Random requests per signal and variant.
const REQUESTS: usize = 150;

struct Tables {
    engine: Engine,
    options: Options,
}

fn name(text: &str) -> Identifier {
    text.parse().unwrap()
}

impl Tables {
    fn new(attributes: Attributes) -> Self {
        let engine = Engine::start(EngineOptions::default()).unwrap();
        let options = TableOptions { attributes, engine: TableEngine::MergeTree, ttl: None };
        let declared = Declared::uniform(name("otel"), name("otel"), Signals::ALL, &options);
        let mut client = ClientOptions::new(vec![engine.url().parse().unwrap()]);
        client.credentials = Credentials {
            user: engine.user().to_owned(),
            password: Secret::new(engine.password()),
        };
        let client = Client::new(client).unwrap();
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(converge(&client, &declared, Permit::ADDITIVE))
            .unwrap();
        Self { engine, options: Options { attributes, ..Options::default() } }
    }

    fn oracle(&self) -> Oracle {
        let Options { attributes, nested_depth } = self.options;
        Oracle { attributes, nested_depth }
    }

    /// Sends everything in `set`, each insert refused by the engine if it spans two partitions.
    fn send(&self, set: &mut BlockSet) {
        for insert in set.take(Compression::Lz4) {
            let definition = table(insert.table, self.options.attributes);
            let name = TableName::new(&name("otel"), &name("otel"), insert.table);
            let statement = render::insert_statement(&name, &definition);
            let query = percent(statement.sql());
            let settings = "decompress=1&async_insert=0&max_partitions_per_insert_block=1";
            let path = format!("/?query={query}&{settings}");
            let answer = self.engine.request(&path, &[], &insert.body).unwrap();
            assert_eq!(answer.status, 200, "{}: {}", insert.table, answer.text());
        }
    }

    /// All rows of a table, sorted by value: the engine keeps no order of arrival.
    fn stored(&self, kind: TableKind) -> Vec<Vec<Value>> {
        let definition = table(kind, self.options.attributes);
        let columns: Vec<String> =
            definition.insert_columns().map(|column| format!("`{}`", column.name)).collect();
        let query = format!(
            "SELECT {} FROM otel.otel_{} SETTINGS \
             output_format_native_use_flattened_dynamic_and_json_serialization = 1 FORMAT Native",
            columns.join(", "),
            kind.suffix(),
        );
        let answer = self.engine.request("/", &[], query.as_bytes()).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.text());
        let blocks = native::blocks(&answer.body).into_iter();
        let mut rows: Vec<_> = blocks.flat_map(|block| block.rows).collect();
        rows.sort();
        rows
    }

    /// Checks that the tables hold exactly `expected`.
    fn verify(&self, expected: Rows) {
        for kind in TableKind::ALL.into_iter().filter(|kind| *kind != TableKind::TraceIdTs) {
            let of_kind = expected.iter().filter(|((other, _), _)| *other == kind);
            let mut rows: Vec<_> = of_kind.flat_map(|(_, rows)| rows.clone()).collect();
            rows.sort();
            let stored = self.stored(kind);
            assert_eq!(stored.len(), rows.len(), "rows of {kind}");
            for (stored, expected) in stored.iter().zip(&rows) {
                assert_eq!(stored, expected, "a row of {kind}");
            }
        }
    }
}

/// Percent-encodes a URL parameter.
fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// The same requests in every run, as the library that encoded them reads them back.
fn samples<M: Message + Default + Debug>(strategy: &BoxedStrategy<M>) -> Vec<(Vec<u8>, M)> {
    let mut runner = TestRunner::deterministic();
    (0..REQUESTS)
        .map(|_| {
            let bytes = strategy.new_tree(&mut runner).unwrap().current().encode_to_vec();
            let message = M::decode(bytes.as_slice()).unwrap();
            (bytes, message)
        })
        .collect()
}

fn extend(all: &mut Rows, rows: Rows) {
    for (key, mut values) in rows {
        all.entry(key).or_default().append(&mut values);
    }
}

/// Scenario: hundreds of random requests of all signals, with odd values of every kind, some
/// requests to an insert. Guarantee: the engine holds each record once, every column as stated, and
/// no insert touched more than one partition.
fn random_requests_are_read_back(attributes: Attributes) {
    let tables = Tables::new(attributes);
    let oracle = tables.oracle();
    let mut expected = Rows::new();
    let mut send_all = |signal: Signal, batch: Vec<(Vec<u8>, Rows)>| {
        let mut set = BlockSet::new(signal, &tables.options);
        for requests in batch.chunks(25) {
            for (request, rows) in requests {
                set.append(request).unwrap();
                extend(&mut expected, rows.clone());
            }
            tables.send(&mut set);
        }
    };
    let traces = samples(&requests::traces());
    send_all(Signal::Traces, traces.into_iter().map(|(b, m)| (b, oracle.traces(&m))).collect());
    let logs = samples(&requests::logs());
    send_all(Signal::Logs, logs.into_iter().map(|(b, m)| (b, oracle.logs(&m))).collect());
    let metrics = samples(&requests::metrics());
    send_all(Signal::Metrics, metrics.into_iter().map(|(b, m)| (b, oracle.metrics(&m))).collect());
    tables.verify(expected);
}

/// See [`random_requests_are_read_back`]: JSON attributes.
#[test]
fn random_requests_are_read_back_from_json_tables() {
    random_requests_are_read_back(Attributes::Json);
}

/// See [`random_requests_are_read_back`]: Map attributes.
#[test]
fn random_requests_are_read_back_from_map_tables() {
    random_requests_are_read_back(Attributes::Map);
}

fn attribute(key: &str, value: Any) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn request(sets: Vec<Vec<KeyValue>>) -> ExportTraceServiceRequest {
    let span = |(n, attributes): (usize, Vec<KeyValue>)| Span {
        name: format!("{n:05}"),
        start_time_unix_nano: 1_790_000_000_000_000_000 + n as u64,
        attributes,
        ..Span::default()
    };
    let spans = sets.into_iter().enumerate().map(span).collect();
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans: vec![ScopeSpans { spans, ..ScopeSpans::default() }],
            ..ResourceSpans::default()
        }],
    }
}

/// Scenario: ten thousand distinct keys in one batch, far over the 1,024 that a JSON column keeps
/// as columns of their own. Guarantee: every value is there under its key.
#[test]
fn ten_thousand_keys_in_a_batch_are_read_back() {
    let tables = Tables::new(Attributes::Json);
    let sets = (0..5000_i64)
        .map(|n| {
            vec![
                attribute(&format!("even.{n}"), Any::IntValue(n)),
                attribute(&format!("odd.{n}"), Any::StringValue(format!("value {n}"))),
            ]
        })
        .collect();
    let mut set = BlockSet::new(Signal::Traces, &tables.options);
    set.append(&request(sets).encode_to_vec()).unwrap();
    tables.send(&mut set);
    let query = |sql: &str| tables.engine.query(sql).unwrap().trim().to_owned();
    assert_eq!(query("SELECT count() FROM otel.otel_traces"), "5000");
    assert_eq!(
        query("SELECT uniqExact(arrayJoin(JSONAllPaths(SpanAttributes))) FROM otel.otel_traces"),
        "10000"
    );
    assert_eq!(
        query(
            "SELECT SpanAttributes.even.`4321`::Int64, SpanAttributes.odd.`4321`::String \
             FROM otel.otel_traces WHERE SpanName = '04321'"
        ),
        "4321\tvalue 4321"
    );
}

/// Scenario: keys that conflict, repeat, are empty or hold dots; lists as values; text that isn't
/// UTF-8. Guarantee: what the crate's documentation states, as a query sees it.
#[test]
fn odd_keys_and_values_read_as_stated() {
    let tables = Tables::new(Attributes::Json);
    let list = |members: Vec<KeyValue>| Any::KvlistValue(KeyValueList { values: members });
    let text = |text: &str| Any::StringValue(text.to_owned());
    let sets = vec![
        vec![attribute("a", Any::IntValue(1)), attribute("a.b", text("under a"))],
        vec![attribute("a", list(vec![attribute("b", Any::BoolValue(true))]))],
        vec![attribute("a", text("first")), attribute("a", Any::DoubleValue(0.5))],
        vec![attribute("", text("no name"))],
        vec![attribute("bytes", Any::BytesValue(vec![0, 255]))],
    ];
    let mut bytes = request(sets).encode_to_vec();
    // The one value that the reference library can't hold: text that isn't UTF-8.
    let at = bytes.windows(7).position(|window| window == b"no name").unwrap();
    bytes[at] = 0xff;
    let mut set = BlockSet::new(Signal::Traces, &tables.options);
    set.append(&bytes).unwrap();
    tables.send(&mut set);
    let typed = tables
        .engine
        .query(
            "SELECT arrayStringConcat(arrayMap((k, t) -> k || ':' || t, \
             mapKeys(JSONAllPathsWithTypes(SpanAttributes) AS m), mapValues(m)), ',') \
             FROM otel.otel_traces ORDER BY SpanName",
        )
        .unwrap();
    let typed: Vec<&str> = typed.trim_end_matches('\n').split('\n').collect();
    assert_eq!(typed, ["a:Int64,a.b:String", "a.b:Bool", "a:Float64", ":String", "bytes:String"]);
    let query = |sql: &str| tables.engine.query(sql).unwrap().trim().to_owned();
    let bytes =
        "SELECT SpanAttributes.bytes::String FROM otel.otel_traces WHERE SpanName = '00004'";
    assert_eq!(query(bytes), "AP8=");
    let stored = tables.stored(TableKind::Traces).into_iter();
    let texts: Vec<Value> = stored
        .flatten()
        .filter_map(|value| match value {
            Value::Json(paths) => paths.get(&b""[..]).map(|(_, value)| value.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(texts, [Value::Text(b"\xffo name".to_vec())]);
}
