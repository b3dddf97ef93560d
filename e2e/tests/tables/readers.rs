//! What readers ask of the tables made for them: every query of `docs/readers.md`, what Grafana's
//! plugin writes, and what HyperDX looks for, on the same records in each reader's tables.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::tables::columns::tables::{Tables, attribute};
use millrace_columns::BlockSet;
use millrace_ddl::{Layout, Reader};
use millrace_schema::AttributeStorage;
use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

const READERS: [Reader; 3] = [Reader::Otel, Reader::Otel151, Reader::ClickStack];
const PAGE: &str = include_str!("../../../docs/readers.md");
/// The trace that the page asks for.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SECOND: u64 = 1_000_000_000;

fn text(value: &str) -> Any {
    Any::StringValue(value.to_owned())
}

fn resource(service: &str) -> Option<Resource> {
    let attributes = vec![
        attribute("service.name", text(service)),
        attribute("k8s.namespace.name", text("shop")),
        attribute("k8s.pod.name", text(&format!("{service}-1"))),
    ];
    Some(Resource { attributes, ..Resource::default() })
}

fn trace_id(number: u64) -> Vec<u8> {
    if number == 7 {
        return (0..16)
            .map(|at| u8::from_str_radix(&TRACE[at * 2..at * 2 + 2], 16).unwrap())
            .collect();
    }
    u128::from(number + 1).to_be_bytes().to_vec()
}

/// The times of forty records, the last one a minute ago.
fn times() -> Vec<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    (0..40).map(|number| now - (60 + 10 * (40 - number)) * SECOND).collect()
}

