//! Objects of an earlier spec: a pool that changes its mode, and no longer scrapes, loses them.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, Pipeline, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use millrace_stack::node::HOST_IP;
use serde_json::{Value, json};

use crate::cluster::receivers::targets::{INTERVAL, Targets};

/// For pods of the other workload to start, and for the earlier objects to go.
const LIMIT: Duration = Duration::from_secs(90);
/// What a pool that scrapes has in mode Deployment, and only there.
const SCRAPING: [&str; 4] = ["Deployment", "NetworkPolicy", "PodDisruptionBudget", "RoleBinding"];

fn scraping(targets: &Targets) -> Value {
    let jobs = json!([{"name": "numbers", "targets": targets.addresses,
        "intervalSeconds": INTERVAL.as_secs(), "timeoutSeconds": 5}]);
    json!([{"name": "clients", "replicas": 1, "resources": resources(),
        "receivers": {"prometheus": {"jobs": jobs}}}])
}

/// Waits until the pool has exactly these of the objects that depend on its spec.
fn has(cluster: &Cluster, namespace: &str, expected: &[&str]) -> Result<()> {
    wait::until(&format!("{expected:?} alone"), LIMIT, || {
        let kinds = "deployments,daemonsets,networkpolicies,poddisruptionbudgets,rolebindings";
        let selector = format!("app.kubernetes.io/instance={EDGE}");
        let objects = cluster.list(namespace, kinds, &selector)?;
        let mut found: Vec<&str> = objects.iter().filter_map(|it| it["kind"].as_str()).collect();
        found.sort_unstable();
        ensure!(found == expected, "{found:?}");
        Ok(())
    })
}

/// Scenario: a pool in mode Deployment scrapes; it becomes one of nodes, which takes telemetry of
/// clients without a network policy; then it is what it was. Guarantee: each time it has the objects
/// of its spec alone, none of the earlier ones, and the pipeline is Ready.
#[test]
fn objects_of_an_earlier_spec_go() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let targets = Targets::start(HOST_IP.into(), 1).unwrap();
    let wish = Wish {
        signal: "metrics",
        gateways: Some(1),
        edges: Some(scraping(&targets)),
        ..Wish::usual(&stack)
    };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "pruned", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    pipeline.ready().unwrap();
    has(&cluster, &namespace, &SCRAPING).unwrap();

    let nodes = json!([{"name": "clients", "mode": "DaemonSet", "resources": resources(),
        "networkPolicy": {"enabled": false}}]);
    pipeline.change(|wish| wish.edges = Some(nodes)).unwrap();
    has(&cluster, &namespace, &["DaemonSet"]).unwrap();
    pipeline.ready().unwrap();

    pipeline.change(|wish| wish.edges = Some(scraping(&targets))).unwrap();
    has(&cluster, &namespace, &SCRAPING).unwrap();
    pipeline.ready().unwrap();
}
