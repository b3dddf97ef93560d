//! `keeper-bench suite` with one small round on a real ZooKeeper.
//!
//! `cargo test -p millrace-keeper-bench --test suite_command`. About 15 s; it limits servers where
//! it is root.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{Access, access};
use serde_json::Value;

const MATRIX: &str = r#"
name: small
repeats: 1
pipeline: 4
servers: [{version: "3.9", count: 1, heap_mib: 128, cpus: 1.5, memory_mib: 512}]
workloads: [clickhouse-load]
sessions: [3]
operations: [2000]
"#;

fn suite(dir: &Path) -> Output {
    let matrix = dir.join("matrix.yaml");
    fs::write(&matrix, MATRIX).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeper-bench"));
    command.arg("suite").arg("--out").arg(dir.join("out")).arg("--matrix").arg(matrix);
    command.output().unwrap()
}

/// Scenario: one round, then the suite again. Guarantee: a result with all operations and what the
/// server used, samples of it, a table and a plot; the second time nothing is measured. Without
/// root it says what to do.
#[test]
fn a_round_is_measured_once_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let output = suite(dir.path());
    let said = String::from_utf8(output.stderr).unwrap();
    let able = access("/sys/fs/cgroup", Access::WRITE_OK).is_ok();
    if !able {
        assert!(said.contains("run it as root"), "{said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let read = |name: &str| fs::read_to_string(dir.path().join("out").join(name)).unwrap();
    let result: Value = serde_json::from_str(read("results.jsonl").trim()).unwrap();
    let kinds = result["kinds"].as_array().unwrap();
    assert_eq!(kinds.last().unwrap()["operations"], 2_000);
    assert!(result["server_memory_bytes_max"].as_f64() > Some(1e6), "{result}");
    assert!(result["server_cpu_seconds"].as_f64() > Some(0.0), "{result}");
    let samples = read("samples.jsonl");
    let last: Value = serde_json::from_str(samples.lines().last().unwrap()).unwrap();
    let received: u64 = last["mntr"]["zk_packets_received"].as_str().unwrap().parse().unwrap();
    assert!(received > 2_000, "{last}");
    assert!(read("report.md").contains("| 3.9.3 x1, heap 128 MiB, 1.5 cpu, 512 MiB | 1 |"));
    assert!(read("load-0.svg").ends_with("</svg>\n"));

    let said = String::from_utf8(suite(dir.path()).stderr).unwrap();
    assert!(said.contains("1 rounds, 1 of them on record"), "{said}");
    assert_eq!(read("results.jsonl").lines().count(), 1);
    assert_eq!(read("samples.jsonl"), samples);
}
