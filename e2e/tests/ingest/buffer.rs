//! The edge's buffer on disk, all parts real: Kafka goes, load goes on, the edge is killed, Kafka
//! comes back.

use std::time::Duration;

use anyhow::bail;
use millrace_e2e::collector::{Collector, Ports};
use millrace_e2e::lab::{DRAIN_LIMIT, Lab};
use millrace_e2e::loadgen::Load;
use millrace_e2e::wait;

/// Spans of the load, and their rate: about twelve seconds.
const SPANS: u64 = 240_000;
const RATE: u64 = 20_000;
/// Everything serves again 180 s after a fault, and the lag is gone 120 s later.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts an edge with a buffer, which need not be ready yet.
pub(super) fn start_buffered_edge(lab: &Lab) -> Collector {
    let ports = Ports::free().unwrap();
    let settings = format!(
        "receivers:\n  otlp:\n    grpc: {{address: \"{}\"}}\n    http: {{address: \"{}\"}}\n\
         exporters:\n  kafka:\n    connection: {{bootstrapServers: {}}}\n    \
         deliveryTimeoutSeconds: 5\n    buffer: {{path: \"{}\", maxBytes: 256Mi}}\n",
        ports.grpc,
        ports.http,
        lab.bootstrap_list(),
        lab.folder().join("buffer").display(),
    );
    Collector::start(lab.folder(), "edge", ports, &settings).unwrap()
}

/// Waits until the buffer holds something, as the edge's figure of the last second states.
pub(super) fn wait_until_used(edge: &Collector) {
    wait::until("the buffer to hold something", LIMIT, || {
        match edge.metric("millrace_buffer_records", "")? {
            0.0 => bail!("nothing is in it"),
            _ => Ok(()),
        }
    })
    .unwrap();
}

/// Waits until Kafka has everything that was in the buffer.
pub(super) fn wait_until_empty(edge: &Collector) {
    wait::until("the buffer to be empty", LIMIT, || {
        match edge.metric("millrace_buffer_records", "")? {
            0.0 => Ok(()),
            held => bail!("{held} records are in it"),
        }
    })
    .unwrap();
}

/// Scenario: the broker is killed under load; load goes on; the edge is killed with SIGKILL while
/// the broker is away, and starts again; the broker comes back. Guarantee: clients were answered all
/// the time, nothing that was acknowledged is missing or doubled, the buffer ends empty. Slow: a
/// load of 12 s passes, and a broker and an engine start, the broker twice.
#[test]
fn a_killed_edge_without_kafka_loses_nothing_it_acknowledged() {
    let mut lab = Lab::start().unwrap();
    let mut edge = start_buffered_edge(&lab);
    edge.ready().unwrap();
    let load = Load { rate: Some(RATE), ..lab.load(&edge, 31, SPANS) };
    let mut load = load.start(lab.folder()).unwrap();
    load.reached(SPANS / 6, LIMIT).unwrap();
    lab.broker.kill9();
    load.reached(SPANS / 2, LIMIT).unwrap();
    wait_until_used(&edge);
    edge.crash_and_restart().unwrap();
    edge.ready().unwrap();
    load.reached(SPANS * 2 / 3, LIMIT).unwrap();
    lab.broker.restart().unwrap();
    // Only now: a gateway may store twice what it reads while a broker dies, and this is about the
    // edge.
    let _gateway = lab.gateway("gateway", "").unwrap();
    let verdict = load.verdict(LIMIT).unwrap();
    println!("{}", verdict.line);
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    assert_eq!(verdict.sent, SPANS, "{}", verdict.line);
    wait_until_empty(&edge);
    assert_eq!(edge.metric("millrace_records_in_flight", "signal=\"traces\"").unwrap(), 0.0);
    assert!(edge.process().terminate(DRAIN_LIMIT).unwrap().success());
    lab.committed(LIMIT).unwrap();
}
