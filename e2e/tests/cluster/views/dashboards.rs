//! The chart's dashboards, asked of a real Prometheus that scrapes a running fleet: one of each kind of
//! pool, with the labels that the chart's PodMonitors set, and records by the chart's rules. The one
//! of tables asks ClickHouse: `replicated/dashboard.rs`.

use std::fs;
use std::io::stderr;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{Pipeline, Wish, resources};
use millrace_e2e::process::Process;
use millrace_e2e::{binaries, chart, http, wait};
use millrace_stack::Stack;
use millrace_stack::progress::Timed;
use millrace_stack::prometheus::{self, Program};
use millrace_stack::service::free_port;
use serde_json::{Value, json};

/// Where the operator is installed, and how its metrics are reached.
const OPERATOR: (&str, &str, u16) = (
    "millrace-system",
    "app.kubernetes.io/name=millrace,app.kubernetes.io/component=operator",
    8080,
);
const COLLECTORS: &str = "app.kubernetes.io/name=millrace-collector";
const COLLECTORS_PORT: u16 = 9464;
/// What flows meanwhile, in spans a second, and more of them than the test takes.
const RATE: u64 = 1_000;
const SPANS: u64 = RATE * 900;
/// Two scrapes, the first records through all hops, and a busy machine.
const LIMIT: Duration = Duration::from_secs(180);
/// For what was sent to be stored and looked up.
const VERDICT_LIMIT: Duration = Duration::from_secs(120);

/// A Prometheus of the test's own, on loopback.
struct Prometheus {
    address: SocketAddr,
    _process: Process,
}

impl Prometheus {
    fn start(folder: &Path, targets: &[Value], rules: &str) -> Result<Self> {
        let progress = Timed::new(stderr());
        let program = prometheus::find_or_fetch(Program::Prometheus, &progress)?;
        fs::write(folder.join("rules.yaml"), rules)?;
        let config = json!({
            "global": {
                "scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s",
            },
            "rule_files": ["rules.yaml"],
            "scrape_configs": [{"job_name": "fleet", "static_configs": targets}],
        });
        // YAML holds JSON.
        let file = folder.join("prometheus.yaml");
        fs::write(&file, config.to_string())?;
        let host = Ipv4Addr::LOCALHOST.into();
        let address = SocketAddr::new(host, free_port(host)?);
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("series").display()))
            .arg(format!("--web.listen-address={address}"));
        let log = folder.join("prometheus.log");
        Ok(Self { address, _process: Process::start("prometheus", &mut command, &log)? })
    }

    /// How many series a query has now.
    fn count(&self, query: &str) -> Result<usize> {
        let body = format!("query={}", encoded(query));
        let kind = [("content-type", "application/x-www-form-urlencoded")];
        let answer = http::send(self.address, "POST", "/api/v1/query", &kind, body.as_bytes())?;
        let text = answer.text();
        ensure!(answer.status == 200, "{query}: {} {text}", answer.status);
        let found: Value = serde_json::from_str(&text)?;
        let series = found["data"]["result"].as_array().context("an answer without a result")?;
        Ok(series.len())
    }
}

/// As in a form: all but letters and digits by their numbers.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// A pod to scrape, with the labels that the PodMonitors give it.
fn target(pod: &Value, port: u16) -> Result<Value> {
    let address = pod["status"]["podIP"].as_str().context("a pod without an address")?;
    let labels = &pod["metadata"]["labels"];
    Ok(json!({
        "targets": [format!("{address}:{port}")],
        "labels": {
            "namespace": pod["metadata"]["namespace"],
            "pod": pod["metadata"]["name"],
            "pool": labels["app.kubernetes.io/instance"],
            "role": labels["app.kubernetes.io/component"],
        },
    }))
}

/// Each query of each dashboard of metrics: its file and panel, and the query as Grafana would send it.
fn queries(namespace: &str) -> Vec<(String, String)> {
    let folder = binaries::root().join("charts/millrace/dashboards");
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let page: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        if page["templating"]["list"][0]["query"] != "prometheus" {
            continue;
        }
        for panel in page["panels"].as_array().unwrap() {
            for query in panel["targets"].as_array().unwrap() {
                let place = format!("{}: {}", page["title"], panel["title"]);
                let query = query["expr"].as_str().unwrap();
                let query = query
                    .replace("$namespace", namespace)
                    .replace("$pool", ".*")
                    .replace("$__rate_interval", "30s");
                assert!(!query.contains('$'), "{place}: {query}");
                found.push((place, query));
            }
        }
    }
    found
}

/// Scenario: a pipeline with pools for clients, for nodes' logs and for targets, under a light load.
/// Guarantee: every query of every dashboard of metrics has an answer: no panel is empty. Every
/// series that the rules record is there, and asked for by a dashboard.
#[test]
fn no_panel_of_a_dashboard_is_empty() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let resources = resources();
    let edges = json!([
        {"name": "clients", "replicas": 1, "resources": resources},
        {"name": "nodes", "mode": "DaemonSet", "resources": resources,
            "receivers": {"containers": {"startAt": "End"}}},
        {"name": "scraper", "replicas": 1, "resources": resources, "receivers": {"prometheus": {
            "jobs": [{"name": "operator", "targets": ["millrace-operator.millrace-system:8080"],
                "intervalSeconds": 2, "timeoutSeconds": 2}]}}},
    ]);
    let wish = Wish {
        also: &["logs", "metrics"],
        level: "privileged",
        edges: Some(edges),
        gateways: Some(1),
        ..Wish::usual(&stack)
    };
    let pipeline = Pipeline::apply(&stack, &cluster, "dashboards", wish).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.as_str();
    let mut targets: Vec<Value> = cluster
        .list(namespace, "pods", COLLECTORS)
        .unwrap()
        .iter()
        .map(|pod| target(pod, COLLECTORS_PORT).unwrap())
        .collect();
    assert_eq!(targets.len(), 4, "three edges and a gateway: {targets:?}");
    let (system, operator, port) = OPERATOR;
    let operators = cluster.list(system, "pods", operator).unwrap();
    targets.extend(operators.iter().map(|pod| target(pod, port).unwrap()));

    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 91, SPANS, Some(RATE)).unwrap().start(folder.path()).unwrap();
    let rules = chart::rules(&stack, &[]).unwrap();
    let prometheus = Prometheus::start(folder.path(), &targets, &rules).unwrap();
    let queries = queries(namespace);
    assert!(queries.len() > 60, "{} queries", queries.len());
    let records: Vec<_> = rules.lines().filter_map(|it| it.split_once("record: ")).collect();
    assert!(records.len() >= 5, "{records:?}");
    for (_, record) in records {
        assert!(
            queries.iter().any(|(_, query)| query.contains(record)),
            "nobody asks for {record}"
        );
    }
    wait::until("every panel to have something to show", LIMIT, || {
        for (place, query) in &queries {
            ensure!(prometheus.count(query)? > 0, "{place} is empty: {query}");
        }
        Ok(())
    })
    .unwrap();
    load.stop_sending().unwrap();
    let verdict = load.verdict(VERDICT_LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered, verdict.duplicated), (0, 0, 0));
}
