//! The program against a real ZooKeeper, which counts beside it.
//!
//! `cargo test -p millrace-keeper-bench against_zookeeper::`. The first run fetches ZooKeeper
//! with Maven (20 MB); each test starts a server of its own, about 4 s.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use millrace_certificates::Authority;
use millrace_stack::service::free_port;
use millrace_stack::zookeeper::{Ensemble, EnsembleOptions, mntr};
use program::{Bench, all, kind};

use crate::program;

fn count(address: SocketAddr, name: &str) -> i64 {
    mntr(address).unwrap()[name].parse().unwrap()
}

/// Requests that the server has received, this one among them.
fn packets(address: SocketAddr) -> i64 {
    count(address, "zk_packets_received")
}

fn workload(dir: &Path, text: &str) -> String {
    let path = dir.join("workload.yaml");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

const CREATES: &str = r"
name: creates
sessions: 5
pipeline: 8
operations: 4000
setup: [{name: parent, count: 10, tag: parents, data_bytes: 30}]
requests:
  - create: {weight: 2, tag: parents, data_bytes: {least: 10, most: 100}}
  - create: {weight: 1, tag: parents, sequential: true}
  - multi:
      weight: 1
      requests:
        - check: {tag: parents}
        - create: {tag: parents}
        - create: {tag: parents}
  - get: {weight: 2, tag: parents}
  - multi: {weight: 1, size: 3, requests: [{get: {tag: parents}}, {list: {tag: parents}}]}
";

/// Scenario: reads, writes and multis, 4,000 operations by five sessions; then the same again, with
/// the tree removed at its end. Guarantee: the server received just these requests and those of
/// set-up and sessions, and has just the nodes that were counted; then none is left of them. Slow:
/// a ZooKeeper starts, and 8,000 operations pass.
#[test]
fn the_server_counts_the_same() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let address = ensemble.client_addresses()[0];
    let dir = tempfile::tempdir().unwrap();
    let file = workload(dir.path(), CREATES);
    let nodes = count(address, "zk_znode_count");
    let (first, before) = (packets(address), packets(address));
    let asking = before - first;
    let lines = Bench::run(&ensemble.connect_string()).args(["--file", &file, "--keep"]).lines();
    // Of set-up: a session's start and end, the root, ten nodes. Of each of five sessions: its
    // start and end. And what asks.
    let beside = 2 + 1 + 10 + 5 * 2 + asking;
    assert_eq!(packets(address) - before, 4_000 + beside);
    let of = |name| kind(&lines, name)["operations"].as_i64().unwrap();
    let made = of("create") + 2 * of("multi-write");
    assert_eq!(count(address, "zk_znode_count") - nodes, 1 + 10 + made);
    assert_eq!(all(&lines)["operations"], 4_000);
    assert_eq!(all(&lines)["errors"], serde_json::json!({}));

    Bench::run(&ensemble.connect_string()).args(["--file", &file]).lines();
    assert_eq!(count(address, "zk_znode_count"), nodes);
    assert_eq!(count(address, "zk_num_alive_connections"), 1, "the one that asks");
}

const WATCHED: &str = r"
name: watched
sessions: 6
pipeline: 4
operations: 3000
setup: [{name: leaf, count: 50, tag: leaves}]
watches: [{tag: leaves, sessions: 3}]
requests: [{set: {tag: leaves, data_bytes: 20}}]
";

const WATCHED_ONCE: &str = r"
name: watched-once
sessions: 6
pipeline: 1
operations: 3000
setup: [{name: leaf, count: 10, tag: leaves}]
requests:
  - get: {weight: 1, tag: leaves, watch_probability: 1}
  - set: {weight: 1, tag: leaves}
";

/// Scenario: three of six sessions watch 50 nodes for good, while all set them 3,000 times; then
/// watches that fire once, set by each read. Guarantee: three notifications for each change, each
/// with the time that it took; of the others at most as many fired as were set, and some.
#[test]
fn as_many_watches_fire_as_changes_were_made() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = workload(dir.path(), WATCHED);
    let lines = Bench::run(&ensemble.connect_string()).args(["--file", &file]).lines();
    let watches = &all(&lines)["watches"];
    assert_eq!(kind(&lines, "set")["operations"], 3_000);
    assert_eq!(watches["set"], 3 * 50);
    assert_eq!(watches["fired"], 3 * 3_000);
    assert!(watches["delivery_us"]["50"].as_f64().unwrap() > 1.0, "{watches}");

    let file = workload(dir.path(), WATCHED_ONCE);
    let lines = Bench::run(&ensemble.connect_string()).args(["--file", &file]).lines();
    let watches = &all(&lines)["watches"];
    let (set, fired) = (watches["set"].as_u64().unwrap(), watches["fired"].as_u64().unwrap());
    assert_eq!(set, kind(&lines, "get")["operations"].as_u64().unwrap());
    assert!(fired > 0 && fired <= set, "{watches}");
    assert_eq!(count(ensemble.client_addresses()[0], "zk_znode_count"), 5, "ZooKeeper's own");
}

