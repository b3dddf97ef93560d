//! Faults under load, all parts real: whatever dies or stalls, every acknowledged span is in the
//! end stored. The judge, the load generator, is never killed.

use std::time::Duration;

use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{DRAIN_LIMIT, Lab};
use millrace_e2e::loadgen::{Load, Running, Verdict};

/// Spans of one load, and their rate: about ten seconds, with the fault in the middle.
const SPANS: u64 = 400_000;
const RATE: u64 = 40_000;
/// Everything serves again 180 s after a fault, and the lag is gone 120 s later (P4).
const LIMIT: Duration = Duration::from_secs(300);

struct Scene {
    lab: Lab,
    edge: Collector,
    gateway: Collector,
    load: Running,
}

/// A lab in full flow.
fn scene(seed: u64) -> Scene {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let load = Load { rate: Some(RATE), ..lab.load(&edge, seed, SPANS) };
    let mut load = load.start(lab.folder()).unwrap();
    load.reached(SPANS / 4, LIMIT).unwrap();
    Scene { lab, edge, gateway, load }
}

/// Nothing missing, nothing altered, everything acknowledged in the end.
fn judge(verdict: &Verdict) {
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.sent, SPANS, "{}", verdict.line);
}

/// Scenario: the gateway is killed with SIGKILL under load, three times. Guarantee: missing=0.
/// Slow: a load of ten seconds passes, and three times the session of the killed gateway, of 6 s,
/// must end.
#[test]
fn a_killed_gateway_loses_nothing() {
    let Scene { lab, edge: _edge, mut gateway, mut load } = scene(21);
    for part in 2..=4 {
        gateway.crash_and_restart().unwrap();
        load.reached(SPANS / 4 + SPANS / 8 * (part - 1), LIMIT).unwrap();
    }
    judge(&load.verdict(LIMIT).unwrap());
    lab.committed(LIMIT).unwrap();
}

/// Scenario: the edge is killed with SIGKILL under load. Guarantee: what it had acknowledged is in
/// Kafka, what it had not the client sends again: missing=0. Slow: a broker and an engine start,
/// and a load of ten seconds passes and is compared.
#[test]
fn a_killed_edge_loses_nothing_it_acknowledged() {
    let Scene { lab, mut edge, gateway: _gateway, load } = scene(22);
    edge.crash_and_restart().unwrap();
    judge(&load.verdict(LIMIT).unwrap());
    lab.committed(LIMIT).unwrap();
}

/// Scenario: edge and gateway get SIGTERM under load, one after the other. Guarantee: both drain
/// and end well within the grace period; nothing is missing, nothing is stored twice by us. Slow: a
/// broker and an engine start, and a load of ten seconds passes while edge and gateway restart, and
/// is compared.
#[test]
fn a_drain_under_load_loses_and_doubles_nothing() {
    let Scene { lab, mut edge, mut gateway, load } = scene(23);
    gateway.drain_and_restart(DRAIN_LIMIT).unwrap();
    edge.drain_and_restart(DRAIN_LIMIT).unwrap();
    let verdict = load.verdict(LIMIT).unwrap();
    judge(&verdict);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    lab.committed(LIMIT).unwrap();
}

/// Scenario: the broker restarts under load. Guarantee: missing=0, both collectors go on by
/// themselves. Slow: a load of ten seconds passes and is compared, and a broker starts twice.
#[test]
fn a_restarted_broker_loses_nothing() {
    let Scene { mut lab, mut edge, mut gateway, load } = scene(24);
    lab.broker.restart().unwrap();
    judge(&load.verdict(LIMIT).unwrap());
    lab.committed(LIMIT).unwrap();
    edge.process().still_runs().unwrap();
    gateway.process().still_runs().unwrap();
}

/// Scenario: the engine is killed with SIGKILL under load and comes back. Guarantee: missing=0;
/// inserts whose outcome nobody knows are sent again under their token, so nothing is doubled
/// either; the gateway goes on by itself. Slow: a load of ten seconds passes and is compared, and
/// an engine starts twice.
#[test]
fn a_killed_engine_loses_and_doubles_nothing() {
    let Scene { mut lab, edge: _edge, mut gateway, load } = scene(25);
    lab.engine.kill9().unwrap();
    lab.engine.restart().unwrap();
    let verdict = load.verdict(LIMIT).unwrap();
    judge(&verdict);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    lab.committed(LIMIT).unwrap();
    gateway.process().still_runs().unwrap();
}
