//! Real INSERTs into replicated tables as a load: what ClickHouse asks beside what `clickhouse-load`
//! asks, both counted on their way to a real ZooKeeper; a round of the suite.
//!
//! `cargo test -p millrace-keeper-bench real_inserts:: -- --nocapture` prints the figures of
//! docs/internals/keeper-bench.md. About 40 s.
#![cfg(target_arch = "x86_64")]
use std::fs;
use std::process::Command;

use millrace_stack::zookeeper::{Ensemble, EnsembleOptions};
use program::{Bench, all, kind};
use rustix::fs::{Access, access};
use serde_json::{Value, json};
use tap::{Counts, Tap};

use crate::program;
use crate::tap;

/// Inserts: some 15 requests each.
const INSERTS: u64 = 1_000;
/// Requests of the ready workload: a kind's share is known to half a point.
const OPERATIONS: u64 = 10_000;

/// How far two shares may be apart, in hundredths of all: the pace of the machine decides how much
/// ClickHouse finds each time that it reads the log of a table, and how soon it merges.
const APART: f64 = 0.06;
/// The same for operations within multis, which follow from that.
const PARTS_APART: f64 = 0.10;
/// Operations of a multi: one that cleans has dozens, and when that begins is a matter of seconds.
const SIZES_APART: f64 = 1.2;

fn told(name: &str, counts: &Counts) {
    let all = counts.all() as f64;
    println!("{name}: {} requests", counts.all());
    for (kind, count) in &counts.kinds {
        let watches = counts.watches.get(kind).copied().unwrap_or_default();
        let share = *count as f64 / all * 100.0;
        println!("  {kind}: {count}, {share:.1} %, with a watch {watches}");
    }
    println!("  operations of a multi: {:.2}, of these", counts.multi_size());
    for kind in counts.parts.keys() {
        println!("    {kind}: {:.1} %", counts.part(kind) * 100.0);
    }
    let mut shapes: Vec<_> = counts.shapes.iter().collect();
    shapes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (shape, count) in shapes.iter().take(12).filter(|(shape, _)| shape.len() < 50) {
        println!("  {count} x ({shape})");
    }
}

/// Scenario: INSERTs into four replicated tables of a ClickHouse engine, then `clickhouse-load`,
/// both through the same relay to the same ZooKeeper. Guarantee: every insert is stored; what the
/// relay saw is what the server received and what ClickHouse counted; each kind has the same share
/// of both loads, within six points of all requests, and so have the operations within multis.
/// Slow: a ZooKeeper and an engine start, and 1,000 inserts and 10,000 operations pass.
#[test]
fn the_ready_load_asks_what_inserts_of_clickhouse_ask() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let tap = Tap::before(ensemble.client_addresses()[0]);
    let address = tap.address.to_string();

    let inserts = INSERTS.to_string();
    let mut running = Bench::inserts(&address).args(["--operations", &inserts]).start();
    running.wait_for("inserting");
    let setup = tap.take();
    let lines = running.finish();
    let real = tap.take();
    told("set-up of tables", &setup);
    told("INSERTs of ClickHouse", &real);
    let result = all(&lines);
    assert_eq!((&result["operations"], &result["errors"]), (&INSERTS.into(), &json!({})));
    assert_eq!(kind(&lines, "insert")["operations"], INSERTS);
    // The relay also saw what came before the counting began, and the tables' end.
    let asked = &result["requests"];
    let close = |counted: &Value| {
        let share = counted.as_f64().unwrap() / real.all() as f64;
        assert!((share - 1.0).abs() < 0.1, "{counted}, where {} passed: {asked}", real.all());
    };
    close(&asked["at_servers"]);
    close(&asked["by_clickhouse"]);

    let operations = OPERATIONS.to_string();
    let mut running = Bench::run(&address)
        .args(["--workload", "clickhouse-load", "--operations", &operations])
        .args(["--sessions", "3", "--warmup-seconds", "0", "--keep"])
        .start();
    running.wait_for("opening");
    tap.take();
    running.finish();
    let ready = tap.take();
    told("clickhouse-load", &ready);
    for kind in ["multi", "create", "remove", "set", "get", "exists", "list", "multi-read"] {
        let (real, ready) = (real.share(kind), ready.share(kind));
        assert!((real - ready).abs() < APART, "{kind}: {real} of INSERTs, {ready} of the load");
    }
    for kind in ["create", "remove", "set", "check"] {
        let (real, ready) = (real.part(kind), ready.part(kind));
        assert!((real - ready).abs() < PARTS_APART, "{kind} in multis: {real} and {ready}");
    }
    let sizes = (real.multi_size(), ready.multi_size());
    assert!((sizes.0 - sizes.1).abs() < SIZES_APART, "operations of a multi: {sizes:?}");
}

const MATRIX: &str = r#"
name: small
repeats: 1
pipeline: 2
servers: [{version: "3.9", count: 1, heap_mib: 128, cpus: 1.5, memory_mib: 512}]
workloads: [inserts]
sessions: [1]
operations: [40]
"#;

/// Scenario: a matrix with a line of INSERTs by a ClickHouse server. Guarantee: the round has all
/// of them, none failed, with what they asked as the ensemble and ClickHouse counted it; the report
/// has a column for that. Slow: a ZooKeeper and an engine start, and 40 inserts pass.
#[test]
fn inserts_are_a_line_of_the_suite() {
    if access("/sys/fs/cgroup", Access::WRITE_OK).is_err() {
        return; // `suite_command` has what is said without root.
    }
    let dir = tempfile::tempdir().unwrap();
    let (matrix, out) = (dir.path().join("matrix.yaml"), dir.path().join("out"));
    fs::write(&matrix, MATRIX).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeper-bench"));
    command.arg("suite").arg("--out").arg(&out).arg("--matrix").arg(matrix);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let result: Value = serde_json::from_str(read("results.jsonl").trim()).unwrap();
    let last = result["kinds"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["kind"], &last["operations"]), (&"all".into(), &40.into()));
    assert_eq!((&last["errors"], &last["rows"]), (&json!({}), &40_000.into()));
    let asked = |name: &str| last["requests"][name].as_u64().unwrap();
    // A part asks five times at least to be locked, committed, and taken from the log.
    assert!(asked("by_clickhouse") > 5 * 40 && asked("at_servers") > 5 * 40, "{last}");
    assert!(read("report.md").contains("| server MiB | requests each |"), "{}", read("report.md"));
}
