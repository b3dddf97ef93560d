//! Odd input, read back from a real engine: each line of `docs/signals.md` that says what is stored
//! is held here or in `columns_engine.rs`. What is refused is tested without an engine, in
//! `collector/core/columns/tests/refusals.rs`.

use crate::tables::columns::tables::native::Value;
use crate::tables::columns::tables::{Tables, attribute, request};
use millrace_columns::BlockSet;
use millrace_schema::{AttributeStorage, TableKind};
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Histogram, HistogramDataPoint, Metric, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// A time of the year 2026, in nanoseconds.
const NOW: u64 = 1_790_000_000_000_000_000;
const NANOS_PER_DAY: u64 = 86_400_000_000_000;

fn text(text: &str) -> Any {
    Any::StringValue(text.to_owned())
}

fn list(members: Vec<KeyValue>) -> Any {
    Any::KvlistValue(KeyValueList { values: members })
}

fn array(values: Vec<Option<Any>>) -> Any {
    let values = values.into_iter().map(|value| AnyValue { value }).collect();
    Any::ArrayValue(ArrayValue { values })
}

/// `value` inside lists under the key `n`, `depth` of them.
fn nested(value: Any, depth: usize) -> Any {
    (0..depth).fold(value, |inner, _| list(vec![attribute("n", inner)]))
}

fn send(tables: &Tables, signal: Signal, request: &[u8]) {
    let mut set = BlockSet::new(signal, &tables.options);
    set.append(request).unwrap();
    tables.send(&mut set);
}

/// Sends one span per set and gives back its attributes, in the order sent.
fn attributes_of(tables: &Tables, request: &[u8]) -> Vec<Value> {
    send(tables, Signal::Traces, request);
    let mut rows = tables.stored(TableKind::Traces);
    // By name, which is the position: column 5 of the traces table; attributes are column 11.
    rows.sort_by(|one, other| one[5].cmp(&other[5]));
    rows.into_iter().map(|row| row[11].clone()).collect()
}

fn json<const N: usize>(paths: [(&str, &str, Value); N]) -> Value {
    let paths = paths.map(|(path, ty, value)| (path.as_bytes().to_vec(), (ty.to_owned(), value)));
    Value::Json(paths.into())
}

fn string(text: impl AsRef<[u8]>) -> Value {
    Value::Text(text.as_ref().to_vec())
}

/// Scenario: every type of value, and every oddity of keys, as JSON attributes. Guarantee: types
/// are kept, keys mean what the page says, nothing is lost beside what the page says is.
#[test]
fn json_attributes_keep_types_and_odd_keys() {
    let tables = Tables::new(AttributeStorage::Json);
    let cases: Vec<(Vec<KeyValue>, Value)> = vec![
        (
            vec![
                attribute("s", text("text")),
                attribute("i", Any::IntValue(i64::MIN)),
                attribute("d", Any::DoubleValue(-0.0)),
                attribute("b", Any::BoolValue(true)),
                attribute("bytes", Any::BytesValue(vec![0, 255])),
            ],
            json([
                ("s", "String", string("text")),
                ("i", "Int64", Value::Int(i64::MIN)),
                ("d", "Float64", Value::Float((-0.0_f64).to_bits())),
                ("b", "Bool", Value::Bool(true)),
                ("bytes", "String", string("AP8=")),
            ]),
        ),
        // One key with another type on another row: both types live under one path.
        (vec![attribute("s", Any::IntValue(7))], json([("s", "Int64", Value::Int(7))])),
        // A key beside a key under it; and the same path by way of a list.
        (
            vec![attribute("a", Any::IntValue(1)), attribute("a.b", text("dotted"))],
            json([("a", "Int64", Value::Int(1)), ("a.b", "String", string("dotted"))]),
        ),
        (
            vec![attribute("a", list(vec![attribute("b", text("listed"))]))],
            json([("a.b", "String", string("listed"))]),
        ),
        // A key that occurs twice: the last value; so too when one of the two is a list's member.
        (
            vec![attribute("k", text("first")), attribute("k", Any::BoolValue(false))],
            json([("k", "Bool", Value::Bool(false))]),
        ),
        (
            vec![
                attribute("a", list(vec![attribute("b", text("listed"))])),
                attribute("a.b", Any::IntValue(2)),
            ],
            json([("a.b", "Int64", Value::Int(2))]),
        ),
        // Empty keys, dots at odd places, quotes: paths as they are.
        (
            vec![
                attribute("", text("none")),
                attribute(".", text("dot")),
                attribute("..x.", text("dots")),
                attribute("q\"u`o\\te", text("quoted")),
                attribute("ключ", text("key")),
            ],
            json([
                ("", "String", string("none")),
                (".", "String", string("dot")),
                ("..x.", "String", string("dots")),
                ("q\"u`o\\te", "String", string("quoted")),
                ("ключ", "String", string("key")),
            ]),
        ),
        // Nothing to store: an empty value, an empty list.
        (
            vec![
                KeyValue { key: "none".into(), value: None, ..KeyValue::default() },
                attribute("empty", list(vec![])),
            ],
            json([]),
        ),
    ];
    let (sets, expected): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    let stored = attributes_of(&tables, &request(sets).encode_to_vec());
    assert_eq!(stored, expected);
}

