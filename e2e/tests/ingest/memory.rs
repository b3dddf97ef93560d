//! The shipped binary under a memory limit: small requests that would be written as gigabytes, as
//! what records share is written with each of them; and a long backlog in the smallest process.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{DEAD_LETTERS, Lab, SIGNALS, TOPIC};
use millrace_e2e::memory::{Confined, peak_bytes};
use millrace_e2e::{http, topics, wait};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message;

/// For everything sent to be stored or answered, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Records of a bomb, and the bytes that they share: 412 kB that would be 2.4 GB.
const RECORDS: usize = 6_000;
const SHARED_BYTES: usize = 400_000;
/// The memory limits tried, in MiB: the usual one, and the small installation's.
const LIMITS_MIB: [u64; 2] = [512, 256];

/// The least limit that settings take, in MiB, and spans that a process with it finds waiting:
/// some 3 MB in each partition, many times what it may fetch at once.
const LEAST_MIB: u64 = 64;
const BACKLOG: u64 = 1_000_000;
/// The binary's pages that a process has resident, in MiB.
const BINARY_MIB: u64 = 16;

/// Printable bytes that don't repeat.
fn noise(len: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'0' + (state >> 58) as u8)
    };
    (0..len).map(|_| next()).collect()
}

fn resource(len: usize) -> Option<Resource> {
    let attributes = vec![KeyValue {
        key: "process.command_line".to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(noise(len))) }),
        ..KeyValue::default()
    }];
    Some(Resource { attributes, ..Resource::default() })
}

fn spans(shared_bytes: usize, count: usize, name: &str) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let span = Span { name: name.to_owned(), start_time_unix_nano: now, ..Span::default() };
    let scope = ScopeSpans { spans: vec![span; count], ..ScopeSpans::default() };
    let group = ResourceSpans {
        resource: resource(shared_bytes),
        scope_spans: vec![scope],
        ..ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![group] }.encode_to_vec()
}

/// A request of a signal whose empty records share a long value.
fn bomb(signal: &str) -> Vec<u8> {
    match signal {
        "traces" => spans(SHARED_BYTES, RECORDS, ""),
        "logs" => {
            let log_records = vec![LogRecord::default(); RECORDS];
            let scope = ScopeLogs { log_records, ..ScopeLogs::default() };
            let group = ResourceLogs {
                resource: resource(SHARED_BYTES),
                scope_logs: vec![scope],
                ..ResourceLogs::default()
            };
            ExportLogsServiceRequest { resource_logs: vec![group] }.encode_to_vec()
        }
        _ => {
            let data_points = vec![NumberDataPoint::default(); RECORDS];
            let metric = Metric {
                name: "bomb".to_owned(),
                description: noise(SHARED_BYTES),
                data: Some(Data::Gauge(Gauge { data_points })),
                ..Metric::default()
            };
            let scope = ScopeMetrics { metrics: vec![metric], ..ScopeMetrics::default() };
            let group =
                ResourceMetrics { scope_metrics: vec![scope], ..ResourceMetrics::default() };
            ExportMetricsServiceRequest { resource_metrics: vec![group] }.encode_to_vec()
        }
    }
}

/// The collector still runs and was never over its limit.
fn survived(collector: &mut Collector, limit_mib: u64) {
    collector.process().still_runs().unwrap();
    let peak = peak_bytes(collector.process().pid()).unwrap();
    assert!(peak < limit_mib << 20, "{} MiB resident under {limit_mib}", peak >> 20);
}

fn stored(lab: &Lab, name: &str, count: usize) {
    let sql = format!("SELECT count() FROM otel.otel_traces WHERE SpanName = '{name}'");
    wait::until("the spans to be stored", LIMIT, || {
        let found = lab.engine.query(&sql)?;
        ensure!(found.trim() == count.to_string(), "{found} of {count} stored");
        Ok(())
    })
    .unwrap();
}

