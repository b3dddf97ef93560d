//! The small installation's way, all parts real: OTLP into one collector and from there straight
//! into the engine, without Kafka.

use std::time::Duration;

use millrace_e2e::collector::Collector;
use millrace_e2e::http;
use millrace_e2e::lab::{DRAIN_LIMIT, Lab};
use millrace_e2e::loadgen::{Load, Verdict};
use millrace_e2e::wait;
use millrace_loadgen::{LoadPlan, LoadShape, encode_request};

/// Spans of one load under faults, and their rate: about ten seconds, with the fault in the middle.
const SPANS: u64 = 400_000;
const RATE: u64 = 40_000;
/// A few clients that wait for their answers fill no batch: it goes after a tenth of a second.
const SOON: &str = "    batch: {maxAgeMillis: 100}\n";
/// Everything serves again well within this.
const LIMIT: Duration = Duration::from_secs(300);

/// When the one request's spans began: 2026-09-21, any day will do.
const START_UNIX_NANOS: u64 = 1_790_000_000_000_000_000;

/// A load into a collector without Kafka behind it.
fn load(lab: &Lab, direct: &Collector, seed: u64) -> Load {
    Load { rate: Some(RATE), ..lab.load(direct, seed, SPANS) }
}

/// Nothing missing, nothing altered, everything acknowledged in the end.
fn judge(verdict: &Verdict, sent: u64) {
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.sent, sent, "{}", verdict.line);
}

/// Scenario: a quiet run over gRPC with gzip and over HTTP with zstd. Guarantee: every acknowledged
/// span is stored once and unaltered, requests of many clients share inserts, the collector's own
/// counts agree, and it ends in good order. Slow: a broker and an engine start, and 300,000 spans
/// pass and are compared.
#[test]
fn every_acknowledged_span_is_stored_once_and_unaltered_without_kafka() {
    let lab = Lab::start().unwrap();
    let mut direct = lab.direct("", SOON).unwrap();
    let grpc = lab.load(&direct, 61, 200_000);
    let http = Load {
        protocol: "http",
        compression: "zstd",
        endpoint: format!("http://{}", direct.ports.http),
        ..lab.load(&direct, 62, 100_000)
    };
    for (load, count) in [(grpc, 200_000), (http, 100_000)] {
        let verdict = load.run(lab.folder(), LIMIT).unwrap();
        judge(&verdict, count);
        assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    }
    let traces = "signal=\"traces\"";
    let figure = |name| direct.metric(name, traces).unwrap();
    assert_eq!(figure("millrace_records_in_total"), 300_000.0);
    assert_eq!(figure("millrace_records_out_total"), 300_000.0);
    assert_eq!(figure("millrace_records_in_flight"), 0.0);
    let inserts = direct.metric("millrace_insert_duration_seconds_count", "").unwrap();
    assert!((1.0..300.0).contains(&inserts), "{inserts} inserts for 3,000 requests");
    assert!(direct.process().terminate(DRAIN_LIMIT).unwrap().success());
}

/// Scenario: SIGTERM under load, and a start again. Guarantee: what was acknowledged is stored,
/// what wasn't is sent again by the client; the drain ends well within its deadline and in good
/// order. Slow: a broker and an engine start, and a load of ten seconds passes and is compared.
#[test]
fn a_drained_direct_collector_loses_nothing_it_acknowledged() {
    let lab = Lab::start().unwrap();
    let mut direct = lab.direct("", SOON).unwrap();
    let mut running = load(&lab, &direct, 63).start(lab.folder()).unwrap();
    running.reached(SPANS / 4, LIMIT).unwrap();
    direct.drain_and_restart(DRAIN_LIMIT).unwrap();
    running.reached(SPANS / 2, LIMIT).unwrap();
    direct.drain_and_restart(DRAIN_LIMIT).unwrap();
    judge(&running.verdict(LIMIT).unwrap(), SPANS);
}

/// Scenario: answers after buffering, then SIGTERM with everything still in memory. Guarantee: the
/// drain stores all of it. Slow: a broker and an engine start.
#[test]
fn a_drain_stores_what_was_answered_when_buffered() {
    let lab = Lab::start().unwrap();
    let extra = "    acknowledge: AfterBuffering\n    batch: {maxAgeMillis: 60000}\n";
    let mut direct = lab.direct("", extra).unwrap();
    // Less than a batch, which would wait for a minute.
    let running = lab.load(&direct, 64, 20_000).start(lab.folder()).unwrap();
    let mut running = running;
    running.reached(20_000, LIMIT).unwrap();
    assert!(direct.process().terminate(DRAIN_LIMIT).unwrap().success());
    judge(&running.verdict(LIMIT).unwrap(), 20_000);
}

/// Scenario: the engine is killed with SIGKILL under load and comes back. Guarantee: missing=0;
/// clients are told to send again meanwhile; the collector goes on by itself. Slow: a load of ten
/// seconds passes and is compared, and an engine starts twice.
#[test]
fn a_killed_engine_loses_nothing_without_kafka() {
    let mut lab = Lab::start().unwrap();
    let mut direct = lab.direct("", SOON).unwrap();
    let mut running = load(&lab, &direct, 65).start(lab.folder()).unwrap();
    running.reached(SPANS / 4, LIMIT).unwrap();
    lab.engine.kill9().unwrap();
    lab.engine.restart().unwrap();
    judge(&running.verdict(LIMIT).unwrap(), SPANS);
    direct.process().still_runs().unwrap();
    assert_eq!(direct.metric("millrace_records_in_flight", "").unwrap(), 0.0);
}

/// Scenario: a malformed request; a good one while the table is away; a good one when it is back.
/// Guarantee: the first is answered with a code that makes clients give it up, the second with one
/// that makes them come back later, the third is taken. Slow: a broker and an engine start, and a
/// request waits 3 s for its table.
#[test]
fn trouble_with_the_table_asks_clients_to_come_back() {
    let lab = Lab::start().unwrap();
    let direct = lab.direct("    limits: {requestSeconds: 3}\n", SOON).unwrap();
    let protobuf = ("content-type", "application/x-protobuf");
    let post = |body: &[u8]| {
        http::send(direct.ports.http, "POST", "/v1/traces", &[protobuf], body).unwrap()
    };
    let good = encode_request(&LoadPlan::new(LoadShape::Lean, 66, 100, START_UNIX_NANOS), 0);
    let broken = post(b"\x0a\xff\xff");
    assert_eq!(broken.status, 400, "{broken:?}");
    lab.engine.query("RENAME TABLE otel.otel_traces TO otel.aside").unwrap();
    let away = post(&good);
    assert_eq!(away.status, 503, "{away:?}");
    assert!(away.header("retry-after").is_some(), "{away:?}");
    lab.engine.query("RENAME TABLE otel.aside TO otel.otel_traces").unwrap();
    wait::until("the request to be taken", LIMIT, || {
        let back = post(&good);
        anyhow::ensure!(back.status == 200, "{back:?}");
        Ok(())
    })
    .unwrap();
}
