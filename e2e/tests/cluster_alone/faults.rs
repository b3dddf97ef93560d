//! Faults on a real cluster under load: a gateway pod is deleted, the operator is killed, the
//! broker restarts, the engine dies. Every acknowledged span is stored in the end, and the pipeline
//! says Ready again by itself.

use std::time::Duration;

use millrace_e2e::cluster::{Cluster, OPERATOR_NAMESPACE};
use millrace_e2e::pipeline::{Pipeline, Wish};
use millrace_stack::{Component, Stack};

/// Spans of the load and their rate: half a minute, with the faults in it.
const SPANS: u64 = 600_000;
const RATE: u64 = 20_000;
/// Everything serves again 180 s after a fault, and the lag is gone 120 s later (P4).
const LIMIT: Duration = Duration::from_secs(300);

/// Scenario: four faults, one after the other, while spans flow. Guarantee: missing=0, altered=0,
/// nothing doubled by us, all of it acknowledged, and Ready in the end.
#[test]
fn nothing_is_missing_after_pods_operator_broker_and_engine_went_down() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let pipeline = Pipeline::apply(&stack, &cluster, "faults", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 41, SPANS, Some(RATE)).unwrap();
    let mut running = load.start(folder.path()).unwrap();

    running.reached(SPANS / 10, LIMIT).unwrap();
    let gateway = "app.kubernetes.io/component=gateway";
    let namespace = &pipeline.namespace.name;
    cluster.kubectl(&["-n", namespace, "delete", "pods", "-l", gateway, "--wait=false"]).unwrap();

    running.reached(SPANS * 3 / 10, LIMIT).unwrap();
    let operator = ["app.kubernetes.io/name=millrace", "--grace-period=0", "--force"];
    let [selector, now, force] = operator;
    let args = ["-n", OPERATOR_NAMESPACE, "delete", "pods", "-l", selector, now, force];
    cluster.kubectl(&args).unwrap();

    running.reached(SPANS * 5 / 10, LIMIT).unwrap();
    stack.restart(Component::Kafka).unwrap();

    running.reached(SPANS * 7 / 10, LIMIT).unwrap();
    stack.kill(Component::ClickHouse).unwrap();
    stack.start(Component::ClickHouse).unwrap();

    let verdict = running.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    assert_eq!(verdict.sent, SPANS, "{}", verdict.line);
    pipeline.ready().unwrap();
}
