//! The columns crate against a real ClickHouse engine: what it writes is taken, and what is read
//! back is what the reference library's messages say, row by row. Not here: the broker and the
//! collector around it.

#[path = "../../../../collector/core/wire/tests/requests/mod.rs"]
mod requests;

use std::fmt::Debug;

use crate::tables::columns::tables::native::Value;
use crate::tables::columns::tables::oracle::Rows;
use crate::tables::columns::tables::{Tables, attribute, request};
use millrace_columns::{BlockSet, BodyCompression};
use millrace_schema::{AttributeStorage, TableKind};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{KeyValue, KeyValueList};
use proptest::strategy::{BoxedStrategy, Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use prost::Message;

/// Random requests per signal and variant.
const REQUESTS: usize = 150;

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
fn random_requests_are_read_back(attributes: AttributeStorage) {
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

/// See [`random_requests_are_read_back`]: JSON attributes. Slow: an engine starts, and each column
/// of 450 random requests is read back.
#[test]
fn random_requests_are_read_back_from_json_tables() {
    random_requests_are_read_back(AttributeStorage::Json);
}

/// See [`random_requests_are_read_back`]: Map attributes. Slow: an engine starts, and each column
/// of 450 random requests is read back.
#[test]
fn random_requests_are_read_back_from_map_tables() {
    random_requests_are_read_back(AttributeStorage::Map);
}

/// Scenario: four requests become an insert of four blocks, and another one of two, each sent twice
/// with its token. Guarantee: an insert is one part, and its rows are there once, in the table and
/// in what its view looks traces up by. The same rows in another number of blocks are no repetition
/// to the engine: so blocks have to follow from the messages alone, as the exporter's encoder has
/// it.
#[test]
fn an_insert_of_several_blocks_is_one_part_and_dropped_when_repeated() {
    let tables = Tables::new(AttributeStorage::Map);
    let requests: Vec<Vec<u8>> = (0..4_u8)
        .map(|n| {
            let sets = (0..100).map(|_| vec![attribute("n", Any::IntValue(n.into()))]).collect();
            let mut request = request(sets);
            let groups = request.resource_spans.iter_mut().flat_map(|it| &mut it.scope_spans);
            groups.flat_map(|it| &mut it.spans).for_each(|span| span.trace_id = vec![n + 1; 16]);
            request.encode_to_vec()
        })
        .collect();
    // As gateways have it (collector/sinks/clickhouse/src/servers/client.rs).
    let settings = "&insert_deduplicate=1&deduplicate_blocks_in_dependent_materialized_views=1\
                    &min_insert_block_size_rows=1048449&min_insert_block_size_bytes=0";
    let mut set = BlockSet::new(Signal::Traces, &tables.options);
    let mut send = |token: &str, requests_of_a_block: usize| {
        for block in requests.chunks(requests_of_a_block) {
            for request in block {
                set.append(request).unwrap();
            }
            set.seal_blocks(BodyCompression::Lz4);
        }
        tables.send_with(&mut set, &format!("&insert_deduplication_token={token}{settings}"));
    };
    for (token, requests_of_a_block) in [("a", 1), ("b", 2), ("a", 1), ("b", 2)] {
        send(token, requests_of_a_block);
    }
    let stored = "SELECT count(), uniqExact(_part) FROM otel.otel_traces";
    assert_eq!(tables.query(stored), "800\t2");
    let traces = "SELECT count(), uniqExact(TraceId) FROM otel.otel_traces_trace_id_ts";
    assert_eq!(tables.query(traces), "8\t4");
    send("a", 2);
    assert_eq!(tables.query("SELECT count() FROM otel.otel_traces"), "1200");
}

/// Scenario: an insert is sent twice with its token, first with deduplication disabled by the newer
/// setting, as a user's profile may have it, then with what gateways add from 26.2 on. Guarantee: the
/// engine ignores tokens in spite of `insert_deduplicate`, and recognises the repetition then.
#[test]
fn the_newer_setting_decides_whether_a_repeated_insert_is_dropped() {
    let tables = Tables::new(AttributeStorage::Map);
    let mut set = BlockSet::new(Signal::Traces, &tables.options);
    let mut send = |token: &str, setting: &str| {
        let sets = vec![vec![attribute("n", Any::IntValue(1))]];
        set.append(&request(sets).encode_to_vec()).unwrap();
        let token = format!("&insert_deduplication_token={token}&insert_deduplicate=1");
        tables.send_with(&mut set, &format!("{token}&deduplicate_insert={setting}"));
    };
    for (token, setting) in [("a", "disable"), ("a", "disable"), ("b", "enable"), ("b", "enable")] {
        send(token, setting);
    }
    assert_eq!(tables.query("SELECT count() FROM otel.otel_traces"), "3");
}

/// Scenario: ten thousand distinct keys in one batch, far over the 1,024 that a JSON column keeps
/// as columns of their own. Guarantee: every value is there under its key. Slow: an engine starts,
/// and writes and reads 10,000 paths of one column.
#[test]
fn ten_thousand_keys_in_a_batch_are_read_back() {
    let tables = Tables::new(AttributeStorage::Json);
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
    let query = |sql: &str| tables.query(sql);
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
    let tables = Tables::new(AttributeStorage::Json);
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
    let query = |sql: &str| tables.query(sql);
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
