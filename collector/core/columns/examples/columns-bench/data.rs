//! Seeded requests for measurements: the same in every run and on every machine.

use millrace_wire::Signal;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint,
    Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
    exponential_histogram_data_point::Buckets, metric::Data, number_data_point,
    summary_data_point::ValueAtQuantile,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status, span::Event};
use prost::Message;

use crate::attribute::{make_attribute, text_attribute};
use crate::mixed;

/// Records per batch: those of one insert of a gateway.
const BATCH_RECORDS: usize = 100_000;

pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) signal: Signal,
    pub(crate) requests: Vec<Vec<u8>>,
    pub(crate) records: usize,
    /// The same records without any attributes, to measure what attributes cost.
    pub(crate) bare: Vec<Vec<u8>>,
}

/// Returns the data sets: lean, rich and mixed spans, logs, points of all five kinds of metrics
/// with two attributes, and with eight in no order.
pub(crate) fn build_cases() -> Vec<Case> {
    let case = |name, signal, per_request: usize, make: &dyn Fn(usize, bool) -> Vec<u8>| {
        let requests = |full: bool| -> Vec<Vec<u8>> {
            (0..BATCH_RECORDS / per_request).map(|n| make(n, full)).collect()
        };
        let records = BATCH_RECORDS / per_request * per_request;
        Case { name, signal, records, requests: requests(true), bare: requests(false) }
    };
    vec![
        case("lean", Signal::Traces, 1000, &|n, full| {
            trace_request(n, 2 * usize::from(full), &|number| {
                regular_attributes(number, usize::from(full))
            })
        }),
        case("rich", Signal::Traces, 1000, &|n, full| {
            trace_request(n, 6 * usize::from(full), &|number| {
                regular_attributes(number, 15 * usize::from(full))
            })
        }),
        case("mixed", Signal::Traces, 1000, &|n, full| {
            let set = |number| if full { mixed::span_attributes(number) } else { Vec::new() };
            trace_request(n, 6 * usize::from(full), &set)
        }),
        case("logs", Signal::Logs, 1000, &log_request),
        case("metrics", Signal::Metrics, 500, &|n, full| {
            metric_request(n, full, &point_attributes)
        }),
        case("series", Signal::Metrics, 500, &|n, full| {
            metric_request(n, full, &series_attributes)
        }),
    ]
}

/// A small pseudo-random generator (splitmix64): the data is the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn next_id<const N: usize>(&mut self) -> Vec<u8> {
        (0..N).map(|_| self.next() as u8).collect()
    }
}

fn make_resource(index: usize, attributes: usize) -> Option<Resource> {
    const KEYS: [&str; 5] =
        ["host.name", "k8s.pod.name", "k8s.namespace.name", "deployment.environment", "host.arch"];
    let mut set = vec![text_attribute("service.name", format!("checkout-{index}"))];
    set.extend(KEYS.iter().map(|key| text_attribute(key, format!("{key}-{index:04}"))));
    set.truncate(attributes);
    Some(Resource { attributes: set, ..Resource::default() })
}

fn make_scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: "io.millrace.bench".into(),
        version: "1.2.3".into(),
        ..InstrumentationScope::default()
    })
}

const START: u64 = 1_790_000_000_000_000_000;

/// Returns attributes of all kinds in turn, with the same keys in each span.
fn regular_attributes(number: u64, attributes: usize) -> Vec<KeyValue> {
    let set = (0..attributes).map(|index| match index % 5 {
        0 => make_attribute(
            &format!("loadgen.message_{index}"),
            Value::IntValue((number % 100_000) as i64),
        ),
        1 => text_attribute(
            &format!("http.request.header_{index}"),
            format!("value-{}", number % 1000),
        ),
        2 => make_attribute(&format!("rpc.ratio_{index}"), Value::DoubleValue(number as f64 / 7.0)),
        3 => make_attribute(
            &format!("cache.hit_{index}"),
            Value::BoolValue(number.is_multiple_of(2)),
        ),
        _ => text_attribute(
            &format!("url.path_{index}"),
            format!("/api/v1/items/{}", number % 10_000),
        ),
    });
    set.collect()
}

fn make_span(random: &mut Random, attributes: &dyn Fn(u64) -> Vec<KeyValue>, time: u64) -> Span {
    let number = random.next();
    Span {
        trace_id: random.next_id::<16>(),
        span_id: random.next_id::<8>(),
        trace_state: "active".into(),
        name: format!("operation-{:03}", number % 200),
        kind: 2,
        start_time_unix_nano: time,
        end_time_unix_nano: time + number % 5_000_000,
        attributes: attributes(number),
        events: vec![Event {
            time_unix_nano: time + 1000,
            name: "event".into(),
            ..Event::default()
        }],
        status: Some(Status { code: 1, ..Status::default() }),
        ..Span::default()
    }
}

