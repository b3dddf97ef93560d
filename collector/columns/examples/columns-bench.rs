//! Prints what each stage between Kafka's bytes and an insert's body costs, as JSON lines.
//!
//! `cargo run --release -p millrace-columns --example columns-bench [case] [seconds] [stage]`
//!
//! Cases are data sets: `lean` (spans of about 120 B), `rich` (6 resource and 15 span attributes),
//! `logs` (300 B), `metrics` (all five kinds). Without one, all are run. Figures are the best of
//! many rounds, in nanoseconds of
//! CPU time per record on one thread, so that a busy machine disturbs little. `--write <file>`
//! writes the lean set's body and stops.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use millrace_columns::{BlockSet, Compression, Options};
use millrace_schema::Attributes;
use millrace_wire::Signal;
use millrace_wire::limits::Limits;
use millrace_wire::otlp;
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

/// Records per batch: what a gateway puts into one insert.
const BATCH_RECORDS: usize = 100_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, file] = arguments.as_slice()
        && flag == "--write"
    {
        let case = cases().into_iter().next().unwrap();
        let mut set = BlockSet::new(case.signal, &Options::default());
        for request in &case.requests {
            set.append(request).unwrap();
        }
        std::fs::write(file, &set.take(Compression::None)[0].body).unwrap();
        return;
    }
    let wanted = arguments.first().map(String::as_str);
    let seconds = arguments.get(1).map_or(2.0, |seconds| seconds.parse().unwrap());
    for case in cases() {
        if wanted.is_none_or(|wanted| wanted == case.name) {
            case.run(Duration::from_secs_f64(seconds), arguments.get(2).map(String::as_str));
        }
    }
}

struct Case {
    name: &'static str,
    signal: Signal,
    requests: Vec<Vec<u8>>,
    records: usize,
}

impl Case {
    fn run(&self, time: Duration, only: Option<&str>) {
        let bytes: usize = self.requests.iter().map(Vec::len).sum();
        self.report("wire_bytes_per_record", bytes as f64 / self.records as f64);
        let limits = Limits::default();
        if only.is_none_or(|only| only == "check") {
            self.measure("check", time, || {
                for request in &self.requests {
                    black_box(otlp::check(self.signal, request, &limits).unwrap());
                }
            });
        }
        for attributes in [Attributes::Json, Attributes::Map] {
            self.run_variant(attributes, time, only);
        }
    }

    fn run_variant(&self, attributes: Attributes, time: Duration, only: Option<&str>) {
        let variant = match attributes {
            Attributes::Json => "json",
            Attributes::Map => "map",
        };
        let mut set = BlockSet::new(self.signal, &Options { attributes, ..Options::default() });
        let stage = format!("{variant}_append");
        if only.is_none_or(|only| only == stage) {
            self.measure(&stage, time, || {
                set.clear();
                for request in &self.requests {
                    black_box(set.append(request).unwrap());
                }
            });
        }
        if only.is_some() {
            return;
        }
        let end = Instant::now() + time;
        let mut best = Duration::MAX;
        let (mut plain, mut body) = (0, 0);
        while Instant::now() < end {
            set.clear();
            for request in &self.requests {
                set.append(request).unwrap();
            }
            let start = ThreadTime::now();
            let inserts = set.take(Compression::Lz4);
            best = best.min(start.elapsed());
            plain = inserts.iter().map(|insert| insert.plain_bytes).sum();
            body = inserts.iter().map(|insert| insert.body.len()).sum();
        }
        let records = self.records as f64;
        let stage = format!("{variant}_assemble_lz4_checksum_ns");
        self.report(&stage, best.as_nanos() as f64 / records);
        self.report(&format!("{variant}_plain_bytes"), plain as f64 / records);
        self.report(&format!("{variant}_body_bytes"), body as f64 / records);
        self.report(&format!("{variant}_held_mib"), set.memory_bytes() as f64 / 1_048_576.0);
    }

    fn measure(&self, stage: &str, time: Duration, mut work: impl FnMut()) {
        let end = Instant::now() + time;
        let mut best = Duration::MAX;
        while Instant::now() < end {
            let start = ThreadTime::now();
            work();
            best = best.min(start.elapsed());
        }
        self.report(&format!("{stage}_ns"), best.as_nanos() as f64 / self.records as f64);
    }

    fn report(&self, figure: &str, value: f64) {
        println!("{{\"case\":\"{}\",\"figure\":\"{figure}\",\"value\":{value:.2}}}", self.name);
    }
}

