//! A gateway into replicated tables while their ZooKeeper fails beneath it: exactly once, with the
//! shipped binaries, judged by the load generator.

use anyhow::ensure;
use millrace_e2e::lab::{Lab, LabOptions};
use millrace_e2e::loadgen::{Load, Running};
use millrace_e2e::wait;
use millrace_stack::zookeeper::Size;

use crate::replicated::{LIMIT, bring_back, ensemble, lose_quorum};

/// Spans of each load, and their rate: about five seconds.
const SPANS: u64 = 150_000;
const RATE: u64 = 30_000;

/// Scenario: a load through Kafka into replicated tables, in whose midst the leader of their
/// ZooKeepers is killed; it comes back, two are killed at once, and another load comes until the
/// gateway knows why its inserts fail. Guarantee: the gateway counts these failures as
/// coordination's; every span is stored once and unaltered, and every offset is committed. Slow:
/// three ZooKeepers, a broker and an engine start, two loads of 5 s pass, and ZooKeepers elect and
/// come back twice.
#[test]
fn a_gateway_stores_spans_once_through_a_lost_quorum() {
    let mut ensemble = ensemble(Size::Three);
    let zookeeper = ensemble.client_addresses();
    let lab = Lab::with(LabOptions { zookeeper, ..LabOptions::default() }).unwrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let begin = |seed| {
        let load = Load { rate: Some(RATE), ..lab.load(&edge, seed, SPANS) };
        load.start(lab.folder()).unwrap()
    };

    let mut load = begin(91);
    load.reached(SPANS / 2, LIMIT).unwrap();
    let leader = ensemble.leader().unwrap();
    ensemble.servers_mut()[leader].kill9();
    is_stored_once(load);
    bring_back(&mut ensemble, &[leader]);

    let struck = lose_quorum(&mut ensemble);
    // Begun now, so that there is something to insert however long a server took to come back.
    let load = begin(92);
    wait::until("failures of coordination to be counted", LIMIT, || {
        let class = "class=\"coordination\"";
        let counted = gateway.metric("millrace_insert_retries_total", class)?;
        ensure!(counted > 0.0, "none so far");
        Ok(())
    })
    .unwrap();
    bring_back(&mut ensemble, &struck);
    is_stored_once(load);
    lab.committed(LIMIT).unwrap();
}

fn is_stored_once(load: Running) {
    let verdict = load.verdict(LIMIT).unwrap();
    assert_eq!((verdict.sent, verdict.stored), (SPANS, SPANS), "{}", verdict.line);
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!(bad, (0, 0, 0), "{}", verdict.line);
}