fn trace_request(
    request: usize,
    resource_attributes: usize,
    attributes: &dyn Fn(u64) -> Vec<KeyValue>,
) -> Vec<u8> {
    let mut random = Random(request as u64);
    let resource_spans = (0..10)
        .map(|index| ResourceSpans {
            resource: make_resource(index, resource_attributes),
            scope_spans: vec![ScopeSpans {
                scope: make_scope(),
                spans: (0..100)
                    .map(|n| {
                        make_span(
                            &mut random,
                            attributes,
                            START + (request * 1000 + n) as u64 * 1000,
                        )
                    })
                    .collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        })
        .collect();
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn log_request(request: usize, full: bool) -> Vec<u8> {
    let mut random = Random(request as u64);
    let mut record = |n: usize| {
        let number = random.next();
        let time = START + (request * 1000 + n) as u64 * 1000;
        LogRecord {
            time_unix_nano: time,
            observed_time_unix_nano: time + 10,
            severity_number: 9,
            severity_text: "INFO".into(),
            body: Some(AnyValue {
                value: Some(Value::StringValue(format!(
                    "request {number:016x} served for customer {} in {} us: items looked up, \
                     prices computed, answer sent to 10.0.{}.{}",
                    number % 10_000,
                    number % 9973,
                    number % 256,
                    number / 256 % 256
                ))),
            }),
            attributes: if full { log_attributes(number) } else { Vec::new() },
            trace_id: random.next_id::<16>(),
            span_id: random.next_id::<8>(),
            ..LogRecord::default()
        }
    };
    let resource_logs = (0..10)
        .map(|index| ResourceLogs {
            resource: make_resource(index, 3 * usize::from(full)),
            scope_logs: vec![ScopeLogs {
                scope: make_scope(),
                log_records: (0..100).map(&mut record).collect(),
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        })
        .collect();
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

fn log_attributes(number: u64) -> Vec<KeyValue> {
    vec![
        text_attribute("log.file.name", "checkout.log"),
        text_attribute("thread.name", format!("worker-{}", number % 16)),
        make_attribute("http.response.status_code", Value::IntValue(200)),
    ]
}

fn metric_request(
    request: usize,
    full: bool,
    attributes: &dyn Fn(u64) -> Vec<KeyValue>,
) -> Vec<u8> {
    let mut random = Random(request as u64);
    let time = START + request as u64 * 1_000_000;
    let resource_metrics = (0..10)
        .map(|index| ResourceMetrics {
            resource: make_resource(index, 3 * usize::from(full)),
            scope_metrics: vec![ScopeMetrics {
                scope: make_scope(),
                metrics: (0..5)
                    .map(|kind| {
                        let set = |n: u64| if full { attributes(n) } else { Vec::new() };
                        make_metric(&mut random, kind, time, &set)
                    })
                    .collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        })
        .collect();
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

/// Returns two attributes in the order of their keys, as sorting SDKs and Prometheus list them.
fn point_attributes(number: u64) -> Vec<KeyValue> {
    vec![text_attribute("method", "GET"), text_attribute("route", format!("/api/{}", number % 50))]
}

/// Returns eight attributes in no order, as a library lists them.
fn series_attributes(number: u64) -> Vec<KeyValue> {
    vec![
        text_attribute("http.request.method", "GET"),
        text_attribute("url.scheme", "https"),
        text_attribute("network.protocol.name", "http"),
        text_attribute("network.protocol.version", "1.1"),
        text_attribute("http.route", format!("/api/{}", number % 50)),
        make_attribute("http.response.status_code", Value::IntValue(200)),
        text_attribute("server.address", "shop.example.com"),
        make_attribute("server.port", Value::IntValue(443)),
    ]
}

/// Returns a metric with ten points of one of the five kinds.
fn make_metric(
    random: &mut Random,
    kind: usize,
    time: u64,
    attributes: &dyn Fn(u64) -> Vec<KeyValue>,
) -> Metric {
    let mut number = |n: u64| NumberDataPoint {
        attributes: attributes(n),
        start_time_unix_nano: START,
        time_unix_nano: time,
        value: Some(number_data_point::Value::AsDouble(random.next() as f64 / 3.0)),
        ..NumberDataPoint::default()
    };
    let numbers: Vec<NumberDataPoint> = (0..10).map(&mut number).collect();
    let bounds: Vec<f64> = (0..10).map(f64::from).collect();
    let data = match kind {
        0 => Data::Gauge(Gauge { data_points: numbers }),
        1 => {
            Data::Sum(Sum { data_points: numbers, aggregation_temporality: 2, is_monotonic: true })
        }
        2 => Data::Histogram(Histogram {
            aggregation_temporality: 2,
            data_points: (0..10)
                .map(|n| HistogramDataPoint {
                    attributes: attributes(n),
                    start_time_unix_nano: START,
                    time_unix_nano: time,
                    count: 66,
                    sum: Some(123.5),
                    bucket_counts: (0..11).collect(),
                    explicit_bounds: bounds.clone(),
                    ..HistogramDataPoint::default()
                })
                .collect(),
        }),
        3 => Data::ExponentialHistogram(ExponentialHistogram {
            aggregation_temporality: 2,
            data_points: (0..10)
                .map(|n| ExponentialHistogramDataPoint {
                    attributes: attributes(n),
                    start_time_unix_nano: START,
                    time_unix_nano: time,
                    count: 66,
                    scale: 3,
                    positive: Some(Buckets { offset: -2, bucket_counts: (0..20).collect() }),
                    ..ExponentialHistogramDataPoint::default()
                })
                .collect(),
        }),
        _ => Data::Summary(Summary {
            data_points: (0..10)
                .map(|n| SummaryDataPoint {
                    attributes: attributes(n),
                    start_time_unix_nano: START,
                    time_unix_nano: time,
                    count: 66,
                    sum: 1.5,
                    quantile_values: [0.5, 0.9, 0.99]
                        .map(|quantile| ValueAtQuantile { quantile, value: 7.0 })
                        .to_vec(),
                    ..SummaryDataPoint::default()
                })
                .collect(),
        }),
    };
    Metric {
        name: format!("bench.metric.{kind}"),
        description: "A metric to measure with".into(),
        unit: "ms".into(),
        data: Some(data),
        ..Metric::default()
    }
}
