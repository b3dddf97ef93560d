//! A gateway into replicated tables while their ZooKeeper fails beneath it: exactly once, with the
//! shipped binaries, judged by the load generator.

use anyhow::ensure;
use millrace_e2e::lab::{Lab, LabOptions};
use millrace_e2e::loadgen::Load;
use millrace_e2e::wait;
use millrace_stack::zookeeper::Size;

use crate::{LIMIT, bring_back, ensemble, lose_quorum};

/// Spans of the load, and their rate: about ten seconds.
const SPANS: u64 = 300_000;
const RATE: u64 = 30_000;

/// Scenario: a load through Kafka into replicated tables; the leader of their ZooKeepers is killed;
/// it comes back, and two are killed at once, until the gateway knows why its inserts fail.
/// Guarantee: the gateway counts these failures as coordination's; every span is stored once and
/// unaltered, and every offset is committed.
#[test]
fn a_gateway_stores_spans_once_through_a_lost_quorum() {
    let mut ensemble = ensemble(Size::Three);
    let zookeeper = ensemble.client_addresses();
    let lab = Lab::with(LabOptions { zookeeper, ..LabOptions::default() }).unwrap();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let load = Load { rate: Some(RATE), ..lab.load(&edge, 91, SPANS) };
    let mut load = load.start(lab.folder()).unwrap();

    load.reached(SPANS / 4, LIMIT).unwrap();
    let leader = ensemble.leader().unwrap();
    ensemble.servers_mut()[leader].kill9();
    load.reached(SPANS / 2, LIMIT).unwrap();
    bring_back(&mut ensemble, &[leader]);

    let struck = lose_quorum(&mut ensemble);
    wait::until("failures of coordination to be counted", LIMIT, || {
        let class = "class=\"coordination\"";
        let counted = gateway.metric("millrace_insert_retries_total", class)?;
        ensure!(counted > 0.0, "none so far");
        Ok(())
    })
    .unwrap();
    bring_back(&mut ensemble, &struck);

    let verdict = load.verdict(LIMIT).unwrap();
    assert_eq!((verdict.sent, verdict.stored), (SPANS, SPANS), "{}", verdict.line);
    let bad = (verdict.missing, verdict.duplicated, verdict.altered);
    assert_eq!(bad, (0, 0, 0), "{}", verdict.line);
    lab.committed(LIMIT).unwrap();
}
