//! The path of log records and metric points, all parts real: OTLP in at the edge, Kafka, a
//! gateway, the engine; every column of every row judged, in both attribute variants.

use std::time::Duration;

use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{DRAIN_LIMIT, Lab, SIGNALS, Variant};
use millrace_e2e::loadgen::Load;

/// For some ten thousand records on a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// Records of each load: a hundred requests, several batches.
const RECORDS: u64 = 100_000;

fn judge(lab: &Lab, load: &Load) {
    let verdict = load.run(lab.folder(), LIMIT).unwrap();
    let (signal, line) = (load.signal, &verdict.line);
    assert_eq!((verdict.sent, verdict.stored), (load.count, load.count), "{signal} {line}");
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!(bad, (0, 0, 0), "{signal} {line}");
    assert!(line.starts_with("verified"), "{signal} {line}");
}

fn records(collector: &Collector, name: &str, signal: &str) -> f64 {
    collector.metric(name, &format!("signal=\"{signal}\"")).unwrap()
}

/// Scenario: a quiet run of each signal, over gRPC with gzip and over HTTP with zstd, spans rich.
/// Guarantee: every acknowledged record is stored once and unaltered, metric points in the tables
/// of their kinds; the collectors' own counts agree, and both end in good order when asked. Slow: a
/// broker and an engine start, and 450,000 records pass and are compared.
#[test]
fn every_signal_is_stored_once_and_unaltered() {
    let lab = Lab::start().unwrap();
    let mut edge = lab.edge().unwrap();
    let mut gateway = lab.gateway("gateway", "").unwrap();
    for (seed, signal) in (1..).zip(SIGNALS) {
        let shape = if signal == "traces" { "rich" } else { "lean" };
        let grpc = Load { signal, shape, ..lab.load(&edge, seed, RECORDS) };
        judge(&lab, &grpc);
        let endpoint = format!("http://{}", edge.ports.http);
        let (protocol, compression) = ("http", "zstd");
        let seed = seed + 10;
        let http = Load { seed, protocol, compression, endpoint, count: RECORDS / 2, ..grpc };
        judge(&lab, &http);
        let sent = (RECORDS + RECORDS / 2) as f64;
        for collector in [&edge, &gateway] {
            assert_eq!(records(collector, "millrace_records_in_total", signal), sent);
            assert_eq!(records(collector, "millrace_records_out_total", signal), sent);
            assert_eq!(records(collector, "millrace_records_in_flight", signal), 0.0);
        }
    }
    assert!(edge.process().terminate(DRAIN_LIMIT).unwrap().success());
    assert!(gateway.process().terminate(DRAIN_LIMIT).unwrap().success());
}

/// Scenario: the same topics into tables of the Map variant. Guarantee: as above, every value as
/// text. Slow: a broker and an engine start, and 150,000 records pass and are compared.
#[test]
fn every_signal_is_stored_in_maps() {
    let lab = Lab::start().unwrap();
    lab.make_tables(Variant::Map.database(), Variant::Map).unwrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway_into("gateway", "lab-map", Variant::Map, "").unwrap();
    for (seed, signal) in (1..).zip(SIGNALS) {
        let shape = if signal == "traces" { "rich" } else { "lean" };
        let load = lab.load(&edge, seed, RECORDS / 2);
        let database = Variant::Map.database().to_owned();
        judge(&lab, &Load { signal, shape, database, attributes: "map", ..load });
        assert_eq!(records(&gateway, "millrace_records_out_total", signal), RECORDS as f64 / 2.0);
    }
}