/// Scenario: arrays of one type, with gaps, of several types, empty, in each other. Guarantee: the
/// stated type and every element.
#[test]
fn json_attributes_keep_arrays() {
    let tables = Tables::new(AttributeStorage::Json);
    let of = |values: Vec<Option<Any>>| vec![attribute("k", array(values))];
    let cases = vec![
        (
            of(vec![Some(Any::IntValue(1)), None, Some(Any::IntValue(-3))]),
            "Array(Nullable(Int64))",
            vec![Value::Int(1), Value::Null, Value::Int(-3)],
        ),
        (of(vec![Some(text("a"))]), "Array(Nullable(String))", vec![string("a")]),
        (of(vec![]), "Array(Nullable(String))", vec![]),
        (
            of(vec![Some(Any::DoubleValue(0.5))]),
            "Array(Nullable(Float64))",
            vec![Value::Float(0.5_f64.to_bits())],
        ),
        (of(vec![Some(Any::BoolValue(true))]), "Array(Nullable(Bool))", vec![Value::Bool(true)]),
        (
            of(vec![Some(text("a")), Some(array(vec![Some(Any::IntValue(2))])), None]),
            "Array(Dynamic)",
            vec![
                Value::Dynamic("String".into(), Box::new(string("a"))),
                Value::Dynamic("String".into(), Box::new(string("[2]"))),
                Value::Null,
            ],
        ),
    ];
    let expected: Vec<Value> = cases
        .iter()
        .map(|(_, ty, values)| json([("k", *ty, Value::Array(values.clone()))]))
        .collect();
    let sets = cases.into_iter().map(|(set, ..)| set).collect();
    assert_eq!(attributes_of(&tables, &request(sets).encode_to_vec()), expected);
}