/// Scenario: every workload that comes with the program, for a second each; one by sessions that
/// say who they are (`addauth digest`); a log with a node that was there before. Guarantee: no error but those that the workload ignores.
/// Slow: a ZooKeeper starts, and seven workloads run for over a second each.
#[test]
fn ready_workloads_and_logs_run_without_errors() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let servers = ensemble.connect_string();
    for name in [
        "clickhouse-load",
        "described-load",
        "published-load",
        "merge",
        "deduplication-log",
        "read-heavy",
        "session-storm",
    ] {
        let lines = Bench::run(&servers)
            .args(["--workload", name, "--seconds", "1", "--warmup-seconds", "0.2"])
            .lines();
        assert!(all(&lines)["operations"].as_u64() > Some(10), "{name}: {lines:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    let credentials = dir.path().join("credentials");
    fs::write(&credentials, "bench:secret\n").unwrap();
    Bench::run(&servers)
        .args(["--workload", "session-storm", "--operations", "100", "--auth", "digest"])
        .args(["--credentials", credentials.to_str().unwrap()])
        .lines();
    let log = dir.path().join("log.jsonl");
    let text = r#"{"at_us":0,"session":1,"op":"set","path":"/a/b","data_bytes":5}
{"at_us":0,"session":1,"op":"create","path":"/a/b/c"}
{"at_us":1,"session":1,"op":"multi","parts":[{"op":"check","path":"/a/b/c"},{"op":"remove","path":"/a/b/c"}]}
{"at_us":2,"session":2,"op":"get","path":"/a","watch":true}
"#;
    fs::write(&log, text).unwrap();
    let lines = Bench::replay(&servers, &log).args(["--ignore", ""]).lines();
    assert_eq!(all(&lines)["operations"], 4);
}

/// Scenario: a root that the program didn't make. Guarantee: it is refused, and left as it is.
#[test]
fn a_tree_of_others_is_not_touched() {
    let ensemble = Ensemble::start(&EnsembleOptions::default()).unwrap();
    let servers = ensemble.connect_string();
    let nodes = || count(ensemble.client_addresses()[0], "zk_znode_count");
    let before = nodes();
    let said = Bench::run(&servers)
        .args(["--workload", "merge", "--seconds", "1", "--root", "/zookeeper"])
        .failure();
    assert!(said.contains("/zookeeper is there already"), "{said}");
    assert_eq!(nodes(), before);
}

/// An authority's certificate, and a server's with its key, as PEM files.
fn certificates(dir: &Path) {
    let authority = Authority::new("ours");
    let server = authority.sign("127.0.0.1");
    fs::write(dir.join("authority.pem"), authority.pem()).unwrap();
    fs::write(dir.join("server.pem"), server.key_pem() + &server.pem()).unwrap();
}

/// Scenario: a server that takes clients by TLS alone and asks them to log in by SASL; the right
/// password, a wrong one, an authority that signed nothing. Guarantee: the first works; the others
/// end with what was refused.
#[test]
fn tls_and_sasl_are_spoken() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    certificates(dir.path());
    let other = tempfile::tempdir().unwrap();
    certificates(other.path());
    let login = "Server { org.apache.zookeeper.server.auth.DigestLoginModule required \
                 user_bench=\"secret\"; };\n";
    fs::write(at("jaas.conf"), login).unwrap();
    fs::write(at("right"), "bench:secret\n").unwrap();
    fs::write(at("wrong"), "bench:guess\n").unwrap();
    let port = free_port([127, 0, 0, 1].into()).unwrap();
    let settings = [
        ("secureClientPort", port.to_string()),
        ("secureClientPortAddress", "127.0.0.1".to_owned()),
        ("serverCnxnFactory", "org.apache.zookeeper.server.NettyServerCnxnFactory".to_owned()),
        ("ssl.keyStore.location", at("server.pem")),
        ("ssl.keyStore.type", "PEM".to_owned()),
        ("ssl.trustStore.location", at("authority.pem")),
        ("ssl.trustStore.type", "PEM".to_owned()),
        ("ssl.clientAuth", "none".to_owned()),
        (
            "authProvider.1",
            "org.apache.zookeeper.server.auth.SASLAuthenticationProvider".to_owned(),
        ),
        ("sessionRequireClientSASLAuth", "true".to_owned()),
    ];
    let options = EnsembleOptions {
        settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
        jvm_arguments: vec![format!("-Djava.security.auth.login.config={}", at("jaas.conf"))],
        ..EnsembleOptions::default()
    };
    let _ensemble = Ensemble::start(&options).unwrap();
    let bench = |password: &str, authority: &str| {
        Bench::run(&format!("127.0.0.1:{port}"))
            .args(["--workload", "clickhouse-load", "--operations", "2000"])
            .args(["--warmup-seconds", "0", "--auth", "sasl"])
            .args(["--credentials", password, "--tls-authorities", authority])
    };
    let (right, wrong, authority) = (at("right"), at("wrong"), at("authority.pem"));
    let lines = bench(&right, &authority).lines();
    assert_eq!(all(&lines)["operations"], 2_000);
    let said = bench(&wrong, &authority).failure();
    assert!(said.contains("gave no session") || said.contains("refused who we are"), "{said}");
    let unknown = other.path().join("authority.pem");
    let said = bench(&right, unknown.to_str().unwrap()).failure();
    assert!(said.contains("certificate"), "{said}");
}
