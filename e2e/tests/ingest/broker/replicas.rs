//! Three brokers that replicate, as users run them: what an edge and a gateway do when one ends, and
//! when too few are left to acknowledge.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::collector::Collector;
use millrace_e2e::lab::{Lab, LabOptions, TOPIC};
use millrace_e2e::loadgen::{Load, Running};
use millrace_e2e::{http, topics, wait};
use millrace_stack::kafka::{Broker, BrokerOptions};

use crate::ingest::buffer::{start_buffered_edge, wait_until_empty, wait_until_used};

const BROKERS: usize = 3;
/// Three brokers run next to an engine, and a broker of tests uses a third of this heap.
const HEAP_MIB: u32 = 256;
/// Spans a second, and more of them than any run takes: the load is ended by the test.
const RATE: u64 = 10_000;
const SPANS: u64 = 3_000_000;
/// Everything serves again 180 s after a fault, and the lag is gone 120 s later.
const LIMIT: Duration = Duration::from_secs(300);
const POLL: Duration = Duration::from_millis(100);

fn start_lab() -> Lab {
    let broker = BrokerOptions { heap_mib: HEAP_MIB, ..BrokerOptions::default() };
    Lab::with(LabOptions { broker, brokers: BROKERS, ..LabOptions::default() }).unwrap()
}

/// The broker with this node id.
fn broker_with_id(lab: &mut Lab, node_id: i32) -> &mut Broker {
    match usize::try_from(node_id - 1).unwrap() {
        0 => &mut lab.broker,
        other => &mut lab.peers[other - 1],
    }
}

/// Who leads the first partition.
fn find_leader(lab: &Lab) -> Result<i32> {
    let partitions = topics::in_sync(&lab.bootstrap(), TOPIC)?;
    Ok(partitions[0][0])
}

/// Waits until each broker has all of each partition.
fn wait_in_sync(lab: &Lab) {
    wait::until("all replicas to be in sync", LIMIT, || {
        let partitions = topics::in_sync(&lab.bootstrap(), TOPIC)?;
        ensure!(partitions.iter().all(|brokers| brokers.len() == BROKERS), "{partitions:?}");
        Ok(())
    })
    .unwrap();
}

/// Waits until so many more spans are acknowledged.
fn wait_for_spans(load: &mut Running, spans: u64) {
    let before = load.acknowledged();
    load.reached(before + spans, LIMIT).unwrap();
}

/// Polls `/readyz` of collectors ten times a second while `action` runs; gives what wasn't ready.
fn unready_during(collectors: &[&Collector], action: impl FnOnce()) -> Vec<String> {
    let (end, ended) = mpsc::sync_channel::<()>(1);
    let admins: Vec<_> = collectors.iter().map(|it| (it.name(), it.ports.admin)).collect();
    thread::scope(|scope| {
        let poller = scope.spawn(move || {
            let mut unready = Vec::new();
            while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
                for (name, admin) in &admins {
                    match http::get(*admin, "/readyz") {
                        Ok(answer) if answer.status == 200 => {}
                        Ok(answer) => unready.push(format!("{name}: {}", answer.text())),
                        Err(error) => unready.push(format!("{name}: {error}")),
                    }
                }
            }
            unready
        });
        action();
        drop(end);
        poller.join().unwrap()
    })
}

/// Scenario: of three brokers the one that leads is killed under load, comes back, and then the one
/// that leads now. Guarantee: clients are acknowledged while it is away, edge and gateway stay
/// ready, nothing is refused for good, and what was acknowledged is stored once and unaltered. Slow: three brokers and an
/// engine start, each killed broker's session of 3 s ends, and it reads what it missed.
#[test]
fn a_killed_leader_of_three_loses_and_doubles_nothing() {
    let mut lab = start_lab();
    let edge = lab.edge().unwrap();
    let gateway = lab.gateway("gateway", "").unwrap();
    let load = Load { rate: Some(RATE), ..lab.load(&edge, 47, SPANS) };
    let mut load = load.start(lab.folder()).unwrap();
    wait_for_spans(&mut load, RATE);
    for _ in 0..2 {
        wait_in_sync(&lab);
        let killed = find_leader(&lab).unwrap();
        let unready = unready_during(&[&edge, &gateway], || {
            broker_with_id(&mut lab, killed).kill9();
            wait_for_spans(&mut load, 8 * RATE);
            assert_ne!(find_leader(&lab).unwrap(), killed);
            broker_with_id(&mut lab, killed).restart().unwrap();
            wait_for_spans(&mut load, RATE);
        });
        assert_eq!(unready, [""; 0]);
    }
    wait_in_sync(&lab);
    load.stop_sending().unwrap();
    let verdict = load.verdict(LIMIT).unwrap();
    println!("{}", verdict.line);
    let bad = (verdict.missing, verdict.duplicated, verdict.altered, verdict.refused);
    assert_eq!(bad, (0, 0, 0, 0), "{} {:?}", verdict.line, verdict.faults);
    lab.committed(LIMIT).unwrap();
}

/// Scenario: two of three brokers are killed under load, so that one is left, which may not
/// acknowledge alone; later both come back. Guarantee: the edge continues to acknowledge from
/// its buffer on disk; nothing that was acknowledged is missing or altered; what is stored twice is
/// at most what was in flight when the brokers went, whose fate no answer told. Slow: three
/// brokers and an engine start, two of them twice.
#[test]
fn one_broker_of_three_is_an_outage_that_the_buffer_bridges() {
    let mut lab = start_lab();
    let mut edge = start_buffered_edge(&lab);
    edge.ready().unwrap();
    let _gateway = lab.gateway("gateway", "").unwrap();
    let load = Load { rate: Some(RATE), ..lab.load(&edge, 53, SPANS) };
    let mut load = load.start(lab.folder()).unwrap();
    wait_for_spans(&mut load, 2 * RATE);
    wait_in_sync(&lab);
    lab.peers.iter_mut().for_each(Broker::kill9);
    wait_until_used(&edge);
    wait_for_spans(&mut load, 8 * RATE);
    for peer in &mut lab.peers {
        peer.restart().unwrap();
    }
    wait_in_sync(&lab);
    wait_for_spans(&mut load, 2 * RATE);
    load.stop_sending().unwrap();
    let verdict = load.verdict(LIMIT).unwrap();
    println!("{} resent={}", verdict.line, verdict.resent);
    let bad = (verdict.missing, verdict.altered, verdict.refused);
    assert_eq!(bad, (0, 0, 0), "{} {:?}", verdict.line, verdict.faults);
    wait_until_empty(&edge);
    lab.committed(LIMIT).unwrap();
}