fn cases() -> Vec<Case> {
    let batch = |name, signal, per_request: usize, make: &dyn Fn(usize) -> Vec<u8>| {
        let requests: Vec<Vec<u8>> = (0..BATCH_RECORDS / per_request).map(make).collect();
        Case { name, signal, records: requests.len() * per_request, requests }
    };
    vec![
        batch("lean", Signal::Traces, 1000, &|n| traces(n, 2, 1)),
        batch("rich", Signal::Traces, 1000, &|n| traces(n, 6, 15)),
        batch("logs", Signal::Logs, 1000, &logs),
        batch("metrics", Signal::Metrics, 500, &metrics),
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

    fn id<const N: usize>(&mut self) -> Vec<u8> {
        (0..N).map(|_| self.next() as u8).collect()
    }
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

fn resource(index: usize, attributes: usize) -> Option<Resource> {
    const KEYS: [&str; 5] =
        ["host.name", "k8s.pod.name", "k8s.namespace.name", "deployment.environment", "host.arch"];
    let mut set = vec![text("service.name", format!("checkout-{index}"))];
    set.extend(KEYS.iter().take(attributes - 1).map(|key| text(key, format!("{key}-{index:04}"))));
    Some(Resource { attributes: set, ..Resource::default() })
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope {
        name: "io.millrace.bench".into(),
        version: "1.2.3".into(),
        ..InstrumentationScope::default()
    })
}

const START: u64 = 1_790_000_000_000_000_000;

fn span(random: &mut Random, attributes: usize, time: u64) -> Span {
    let number = random.next();
    let set = (0..attributes).map(|index| match index % 5 {
        0 => attribute(
            &format!("loadgen.message_{index}"),
            Value::IntValue((number % 100_000) as i64),
        ),
        1 => text(&format!("http.request.header_{index}"), format!("value-{}", number % 1000)),
        2 => attribute(&format!("rpc.ratio_{index}"), Value::DoubleValue(number as f64 / 7.0)),
        3 => attribute(&format!("cache.hit_{index}"), Value::BoolValue(number.is_multiple_of(2))),
        _ => text(&format!("url.path_{index}"), format!("/api/v1/items/{}", number % 10_000)),
    });
    Span {
        trace_id: random.id::<16>(),
        span_id: random.id::<8>(),
        trace_state: "active".into(),
        name: format!("operation-{:03}", number % 200),
        kind: 2,
        start_time_unix_nano: time,
        end_time_unix_nano: time + number % 5_000_000,
        attributes: set.collect(),
        events: vec![Event {
            time_unix_nano: time + 1000,
            name: "event".into(),
            ..Event::default()
        }],
        status: Some(Status { code: 1, ..Status::default() }),
        ..Span::default()
    }
}

fn traces(request: usize, resource_attributes: usize, attributes: usize) -> Vec<u8> {
    let mut random = Random(request as u64);
    let resource_spans = (0..10)
        .map(|index| ResourceSpans {
            resource: resource(index, resource_attributes),
            scope_spans: vec![ScopeSpans {
                scope: scope(),
                spans: (0..100)
                    .map(|n| {
                        span(&mut random, attributes, START + (request * 1000 + n) as u64 * 1000)
                    })
                    .collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        })
        .collect();
    ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

fn logs(request: usize) -> Vec<u8> {
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
            attributes: vec![
                text("log.file.name", "checkout.log"),
                text("thread.name", format!("worker-{}", number % 16)),
                attribute("http.response.status_code", Value::IntValue(200)),
            ],
            trace_id: random.id::<16>(),
            span_id: random.id::<8>(),
            ..LogRecord::default()
        }
    };
    let resource_logs = (0..10)
        .map(|index| ResourceLogs {
            resource: resource(index, 3),
            scope_logs: vec![ScopeLogs {
                scope: scope(),
                log_records: (0..100).map(&mut record).collect(),
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        })
        .collect();
    ExportLogsServiceRequest { resource_logs }.encode_to_vec()
}

fn metrics(request: usize) -> Vec<u8> {
    let mut random = Random(request as u64);
    let time = START + request as u64 * 1_000_000;
    let resource_metrics = (0..10)
        .map(|index| ResourceMetrics {
            resource: resource(index, 3),
            scope_metrics: vec![ScopeMetrics {
                scope: scope(),
                metrics: (0..5).map(|kind| metric(&mut random, kind, time)).collect(),
                ..ScopeMetrics::default()
            }],
            ..ResourceMetrics::default()
        })
        .collect();
    ExportMetricsServiceRequest { resource_metrics }.encode_to_vec()
}

/// A metric with ten points of one of the five kinds.
fn metric(random: &mut Random, kind: usize, time: u64) -> Metric {
    let attributes =
        |number: u64| vec![text("route", format!("/api/{}", number % 50)), text("method", "GET")];
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
