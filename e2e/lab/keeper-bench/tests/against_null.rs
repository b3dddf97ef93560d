//! The program against its own null server: counts, schedules, sessions, logs.
//!
//! `cargo test -p millrace-keeper-bench against_null::`. A few seconds; every test has a server
//! of its own.

use std::fs;
use std::time::Duration;

use program::{Bench, NullServer, all, kind};
use rustix::process::Signal;

use crate::program;

/// Scenario: each workload that comes with the program, 20,000 operations, on two threads.
/// Guarantee: as many are counted, by kinds and in all; none failed; each has a latency.
#[test]
fn every_operation_is_counted_once() {
    let server = NullServer::start();
    for name in ["clickhouse-load", "merge", "deduplication-log", "read-heavy"] {
        let lines = Bench::run(&server.address)
            .args(["--workload", name, "--operations", "20000", "--warmup-seconds", "0"])
            .args(["--sessions", "7", "--threads", "2", "--pipeline", "16"])
            .lines();
        let all = all(&lines);
        assert_eq!(all["operations"], 20_000, "{name}");
        assert_eq!(all["errors"], serde_json::json!({}), "{name}");
        let (_, kinds) = lines.split_last().unwrap();
        let sum: u64 = kinds.iter().map(|line| line["operations"].as_u64().unwrap()).sum();
        assert_eq!(sum, 20_000, "{name}");
        assert!(kinds.iter().all(|line| line["latency_us"]["99.99"].as_f64() > Some(0.0)));
        let rate = all["per_second"].as_f64().unwrap() * all["window_seconds"].as_f64().unwrap();
        assert!((rate - 20_000.0).abs() < 200.0, "{name}: {rate}");
    }
}

/// Scenario: the same seed twice, bound by count, and another seed; a warm-up before as many.
/// Guarantee: the same operations of each kind and the same bytes; others; a warm-up takes nothing
/// from what is measured.
#[test]
fn a_seed_gives_the_same_operations() {
    let server = NullServer::start();
    let run = |seed, warmup| {
        Bench::run(&server.address)
            .args(["--workload", "clickhouse-load", "--operations", "5000", "--seed", seed])
            .args(["--warmup-seconds", warmup])
            .lines()
    };
    let told = |seed| {
        let lines = run(seed, "0");
        let sent = all(&lines)["bytes_sent"].clone();
        (lines.iter().map(|line| line["operations"].clone()).collect::<Vec<_>>(), sent)
    };
    assert_eq!(told("1"), told("1"));
    assert_ne!(told("1"), told("2"));
    assert_eq!(all(&run("1", "0.1"))["operations"], 5_000);
}

/// Scenario: an open loop of 1,000 operations a second for three seconds, in which the server
/// stands still for one. Guarantee: every operation that was due is counted or said to be unsent,
/// and those due while it stood are charged for it: a fifth and more waited over 100 ms.
#[test]
fn an_open_loop_charges_a_stall_to_all_that_were_due() {
    let server = NullServer::start();
    let mut bench = Bench::run(&server.address)
        .args(["--workload", "read-heavy", "--rate", "1000", "--seconds", "3"])
        .args(["--sessions", "4", "--warmup-seconds", "0"])
        .start();
    bench.wait_for("s] ");
    server.signal(Signal::STOP);
    // How long it stands still is the fault itself.
    std::thread::sleep(Duration::from_secs(1));
    server.signal(Signal::CONT);
    let lines = bench.finish();
    let all = all(&lines);
    let due = all["operations"].as_u64().unwrap() + all["unsent"].as_u64().unwrap();
    assert_eq!(due, 3_000);
    assert!(all["latency_us"]["90"].as_f64().unwrap() > 100_000.0, "{all}");
}

/// Scenario: the server is killed under an open loop of 500 operations a second, and another comes
/// at its address. Guarantee: what was under way is counted as lost, sessions are opened anew, the
/// rest succeeds, and every operation that was due is accounted for; the exit code tells of errors.
#[test]
fn sessions_come_back_after_their_server() {
    let server = NullServer::start();
    let address = server.address.clone();
    let mut bench = Bench::run(&address)
        .args(["--workload", "read-heavy", "--rate", "500", "--seconds", "3"])
        .args(["--sessions", "4", "--warmup-seconds", "0"])
        .start();
    bench.wait_for("s] ");
    drop(server);
    let _again = NullServer::start_at(&address);
    let lines = bench.finish_with(2);
    let all = all(&lines);
    assert_eq!(all["connections_lost"], 4, "{all}");
    let count = |line: &serde_json::Value, field: &str| line[field].as_u64().unwrap();
    let connects = kind(&lines, "connect");
    assert!(count(connects, "operations") - lost(connects) >= 4, "{connects}");
    let due = count(all, "operations") - count(connects, "operations") + count(all, "unsent");
    assert_eq!(due, 1_500);
    assert!(lost(all) < 750, "half of them and more succeeded: {all}");
}

fn lost(line: &serde_json::Value) -> u64 {
    line["errors"]["connection-loss"].as_u64().unwrap_or_default()
}

/// Scenario: five sessions of four operations each at a time, 200 operations. Guarantee: each
/// session was opened anew nine times, which is counted as an operation of its own.
#[test]
fn short_sessions_are_opened_and_counted() {
    let server = NullServer::start();
    let lines = Bench::run(&server.address)
        .args(["--workload", "session-storm", "--operations", "200", "--warmup-seconds", "0"])
        .args(["--sessions", "5", "--session-operations", "4"])
        .lines();
    assert_eq!(kind(&lines, "connect")["operations"], 45);
    assert_eq!(all(&lines)["operations"], 245);
    assert_eq!(all(&lines)["connections_lost"], 0);
}

/// Scenario: a log of three sessions over half a second, at twice its speed and at once.
/// Guarantee: every request is sent; the first takes a quarter of a second at least.
#[test]
fn a_log_is_sent_again_in_its_time() {
    let server = NullServer::start();
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log.jsonl");
    let mut text = String::new();
    for nth in 0..51 {
        let (at, session) = (nth * 10_000, nth % 3);
        text += &format!(r#"{{"at_us":{at},"session":{session},"op":"get","path":"/a/{nth}"}}"#);
        text += "\n";
    }
    text += r#"{"at_us":500000,"session":0,"op":"multi","parts":[{"op":"remove","path":"/a/1"}]}"#;
    fs::write(&log, text).unwrap();
    let replay =
        |pace: &[&str]| Bench::replay(&server.address, &log).args(pace.iter().copied()).lines();
    let lines = replay(&["--speed", "2"]);
    assert_eq!(kind(&lines, "get")["operations"], 51);
    assert_eq!(kind(&lines, "multi-write")["operations"], 1);
    assert!(all(&lines)["window_seconds"].as_f64().unwrap() >= 0.25);
    assert_eq!(all(&replay(&["--at-once"]))["operations"], 52);
}

/// Scenario: no server; a workload that isn't there; a rate of nought. Guarantee: no figures, and
/// an error that names it.
#[test]
fn what_cannot_be_run_ends_with_its_reason() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let at = free.to_string();
    let refused = |args: &[&str]| Bench::run(&at).args(args.iter().copied()).failure();
    assert!(refused(&["--workload", "read-heavy"]).contains(&format!("cannot reach {at}")));
    assert!(refused(&["--workload", "none"]).contains("there is no workload none"));
    assert!(refused(&["--workload", "merge", "--rate", "0"]).contains("rate is 0"));
}
