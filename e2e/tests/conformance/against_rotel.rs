//! Rotel as an edge: its topics, in each of its encodings, are read by our gateway.
//!
//! Not part of `make test-all`: the agent comes from a package that has builds for some machines only.
//! `make conformance` runs it where there is one. The packaged version doesn't read Kafka, so what
//! we write isn't given to it.

use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use millrace_e2e::lab::{Lab, SIGNALS};
use millrace_e2e::loadgen::Load;
use millrace_e2e::process::Process;
use millrace_e2e::{topics, wait};
use millrace_stack::{rotel, service};

/// For some thousand records on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// From start to listening.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Records of a batch, at most: more than a load has.
const BATCH: &str = "8192";
/// Records of each load: enough for every rare case.
const RECORDS: u64 = 2_000;

/// OTLP to Kafka, in an encoding; gives its endpoint too. A load fits into one of its batches, for
/// this version loses records when it cuts some; nor does it cut batches to the broker's limit,
/// which counts compressed bytes.
fn edge(lab: &Lab, format: &str) -> Result<(Process, String)> {
    let port = || service::free_port(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let address = |port: u16| format!("127.0.0.1:{port}");
    let (grpc, http) = (address(port()?), address(port()?));
    let mut command = Command::new(rotel::agent()?);
    command
        .arg("start")
        .args(["--otlp-grpc-endpoint", &grpc, "--otlp-http-endpoint", &http])
        .args(["--batch-max-size", BATCH, "--exporter", "kafka"])
        .args(["--kafka-exporter-brokers", &lab.broker.bootstrap()])
        .args(["--kafka-exporter-format", format, "--kafka-exporter-acks", "all"])
        .args(["--kafka-exporter-compression", "zstd"])
        .args(["--kafka-exporter-max-message-bytes", "8000000"]);
    let mut process = Process::start("rotel", &mut command, &lab.folder().join("rotel.log"))?;
    wait::until("Rotel to listen", READY_LIMIT, || {
        process.still_runs()?;
        TcpStream::connect(&grpc).map(drop).context("not yet")
    })?;
    Ok((process, format!("http://{grpc}")))
}

/// Its JSON is a list of groups, without the request around them.
fn is_json(payload: &[u8]) -> bool {
    payload.first() == Some(&b'[')
}

/// What this version's JSON loses: it has exemplars' values where OTLP has none.
fn is_known_fault(format: &str, signal: &str) -> impl Fn(&String) -> bool {
    let is_lossy = (format, signal) == ("json", "metrics");
    move |fault| is_lossy && fault.contains("column Exemplars.Value: ")
}

/// Scenario: Rotel as an edge publishes every signal in an encoding. Guarantee: our gateway, told
/// nothing about it, stores every record once and unaltered, but for what Rotel's JSON has wrong.
fn topics_are_read(format: &str) {
    let lab = Lab::start().unwrap();
    let (_rotel, endpoint) = edge(&lab, format).unwrap();
    let _gateway = lab.gateway("gateway", "").unwrap();
    for (seed, signal) in (1..).zip(SIGNALS) {
        let load = Load { signal, ..lab.load_to(endpoint.clone(), seed, RECORDS) };
        let verdict = load.run(lab.folder(), LIMIT).unwrap();
        let found = (verdict.stored, verdict.missing, verdict.duplicated);
        assert_eq!(found, (RECORDS, 0, 0), "{signal} {}", verdict.line);
        let (is_known, faults) = (is_known_fault(format, signal), &verdict.faults);
        assert!(faults.iter().all(is_known), "{signal} {} {faults:?}", verdict.line);
        let sent = topics::read_all(&lab.broker.bootstrap(), &format!("otlp_{signal}")).unwrap();
        assert!(sent.iter().all(|message| is_json(&message.payload) == (format == "json")));
    }
}

/// See [`topics_are_read`].
#[test]
fn rotels_topics_are_read_in_protobuf() {
    topics_are_read("protobuf");
}

/// See [`topics_are_read`].
#[test]
fn rotels_topics_are_read_in_json() {
    topics_are_read("json");
}