/// Scenario: lists nested to the configured depth, one deeper, and far deeper than any limit, as
/// only a writer past the edge can send them. Guarantee: paths, then JSON text, then `null`.
#[test]
fn nesting_ends_where_it_is_said_to() {
    let mut tables = Tables::new(AttributeStorage::Json);
    tables.options.nested_depth = 2;
    let deep = |depth| vec![attribute("k", nested(Any::IntValue(1), depth))];
    let stored = attributes_of(
        &tables,
        &request(vec![deep(1), deep(2), deep(3), deep(4), deep(90)]).encode_to_vec(),
    );
    // Thirty levels of text behind the two of paths, then a value that is left out.
    let deepest = format!("{}null{}", r#"{"n":"#.repeat(30), "}".repeat(30));
    assert_eq!(
        stored,
        [
            json([("k.n", "Int64", Value::Int(1))]),
            json([("k.n.n", "Int64", Value::Int(1))]),
            json([("k.n.n", "String", string(r#"{"n":1}"#))]),
            json([("k.n.n", "String", string(r#"{"n":{"n":1}}"#))]),
            json([("k.n.n", "String", string(deepest))]),
        ]
    );
}

/// Scenario: the same oddities as Map attributes. Guarantee: every value is text, repeated keys are
/// kept, nothing is left out.
#[test]
fn map_attributes_are_text_and_keep_repeated_keys() {
    let tables = Tables::new(AttributeStorage::Map);
    let set = vec![
        attribute("k", text("first")),
        attribute("k", Any::BoolValue(false)),
        attribute("", Any::IntValue(-7)),
        attribute("a.b", Any::DoubleValue(2.0)),
        attribute("large", Any::DoubleValue(1e21)),
        attribute("nan", Any::DoubleValue(f64::NAN)),
        attribute("bytes", Any::BytesValue(vec![0, 255])),
        attribute("array", array(vec![Some(Any::IntValue(1)), None, Some(text("x"))])),
        attribute("list", list(vec![attribute("m", Any::BoolValue(true))])),
        KeyValue { key: "none".into(), value: None, ..KeyValue::default() },
    ];
    let pairs = [
        ("k", "first"),
        ("k", "false"),
        ("", "-7"),
        ("a.b", "2"),
        ("large", "1e+21"),
        ("nan", "NaN"),
        ("bytes", "AP8="),
        ("array", r#"[1,null,"x"]"#),
        ("list", r#"{"m":true}"#),
        ("none", ""),
    ];
    let expected = Value::Map(pairs.map(|(k, v)| (string(k), string(v))).to_vec());
    assert_eq!(attributes_of(&tables, &request(vec![set]).encode_to_vec()), [expected]);
}

/// Scenario: bytes that aren't UTF-8 as a key, a value and a span's name: a gateway's topic may
/// hold them, though an edge refuses them. Guarantee: the same bytes are stored, in both variants.
#[test]
fn bytes_that_are_not_utf8_are_kept() {
    for attributes in [AttributeStorage::Json, AttributeStorage::Map] {
        let tables = Tables::new(attributes);
        let mut bytes = request(vec![vec![attribute("?key", text("?value"))]]).encode_to_vec();
        for byte in &mut bytes {
            if *byte == b'?' {
                *byte = 0xff;
            }
        }
        let expected = match attributes {
            AttributeStorage::Json => Value::Json(
                [(b"\xffkey".to_vec(), ("String".to_owned(), string(b"\xffvalue")))].into(),
            ),
            AttributeStorage::Map => Value::Map(vec![(string(b"\xffkey"), string(b"\xffvalue"))]),
        };
        assert_eq!(attributes_of(&tables, &bytes), [expected]);
    }
}

fn spans(times: &[(u64, u64)]) -> Vec<u8> {
    let span = |(n, &(start, end)): (usize, &(u64, u64))| Span {
        name: format!("{n:05}"),
        start_time_unix_nano: start,
        end_time_unix_nano: end,
        ..Span::default()
    };
    let spans = times.iter().enumerate().map(span).collect();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// Scenario: times of zero, at and past the end of `DateTime64(9)`, past the end of the server's
/// 16 bits of days, and a span that ends before it starts. Guarantee: zero is 1970, what is too
/// late is the last instant, a negative duration is 0; no insert touches two partitions.
#[test]
fn odd_times_are_stored_as_stated() {
    let tables = Tables::new(AttributeStorage::Json);
    let wrapped = NOW + 65_536 * NANOS_PER_DAY;
    let times = [(0, 1), (u64::MAX, u64::MAX), (NOW, NOW - 5), (wrapped, wrapped + 9)];
    send(&tables, Signal::Traces, &spans(&times));
    assert_eq!(
        tables.query(
            "SELECT toUnixTimestamp64Nano(Timestamp), Duration FROM otel.otel_traces \
             ORDER BY SpanName"
        ),
        format!("0\t1\n{}\t0\n{NOW}\t0\n{wrapped}\t9", i64::MAX),
    );
}

/// Scenario: log records with bodies of every type, with an event's name, and with each
/// combination of times. Guarantee: text as it is, other values as JSON writes them; a record
/// without a time has the time it was observed at, one without either is of 1970.
#[test]
fn log_bodies_and_times_are_stored_as_stated() {
    let tables = Tables::new(AttributeStorage::Json);
    let bodies = [
        (None, ""),
        (Some(text("plain \"text\"")), "plain \"text\""),
        (Some(Any::BoolValue(true)), "true"),
        (Some(Any::IntValue(-1)), "-1"),
        (Some(Any::DoubleValue(2.0)), "2"),
        (Some(Any::BytesValue(vec![1, 2])), "AQI="),
        (Some(array(vec![Some(Any::IntValue(1)), Some(text("x"))])), r#"[1,"x"]"#),
        (Some(list(vec![attribute("k", text("v"))])), r#"{"k":"v"}"#),
    ];
    let times = [(NOW, NOW + 1), (0, NOW), (0, 0)];
    let records: Vec<LogRecord> = bodies
        .iter()
        .enumerate()
        .map(|(n, (body, _))| LogRecord {
            time_unix_nano: times[n % 3].0,
            observed_time_unix_nano: times[n % 3].1,
            severity_number: 9,
            event_name: format!("event.{n}"),
            body: body.clone().map(|value| AnyValue { value: Some(value) }),
            ..LogRecord::default()
        })
        .collect();
    let scope_logs = vec![ScopeLogs { log_records: records, ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let request = ExportLogsServiceRequest { resource_logs };
    send(&tables, Signal::Logs, &request.encode_to_vec());
    let stored = tables.query(
        "SELECT EventName, toUnixTimestamp64Nano(Timestamp), hex(Body) FROM otel.otel_logs \
         ORDER BY EventName",
    );
    let hex = |body: &str| body.bytes().map(|byte| format!("{byte:02X}")).collect::<String>();
    let line = |(n, (_, body)): (usize, &(Option<Any>, &str))| {
        format!("event.{n}\t{}\t{}", [NOW, NOW, 0][n % 3], hex(body))
    };
    let expected: Vec<String> = bodies.iter().enumerate().map(line).collect();
    assert_eq!(stored, expected.join("\n"));
}

/// Scenario: histograms with more bounds than counts, with counts and no bounds, with counts that
/// don't add up, with neither. Guarantee: stored as they came, neighbours whole.
#[test]
fn histograms_whose_bounds_and_counts_disagree_are_stored_as_they_came() {
    let tables = Tables::new(AttributeStorage::Json);
    let shapes: [(u64, &[u64], &[f64]); 4] =
        [(3, &[1, 2], &[0.5, 1.5, 2.5]), (9, &[4, 5], &[]), (100, &[1], &[1.0]), (7, &[], &[])];
    let points = shapes
        .iter()
        .enumerate()
        .map(|(n, (count, counts, bounds))| HistogramDataPoint {
            time_unix_nano: NOW + n as u64,
            count: *count,
            bucket_counts: counts.to_vec(),
            explicit_bounds: bounds.to_vec(),
            ..HistogramDataPoint::default()
        })
        .collect();
    let metric = Metric {
        name: "odd".into(),
        data: Some(Data::Histogram(Histogram { data_points: points, aggregation_temporality: 2 })),
        ..Metric::default()
    };
    let scope_metrics = vec![ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics { scope_metrics, ..ResourceMetrics::default() }];
    let request = ExportMetricsServiceRequest { resource_metrics };
    send(&tables, Signal::Metrics, &request.encode_to_vec());
    assert_eq!(
        tables.query(
            "SELECT Count, BucketCounts, ExplicitBounds FROM otel.otel_metrics_histogram \
             ORDER BY TimeUnix"
        ),
        "3\t[1,2]\t[0.5,1.5,2.5]\n9\t[4,5]\t[]\n100\t[1]\t[1]\n7\t[]\t[]"
    );
}

/// Scenario: ids of odd lengths and of zeros, as a lax writer to Kafka may send them. Guarantee:
/// zeros are no id; of others every digit is kept.
#[test]
fn odd_ids_are_kept_whole() {
    let tables = Tables::new(AttributeStorage::Json);
    let ids: [(Vec<u8>, &str); 4] = [
        (vec![0; 16], ""),
        (vec![0, 0x0a, 0xff], "000aff"),
        (vec![0x11; 20], "1111111111111111111111111111111111111111"),
        (vec![0xab; 16], "abababababababababababababababab"),
    ];
    let span = |(n, (id, _)): (usize, &(Vec<u8>, &str))| Span {
        name: format!("{n}"),
        trace_id: id.clone(),
        span_id: id.clone(),
        ..Span::default()
    };
    let spans = ids.iter().enumerate().map(span).collect();
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
    let request = ExportTraceServiceRequest { resource_spans };
    send(&tables, Signal::Traces, &request.encode_to_vec());
    let ids_in_bars = "concat('|', TraceId, '|', SpanId, '|')";
    let stored =
        tables.query(&format!("SELECT {ids_in_bars} FROM otel.otel_traces ORDER BY SpanName"));
    let expected: Vec<String> = ids.iter().map(|(_, id)| format!("|{id}|{id}|")).collect();
    assert_eq!(stored, expected.join("\n"));
}