fn spans(times: &[u64]) -> Vec<u8> {
    let of = |service: &str, kind: i32| {
        let spans = times.iter().enumerate().map(|(number, time)| Span {
            trace_id: trace_id(number as u64),
            span_id: vec![number as u8 + 1 + 100 * kind as u8; 8],
            name: format!("POST /{service}"),
            kind,
            start_time_unix_nano: *time,
            end_time_unix_nano: time + (number as u64 + 1) * 1_000_000,
            attributes: vec![attribute("http.route", text("/orders/{id}"))],
            status: (number % 10 == 3).then(|| Status { code: 2, ..Status::default() }),
            ..Span::default()
        });
        let scope_spans = vec![ScopeSpans { spans: spans.collect(), ..ScopeSpans::default() }];
        ResourceSpans { resource: resource(service), scope_spans, ..ResourceSpans::default() }
    };
    let resource_spans = vec![of("checkout", 2), of("payment", 1)];
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn logs(times: &[u64]) -> Vec<u8> {
    let records = times.iter().enumerate().map(|(number, time)| {
        let (severity_number, severity, body) = match number % 4 {
            0 => (17, "ERROR", format!("Timeout of order {number}")),
            _ => (9, "INFO", format!("order {number} taken")),
        };
        let kind = [text("gift"), text("plain"), text("plain")][number % 3].clone();
        let attributes = match number % 5 {
            0 => Vec::new(),
            _ => vec![attribute("order.kind", kind)],
        };
        LogRecord {
            time_unix_nano: *time,
            trace_id: trace_id(number as u64),
            severity_number,
            severity_text: severity.to_owned(),
            body: Some(AnyValue { value: Some(text(&body)) }),
            attributes,
            ..LogRecord::default()
        }
    });
    let scope_logs = vec![ScopeLogs { log_records: records.collect(), ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs {
        resource: resource("checkout"),
        scope_logs,
        ..ResourceLogs::default()
    }];
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

/// A counter that starts anew in the middle, and a gauge.
fn points(times: &[u64]) -> Vec<u8> {
    let value = |number: usize, value: u64| {
        let start = if number < 20 { times[0] - SECOND } else { times[20] - SECOND };
        NumberDataPoint {
            time_unix_nano: times[number],
            start_time_unix_nano: start,
            value: Some(number_data_point::Value::AsDouble(value as f64)),
            attributes: vec![attribute("http.route", text("/orders/{id}"))],
            ..NumberDataPoint::default()
        }
    };
    let all = || 0..times.len();
    let sum = Sum {
        data_points: all().map(|number| value(number, 5 * (number as u64 % 20 + 1))).collect(),
        aggregation_temporality: 2,
        is_monotonic: true,
    };
    let gauge = Gauge { data_points: all().map(|number| value(number, number as u64)).collect() };
    let named =
        |name: &str, data| Metric { name: name.to_owned(), data: Some(data), ..Metric::default() };
    let metrics = vec![
        named("http.server.requests", metric::Data::Sum(sum)),
        named("queue.length", metric::Data::Gauge(gauge)),
    ];
    let scope_metrics = vec![ScopeMetrics { metrics, ..ScopeMetrics::default() }];
    let resource_metrics = vec![ResourceMetrics {
        resource: resource("checkout"),
        scope_metrics,
        ..ResourceMetrics::default()
    }];
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

/// One reader's tables with the records.
fn filled(reader: Reader, attributes: AttributeStorage, times: &[u64]) -> Tables {
    let tables = Tables::laid_out(attributes, Layout { reader, ..Layout::default() });
    // Those that alter tables are of Map attributes.
    let made = blocks().filter(|block| match attributes {
        AttributeStorage::Map => is_ddl(block),
        AttributeStorage::Json => block.starts_with("CREATE"),
    });
    made.for_each(|statement| drop(tables.query(statement)));
    for (signal, request) in [
        (Signal::Traces, spans(times)),
        (Signal::Logs, logs(times)),
        (Signal::Metrics, points(times)),
    ] {
        let mut set = BlockSet::new(signal, &tables.options);
        set.append(&request).unwrap();
        tables.send(&mut set);
    }
    tables
}

fn blocks() -> impl Iterator<Item = &'static str> {
    PAGE.split("```sql\n").skip(1).map(|block| block.split("```").next().unwrap().trim())
}

fn is_ddl(block: &str) -> bool {
    block.starts_with("CREATE") || block.starts_with("ALTER")
}

/// The page's queries.
fn queries() -> Vec<&'static str> {
    blocks().filter(|block| !is_ddl(block)).collect()
}

/// A query for JSON attributes, by the page's own rule.
fn for_json(query: &str) -> String {
    let mut sql = query.to_owned();
    for column in ["ResourceAttributes", "LogAttributes", "SpanAttributes"] {
        while let Some(at) = sql.find(&format!("mapContains({column}, '")) {
            let rest = &sql[at + "mapContains(".len() + column.len() + 3..];
            let (key, after) = rest.split_once("')").unwrap();
            sql = format!("{}isNotNull({column}.`{key}`){after}", &sql[..at]);
        }
        while let Some(at) = sql.find(&format!("{column}['")) {
            let rest = &sql[at + column.len() + 2..];
            let (key, after) = rest.split_once("']").unwrap();
            let head = &sql[..at];
            sql = format!("{head}ifNull(toString({column}.`{key}`), ''){after}");
        }
    }
    sql
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

/// Scenario: the page's queries of the same records in each reader's tables, with Map and with JSON
/// attributes. Guarantee: each has an answer, and it is the same everywhere. Slow: six engines
/// start, one for each reader and variant.
#[test]
fn every_query_of_the_page_has_one_answer_in_all_tables() {
    let times = times();
    let mut first: Option<Vec<String>> = None;
    for attributes in [AttributeStorage::Map, AttributeStorage::Json] {
        for reader in READERS {
            let tables = filled(reader, attributes, &times);
            let sql = |query: &&str| match attributes {
                AttributeStorage::Map => (*query).to_owned(),
                AttributeStorage::Json => for_json(query),
            };
            let answers: Vec<String> =
                queries().iter().map(|query| tables.query(&sql(query))).collect();
            let wanted = first.get_or_insert_with(|| answers.clone());
            for (query, (answer, wanted)) in queries().iter().zip(answers.iter().zip(&*wanted)) {
                assert!(!answer.trim().is_empty(), "{reader:?} {attributes:?}: {query}");
                assert_eq!(answer, wanted, "{reader:?} {attributes:?}: {query}");
            }
        }
    }
    let answers = first.unwrap();
    assert_eq!(queries().len(), 10);
    assert_eq!(answers[0].lines().count(), 2, "{}", answers[0]);
    assert!(answers[2].starts_with("checkout\t40\t4\t"), "{}", answers[2]);
    let increase = answers[7].lines().map(|line| line.rsplit('\t').next().unwrap());
    let increase: f64 = increase.map(|requests| requests.parse::<f64>().unwrap()).sum();
    assert_eq!((increase, answers[8].as_str()), (200.0, "checkout\t39"));
    let rolled_up = |column: usize| -> u64 {
        answers[9].lines().map(|line| line.split('\t').nth(column).unwrap()).map(number).sum()
    };
    assert_eq!((rolled_up(2), rolled_up(3)), (40, 4), "{}", answers[9]);
}

/// Scenario: what Grafana's plugin writes in its OpenTelemetry mode for logs, for a list of traces
/// and for one trace, and lists of attributes' keys. Guarantee: each table answers. Slow: three
/// engines start, one for each reader.
#[test]
fn grafanas_queries_are_answered() {
    let times = times();
    let around = "Timestamp >= now64(9) - INTERVAL 1 HOUR AND Timestamp <= now64(9)";
    let one = format!(
        "WITH '{TRACE}' AS trace_id, (SELECT min(Start) FROM \"otel\".\"otel_traces_trace_id_ts\" \
         WHERE TraceId = trace_id) AS trace_start, (SELECT max(End) + 1 FROM \
         \"otel\".\"otel_traces_trace_id_ts\" WHERE TraceId = trace_id) AS trace_end SELECT \
         \"TraceId\" AS traceID, \"SpanId\" AS spanID, \"ParentSpanId\" AS parentSpanID, \
         \"ServiceName\" AS serviceName, \"SpanName\" AS operationName, \
         multiply(toUnixTimestamp64Nano(\"Timestamp\"), 0.000001) AS startTime, \
         multiply(\"Duration\", 0.000001) AS duration, arrayMap(key -> map('key', key, 'value', \
         \"SpanAttributes\"[key]), mapKeys(\"SpanAttributes\")) AS tags, arrayMap(key -> \
         map('key', key, 'value', \"ResourceAttributes\"[key]), mapKeys(\"ResourceAttributes\")) \
         AS serviceTags, if(\"StatusCode\" IN ('Error', 'STATUS_CODE_ERROR'), 2, 0) AS statusCode \
         FROM \"otel\".\"otel_traces\" WHERE traceID = trace_id AND \"Timestamp\" >= trace_start \
         AND \"Timestamp\" <= trace_end LIMIT 1000"
    );
    let queries = [
        (
            format!(
                "SELECT Timestamp AS \"timestamp\", Body AS \"body\", SeverityText AS \"level\", \
                 LogAttributes AS \"labels\", TraceId AS \"traceID\" FROM \"otel\".\"otel_logs\" \
                 WHERE {around} ORDER BY timestamp DESC LIMIT 1000"
            ),
            40,
        ),
        (
            format!(
                "SELECT TraceId AS \"traceID\", ServiceName AS \"serviceName\", SpanName AS \
                 \"operationName\", Timestamp AS \"startTime\", multiply(Duration, 0.000001) AS \
                 \"duration\" FROM \"otel\".\"otel_traces\" WHERE {around} AND ParentSpanId = '' \
                 AND Duration > 0 ORDER BY Timestamp DESC, Duration DESC LIMIT 1000"
            ),
            80,
        ),
        (one, 2),
        (
            "SELECT DISTINCT arrayJoin(mapKeys(LogAttributes)) AS keys FROM \
             \"otel\".\"otel_logs\" LIMIT 1000"
                .to_owned(),
            1,
        ),
    ];
    for reader in READERS {
        let tables = filled(reader, AttributeStorage::Map, &times);
        for (query, rows) in &queries {
            assert_eq!(tables.query(query).lines().count(), *rows, "{reader:?}: {query}");
        }
    }
}

/// Scenario: log records inserted as gateways do, indexes left to merges; searches before and after
/// the first merge. Guarantee: the inserted part has no index, the merged one has; searches find the
/// same. Slow: three engines start, one for each reader.
#[test]
fn searches_find_the_same_before_indexes_are_built() {
    for reader in READERS {
        let tables =
            Tables::laid_out(AttributeStorage::Map, Layout { reader, ..Layout::default() });
        tables.query("SYSTEM STOP MERGES");
        let mut set = BlockSet::new(Signal::Logs, &tables.options);
        set.append(&logs(&times())).unwrap();
        tables.send_with(&mut set, "&materialize_skip_indexes_on_insert=0");
        let index_bytes = || {
            tables.query(
                "SELECT sum(secondary_indices_compressed_bytes) > 0 FROM system.parts WHERE \
                 active AND database = 'otel' AND table = 'otel_logs'",
            )
        };
        let found = || {
            [
                "hasToken(lower(Body), 'timeout')",
                "hasToken(Body, 'Timeout')",
                "mapContains(LogAttributes, 'order.kind')",
                &format!("TraceId = '{TRACE}'"),
            ]
            .map(|search| {
                tables.query(&format!("SELECT count() FROM otel.otel_logs WHERE {search}"))
            })
        };
        assert_eq!(index_bytes(), "0", "{reader:?}");
        assert_eq!(found(), ["10", "10", "32", "1"]);
        tables.query("SYSTEM START MERGES");
        tables.query("OPTIMIZE TABLE otel.otel_logs FINAL");
        assert_eq!(index_bytes(), "1", "{reader:?}");
        assert_eq!(found(), ["10", "10", "32", "1"]);
    }
}

/// Scenario: the page's columns of items; an attribute's value, asked for by key and as HyperDX
/// rewrites it, in logs and spans. Guarantee: both find the same rows, the second by the index.
#[test]
fn attributes_are_found_by_the_pages_items() {
    let tables = filled(Reader::ClickStack, AttributeStorage::Map, &times());
    for (table, column, key, value) in [
        ("otel_logs", "LogAttribute", "order.kind", "gift"),
        ("otel_logs", "ResourceAttribute", "k8s.pod.name", "checkout-1"),
        ("otel_traces", "SpanAttribute", "http.route", "/orders/{id}"),
        ("otel_traces", "ResourceAttribute", "k8s.pod.name", "payment-1"),
    ] {
        tables.query(&format!("OPTIMIZE TABLE otel.{table} FINAL"));
        let count = |condition: &str| {
            tables.query(&format!("SELECT count() FROM otel.{table} WHERE {condition}"))
        };
        let by_key = count(&format!("{column}s['{key}'] = '{value}'"));
        let condition = format!("has({column}Items, concat('{key}', '=', '{value}'))");
        assert_ne!(by_key, "0");
        assert_eq!(count(&condition), by_key, "{table} {column}");
        let plan = tables.query(&format!(
            "EXPLAIN indexes = 1 SELECT count() FROM otel.{table} WHERE {condition}"
        ));
        assert!(plan.contains("_attr_items"), "{plan}");
    }
}

/// What HyperDX takes a table of logs, or of spans, by; and one of points.
const LOG_COLUMNS: &str =
    "Timestamp Body SeverityText TraceId SpanId ServiceName LogAttributes ResourceAttributes";
const SPAN_COLUMNS: &str = "Timestamp SpanName Duration SpanKind TraceId SpanId ParentSpanId \
     ServiceName SpanAttributes ResourceAttributes StatusCode StatusMessage Events.Timestamp";
const POINT_COLUMNS: &str = "TimeUnix ServiceName MetricName Attributes ResourceAttributes";

/// Scenario: the columns that HyperDX knows tables by, and the first time in the primary key, by
/// which it cuts queries. Guarantee: all are there; the time is the one that the page names. Slow:
/// three engines start, one for each reader.
#[test]
fn hyperdx_takes_the_tables_by_itself() {
    for reader in READERS {
        let tables =
            Tables::laid_out(AttributeStorage::Map, Layout { reader, ..Layout::default() });
        for (table, wanted) in [
            ("otel_logs", LOG_COLUMNS),
            ("otel_traces", SPAN_COLUMNS),
            ("otel_metrics_gauge", POINT_COLUMNS),
            ("otel_metrics_sum", POINT_COLUMNS),
            ("otel_metrics_histogram", POINT_COLUMNS),
            ("otel_metrics_exponential_histogram", POINT_COLUMNS),
            ("otel_metrics_summary", POINT_COLUMNS),
        ] {
            let said = tables.query(&format!(
                "SELECT name FROM system.columns WHERE database = 'otel' AND table = '{table}'"
            ));
            let columns: BTreeSet<&str> = said.lines().collect();
            let missing: Vec<&str> =
                wanted.split(' ').filter(|name| !columns.contains(name)).collect();
            assert!(missing.is_empty(), "{reader:?}: {table} has no {missing:?}");
        }
        let time = tables.query(
            "SELECT name FROM system.columns WHERE database = 'otel' AND table = 'otel_logs' AND \
             is_in_primary_key AND type LIKE 'DateTime%' ORDER BY position LIMIT 1",
        );
        let wanted = if reader == Reader::Otel151 { "Timestamp" } else { "TimestampTime" };
        assert_eq!(time, wanted, "{reader:?}");
    }
}
