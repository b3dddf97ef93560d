//! `keeper-bench suite` with one small round on a real ZooKeeper, also killed in it.
//!
//! `cargo test -p millrace-keeper-bench suite_command::`. About 15 s; it limits servers where
//! it is root.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

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

fn command(dir: &Path) -> Command {
    let matrix = dir.join("matrix.yaml");
    fs::write(&matrix, MATRIX).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeper-bench"));
    command.arg("suite").arg("--out").arg(dir.join("out")).arg("--matrix").arg(matrix);
    command.stderr(Stdio::piped());
    command
}

fn suite(dir: &Path) -> Output {
    command(dir).output().unwrap()
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

/// The processes whose parent this is, by what the system says of each.
fn children(parent: u32) -> Vec<PathBuf> {
    let is_child = |path: &PathBuf| {
        let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
        let behind_name = stat.rsplit_once(") ").map(|(_, rest)| rest.to_owned());
        behind_name.is_some_and(|rest| rest.split(' ').nth(1) == Some(&parent.to_string()))
    };
    let all = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    all.filter(is_child).collect()
}

fn is_load(process: &Path) -> bool {
    let command = fs::read(process.join("cmdline")).unwrap_or_default();
    command.windows(5).any(|word| word == b"\0run\0")
}

/// Waits until it holds; what it is for is said if it never does.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Scenario: a suite is killed while its load runs, and begins again. Guarantee: the load ends with
/// it; the round that was cut off is measured; no control group is left. Slow: a ZooKeeper starts
/// for each of two suites.
#[test]
fn a_killed_suite_leaves_nothing() {
    if access("/sys/fs/cgroup", Access::WRITE_OK).is_err() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut child = command(dir.path()).spawn().unwrap();
    let mut load = None;
    until("the load", || {
        load = children(child.id()).into_iter().find(|process| is_load(process));
        load.is_some()
    });
    let load = load.unwrap();
    child.kill().unwrap();
    let killed = format!("keeper-bench-{}-", child.id());
    child.wait().unwrap();
    until("the load's end", || !is_load(&load));

    until("the servers' end", || groups(&killed).iter().all(|group| is_empty(group)));

    let output = command(dir.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.contains("1 rounds, 0 of them on record"), "{said}");
    assert_eq!(groups(&killed), Vec::<PathBuf>::new());
}

/// The control groups whose names begin so.
fn groups(name: &str) -> Vec<PathBuf> {
    let trees = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu"];
    let entries = trees.iter().filter_map(|tree| fs::read_dir(tree).ok()).flatten();
    let of_suite =
        entries.flatten().filter(|it| it.file_name().to_string_lossy().starts_with(name));
    of_suite.map(|entry| entry.path()).collect()
}

fn is_empty(group: &Path) -> bool {
    fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|processes| processes.is_empty())
}
