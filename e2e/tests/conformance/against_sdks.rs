//! OpenTelemetry's SDKs as clients, while Kafka stalls for longer than they wait: how often their
//! spans are stored.
//!
//! Not part of `make test-all`: the SDKs come from Go's and Python's registries, and the stall
//! takes its time. `make conformance` runs it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::collector::Ports;
use millrace_e2e::lab::{Lab, TOPIC};
use millrace_e2e::process::{self, Process};
use millrace_e2e::{binaries, topics, wait};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

/// Six times as long as an SDK's exporter waits for an answer.
const STALL: Duration = Duration::from_secs(60);
/// Spans a second of each client: in a stall fewer than an SDK's queue holds (2,048).
const RATE: u64 = 20;
/// How long each client makes spans: before, during and after the stall.
const CLIENT_SECONDS: u64 = 120;
/// Messages in the topic before the stall begins.
const MESSAGES_BEFORE: i64 = 8;
/// For the first messages, on a busy machine.
const FIRST_LIMIT: Duration = Duration::from_secs(60);
/// For a client's spans, and an SDK's own retries at its end.
const CLIENT_LIMIT: Duration = Duration::from_secs(CLIENT_SECONDS + 120);

/// What is stored of a client's spans.
#[derive(Debug, Default)]
struct Stored {
    /// How often each is, by its id.
    by_span_id: HashMap<Vec<u8>, u64>,
}

impl Stored {
    fn copies(&self) -> u64 {
        self.by_span_id.values().map(|count| count - 1).sum()
    }

    fn highest(&self) -> u64 {
        self.by_span_id.values().copied().max().unwrap_or_default()
    }
}

fn run_command(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("{command:?} can't be started"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(())
}

/// Builds or installs the clients; each is a program and its first arguments.
fn install_clients(folder: &Path) -> Result<[(&'static str, Vec<String>); 2]> {
    let source = binaries::root().join("e2e/sdks");
    let text = |path: &Path| path.display().to_string();
    let go = folder.join("go-client");
    run_command(Command::new("go").current_dir(&source).arg("build").arg("-o").arg(&go).arg("."))?;
    let environment = folder.join("python");
    run_command(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let python = environment.join("bin/python");
    let install = ["-m", "pip", "install", "--quiet", "--requirement"];
    run_command(Command::new(&python).args(install).arg(source.join("requirements.txt")))?;
    let script = text(&source.join("client.py"));
    Ok([("go", vec![text(&go)]), ("python", vec![text(&python), script])])
}

fn start_clients(lab: &Lab, ports: &Ports) -> Result<Vec<(String, Process)>> {
    let mut started = Vec::new();
    for (language, words) in install_clients(lab.folder())? {
        for (protocol, address) in [("grpc", ports.grpc), ("http", ports.http)] {
            let name = format!("{language}-{protocol}");
            let mut command = Command::new(&words[0]);
            command.args(&words[1..]).arg(format!("http://{address}")).args([protocol, &name]);
            command.arg(RATE.to_string()).arg(CLIENT_SECONDS.to_string());
            let log = lab.folder().join(format!("{name}.log"));
            let client = Process::start(&name, &mut command, &log)?;
            started.push((name, client));
        }
    }
    Ok(started)
}

fn service_name(resource: Option<&Resource>) -> Option<&str> {
    let attributes = &resource?.attributes;
    let named = attributes.iter().find(|attribute| attribute.key == "service.name")?;
    match named.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

fn read_stored(bootstrap: &str) -> Result<HashMap<String, Stored>> {
    let mut stored: HashMap<String, Stored> = HashMap::new();
    for message in topics::read_all(bootstrap, TOPIC)? {
        for group in ExportTraceServiceRequest::decode(&*message.payload)?.resource_spans {
            let service =
                service_name(group.resource.as_ref()).context("spans without a service")?;
            let of_service = stored.entry(service.to_owned()).or_default();
            for span in group.scope_spans.into_iter().flat_map(|scope| scope.spans) {
                *of_service.by_span_id.entry(span.span_id).or_default() += 1;
            }
        }
    }
    Ok(stored)
}

/// Scenario: SDKs of two languages send over both protocols, as they are by default; the broker
/// is stopped for a minute and goes on. Guarantee: an edge answers before the SDKs give up and
/// withdraws what it hasn't passed on, so that no span is stored more than twice. Slow: the stall.
#[test]
fn sdks_that_outwait_a_stall_store_no_span_more_than_twice() {
    let lab = Lab::start().unwrap();
    let edge = lab.edge().unwrap();
    let clients = start_clients(&lab, &edge.ports).unwrap();
    let bootstrap = lab.bootstrap();
    wait::until("the first spans", FIRST_LIMIT, || {
        let count = topics::count(&bootstrap, TOPIC)?;
        ensure!(count >= MESSAGES_BEFORE, "{count} messages");
        Ok(())
    })
    .unwrap();
    let broker = lab.broker.pid();
    process::signal(broker, "STOP").unwrap();
    // The scenario itself: a broker that doesn't answer for so long.
    thread::sleep(STALL);
    process::signal(broker, "CONT").unwrap();
    for (name, mut client) in clients {
        let status = wait::until(&format!("{name} to end"), CLIENT_LIMIT, || {
            client.ended()?.context("it runs")
        })
        .unwrap();
        assert!(status.success(), "{name}: {status}: {}", client.output());
    }
    let stored = read_stored(&bootstrap).unwrap();
    let sent = RATE * CLIENT_SECONDS;
    assert_eq!(stored.len(), 4, "{:?}", stored.keys());
    for (name, stored) in &stored {
        let distinct = stored.by_span_id.len() as u64;
        println!(
            "{name}: {sent} spans, {} given up by the SDK, {} copies, at most {} of a span",
            sent - distinct,
            stored.copies(),
            stored.highest()
        );
    }
    for (name, stored) in &stored {
        assert!(stored.highest() <= 2, "{name}: a span is stored {} times", stored.highest());
    }
}
