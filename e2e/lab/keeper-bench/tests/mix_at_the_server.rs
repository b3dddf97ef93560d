//! The mix of operations as a real ZooKeeper has it in its transaction log, compared with what the
//! program counted and with what the workload's definition asks for.
//!
//! `cargo test -p millrace-keeper-bench mix_at_the_server::`. A server of its own for each
//! test, about 4 s, and some seconds of load.

use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, mntr};
use program::{Bench, all, kind};
use serde_json::Value;
use transactions::Transactions;

use crate::program;
use crate::transactions;

/// Operations of a run: 5 standard deviations of the rarest kind are then 15 % of it.
const OPERATIONS: u64 = 20_000;
/// Sessions of a run.
const SESSIONS: u64 = 8;

/// What a run asked, by the program and by the server.
struct Run {
    lines: Vec<Value>,
    server: Transactions,
    /// Requests that the server received and that are in no log: reads.
    reads: u64,
    /// Nodes that the run left below its root.
    left: u64,
}

impl Run {
    fn asked(&self, name: &str) -> u64 {
        kind(&self.lines, name)["operations"].as_u64().unwrap_or(0)
    }
}

/// Runs a ready workload whose set-up makes so many nodes, the root among them. Where it has
/// watches, each session asks twice more at its end, so that what fired before has come.
fn run(workload: &str, nodes: u64, watches: bool) -> Run {
    let data = tempfile::tempdir().unwrap();
    let options = EnsembleOptions {
        data_dirs: vec![data.path().to_owned()],
        // One snapshot, one log.
        settings: vec![("snapCount".to_owned(), "1000000".to_owned())],
        ..EnsembleOptions::default()
    };
    let ensemble = Ensemble::start(&options).unwrap();
    let address = ensemble.client_addresses()[0];
    let count = |name: &str| mntr(address).unwrap()[name].parse::<u64>().unwrap();
    let (znodes, first) = (count("zk_znode_count"), count("zk_packets_received"));
    let before = count("zk_packets_received");
    let lines = Bench::run(&ensemble.connect_string())
        .args(["--workload", workload, "--operations", &OPERATIONS.to_string()])
        .args(["--sessions", &SESSIONS.to_string(), "--pipeline", "16"])
        .args(["--warmup-seconds", "0", "--keep"])
        .lines();
    let received = count("zk_packets_received") - before;
    let mut server = Transactions::of(data.path());
    server.creates -= nodes;
    // Starts and ends of sessions, that of the set-up among them; the set-up; what asks.
    let at_ends = if watches { 2 * SESSIONS } else { 0 };
    let beside = 2 * (SESSIONS + 1) + at_ends + nodes + (before - first);
    let reads = received - beside - server.writes();
    let left = count("zk_znode_count") - znodes - nodes;
    Run { lines, server, reads, left }
}

/// Five standard deviations of how often one of `share` comes in `of` independent choices: missed
/// by chance once in two million times, and the seed is fixed.
fn near(counted: u64, share: f64, of: u64) {
    let of = of as f64;
    let off = (counted as f64 - share * of).abs();
    let bound = 5.0 * (of * share * (1.0 - share)).sqrt();
    assert!(off <= bound, "{counted} of {of}, where {share} is meant: {off} off, bound {bound}");
}

/// Scenario: the load that ClickHouse's keeper-bench-suite defines (`multi_write_70_pct`), 20,000
/// operations. Guarantee: the server did just what the program counted, and both have the weights
/// of that definition: 70 % multis of two writes, half creates and half sets, 20 % lists, 5 % sets,
/// 5 % creates, of which every second one removes (four in five would, but only what was made
/// before).
#[test]
fn the_published_load_has_its_mix_at_the_server() {
    let run = run("published-load", 1 + 2 + 10, false);
    let server = run.server;
    assert_eq!(all(&run.lines)["operations"], OPERATIONS);
    assert_eq!(server.refused, 0);
    let asked = |name| run.asked(name);
    assert_eq!((server.creates, server.deletes), (asked("create"), asked("remove")));
    assert_eq!((server.sets, server.multis), (asked("set"), asked("multi-write")));
    assert_eq!(run.reads, asked("list"));
    assert_eq!(server.writes() + run.reads, OPERATIONS);

    near(server.multis, 0.70, OPERATIONS);
    near(run.reads, 0.20, OPERATIONS);
    near(server.sets, 0.05, OPERATIONS);
    near(server.creates + server.deletes, 0.05, OPERATIONS);
    assert_eq!(server.creates_in_multis + server.sets_in_multis, 2 * server.multis);
    near(server.creates_in_multis, 0.5, 2 * server.multis);
    // A session removes four times as often as it makes, so it seldom has more than a few.
    let kept = server.creates - server.deletes;
    assert!(kept <= 10 * SESSIONS, "{kept} made alone and not removed");
    assert_eq!(run.left, server.creates_in_multis + kept);
}

/// Scenario: the load that the suite's post describes in words, as `described-load` has it.
/// Guarantee: at the server a third are writes and removals, and 70 % of these are multis.
#[test]
fn the_described_load_has_its_mix_at_the_server() {
    let run = run("described-load", 1 + 1 + 4 * (1 + 4 + 1 + 3 * 5), true);
    let (writes, refused) = (run.server.writes(), run.server.refused);
    assert_eq!(writes + run.reads, OPERATIONS);
    near(writes, 33.0 / 99.0, OPERATIONS);
    near(run.server.multis + refused, 23.0 / 33.0, writes);
}