/// Scenario: bombs of every signal, again and again, at a collector without Kafka, between good
/// requests, under two memory limits. Guarantee: bombs are refused for good, good requests are
/// stored, and memory stays below the limit. Slow: a broker and an engine start, and 30 bombs of
/// 6,000 records are refused.
#[test]
fn a_bomb_is_refused_and_costs_no_memory() {
    let lab = Lab::start().unwrap();
    for limit_mib in LIMITS_MIB {
        let settings =
            format!("    batch: {{maxAgeMillis: 100}}\nmemory: {{limitBytes: {limit_mib}Mi}}\n");
        let mut direct = lab.direct("", &settings).unwrap();
        let _group = Confined::new(direct.process().pid(), limit_mib << 20);
        let address = direct.ports.http;
        let post = |signal: &str, body: &[u8]| {
            let protobuf = ("content-type", "application/x-protobuf");
            let path = format!("/v1/{signal}");
            http::send(address, "POST", &path, &[protobuf], body).unwrap()
        };
        for round in 0..5 {
            for signal in SIGNALS {
                let answer = post(signal, &bomb(signal));
                assert_eq!(answer.status, 400, "{signal}: {answer:?}");
            }
            let name = format!("good-{limit_mib}-{round}");
            assert_eq!(post("traces", &spans(30_000, 512, &name)).status, 200);
            stored(&lab, &name, 512);
        }
        survived(&mut direct, limit_mib);
    }
}

/// Scenario: another writer's topic holds bombs of every signal, in messages with others' spans in
/// them, then spans of a long command line, 51,200 of them, under two memory limits. Guarantee: each
/// bomb alone becomes a dead letter, all other spans are stored, memory stays below the limit.
/// Slow: a broker and an engine start for each limit, and 51,200 spans share a value of 30 kB that
/// is written with each.
#[test]
fn a_gateway_outlives_bombs_in_its_topics_and_stores_what_is_beside_them() {
    for limit_mib in LIMITS_MIB {
        let lab = Lab::start().unwrap();
        let bootstrap = lab.broker.bootstrap();
        let memory = format!("memory: {{limitBytes: {limit_mib}Mi}}\n");
        let mut gateway = lab.gateway("gateway", &memory).unwrap();
        let _group = Confined::new(gateway.process().pid(), limit_mib << 20);
        for partition in 0..4 {
            for signal in SIGNALS {
                let topic = format!("otlp_{signal}");
                topics::produce(&bootstrap, &topic, partition, &bomb(signal)).unwrap();
            }
            let beside = [spans(10, 3, "beside"), bomb("traces"), spans(10, 4, "beside")].concat();
            topics::produce(&bootstrap, TOPIC, partition, &beside).unwrap();
        }
        let long = spans(30_000, 512, "long");
        let messages = (0..100).map(|number| (number % 4, long.clone()));
        topics::produce_all(&bootstrap, TOPIC, messages, Duration::ZERO).unwrap();
        stored(&lab, "beside", 4 * 7);
        stored(&lab, "long", 100 * 512);
        lab.committed(LIMIT).unwrap();
        assert_eq!(topics::count(&bootstrap, DEAD_LETTERS).unwrap(), 8);
        survived(&mut gateway, limit_mib);
    }
}

/// Scenario: a million spans wait for a gateway with two workers and the least memory that settings
/// take, three times. Guarantee: it is not ended for its memory, whatever it takes at once from the
/// start, and stores all of them once. Slow: a broker and an engine start three times, and a
/// million spans pass each time.
#[test]
fn the_smallest_gateway_catches_up_with_a_backlog_within_its_limit() {
    for round in 0..3 {
        let lab = Lab::start().unwrap();
        let edge = lab.edge().unwrap();
        let load = lab.load(&edge, 31 + round, BACKLOG);
        let state = load.send(lab.folder(), LIMIT).unwrap();
        let memory = format!("memory: {{limitBytes: {LEAST_MIB}Mi}}\n");
        let mut gateway = lab.gateway_with("gateway", "    workers: 2\n", &memory).unwrap();
        let group = Confined::new(gateway.process().pid(), LEAST_MIB << 20);
        let verdict = load.check(&state, lab.folder(), LIMIT).unwrap();
        let bad = (verdict.missing, verdict.duplicated, verdict.altered);
        assert_eq!((verdict.stored, bad), (BACKLOG, (0, 0, 0)), "{}", verdict.line);
        gateway.process().still_runs().unwrap();
        // Where no cgroup holds it: what it read of its own binary doesn't count, as the kernel can
        // drop that.
        if group.is_none() {
            survived(&mut gateway, LEAST_MIB + BINARY_MIB);
        }
    }
}
