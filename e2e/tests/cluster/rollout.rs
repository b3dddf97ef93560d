//! Rollouts on a real cluster under load: an image that does not exist is taken back, another
//! allocator gets to its end, and no acknowledged span is missing in either.

use std::time::{Duration, Instant};

use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, NAME, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::Value;

/// Spans of a load and their rate: two minutes, with the rollout in it.
const SPANS: u64 = 1_200_000;
const RATE: u64 = 10_000;
/// What is promised for a bad image.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(180);
/// A canary watched for 20 s, up to three times that, two steps, and pods that drain in between.
const ROLLOUT_LIMIT: Duration = Duration::from_secs(300);
/// For a load to be stored and looked up.
const LIMIT: Duration = Duration::from_secs(300);

fn rollout(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Value {
    let pool = cluster.get(&pipeline.namespace.name, "gatewaypool", NAME).unwrap();
    pool["status"]["rollout"].clone()
}

fn pods(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Vec<Value> {
    let selector = "app.kubernetes.io/name=millrace-collector";
    cluster.list(&pipeline.namespace.name, "pods", selector).unwrap()
}

/// Which pods of both pools there are, and how often each was started again.
fn lives(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Vec<(Value, Value)> {
    let life = |pod: &Value| {
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        (pod["metadata"]["uid"].clone(), restarts.clone())
    };
    pods(cluster, pipeline).iter().map(life).collect()
}

fn images(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Vec<String> {
    let image = |pod: &Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    pods(cluster, pipeline).iter().map(image).collect()
}

/// What the edge pool's status tells of a change that no pod has yet.
fn pending(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Value {
    let pool = cluster.get(&pipeline.namespace.name, "edgepool", EDGE).unwrap();
    pool["status"]["pendingChange"].clone()
}

/// Scenario: edges and two gateways under load; both pools are asked to run a version that no node
/// has, then another allocator. Guarantee: the bad image is given up by both within three minutes
/// and they say why, no pod of either is ever touched for it, the allocator's rollout ends with a
/// report; missing=0 and nothing doubled.
#[test]
fn a_bad_image_is_taken_back_and_an_allocator_rolled_out_without_loss() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish { gateways: Some(2), canary_seconds: Some(20), ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "rollout", wish).unwrap();
    pipeline.ready().unwrap();
    let before = lives(&cluster, &pipeline);
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 61, SPANS, Some(RATE)).unwrap();
    let mut running = load.start(folder.path()).unwrap();
    running.reached(SPANS / 20, LIMIT).unwrap();

    let asked = Instant::now();
    pipeline.change(|wish| wish.version = Some("9.9.9")).unwrap();
    wait::until("the bad image to be taken back", ROLLBACK_LIMIT, || {
        let (told, pending) = (rollout(&cluster, &pipeline), pending(&cluster, &pipeline));
        let given_up = told["stage"] == "RolledBack" && pending["stage"] == "Rejected";
        given_up.then_some(()).ok_or_else(|| anyhow::anyhow!("{told}; edges: {pending}"))
    })
    .unwrap();
    let took = asked.elapsed();
    for told in [rollout(&cluster, &pipeline), pending(&cluster, &pipeline)] {
        assert_eq!(told["reason"], "ImagePullFailed", "{told}");
    }
    assert_eq!(lives(&cluster, &pipeline), before);
    wait::until("the pods that tried it to be gone", LIMIT, || {
        let tries = "app.kubernetes.io/name=millrace-preflight";
        let tries = cluster.list(&pipeline.namespace.name, "pods", tries)?;
        anyhow::ensure!(tries.is_empty(), "{tries:?}");
        Ok(())
    })
    .unwrap();
    println!("rolled back in {} s", took.as_secs());

    pipeline.change(|wish| (wish.version, wish.allocator) = (None, "mimalloc")).unwrap();
    wait::until("the allocator to be rolled out", ROLLOUT_LIMIT, || {
        let told = rollout(&cluster, &pipeline);
        let done = told["stage"] == "Stable" && told["after"]["allocator"] == "mimalloc";
        done.then_some(()).ok_or_else(|| anyhow::anyhow!("{told}"))
    })
    .unwrap();
    let told = rollout(&cluster, &pipeline);
    assert_eq!(told["before"]["allocator"], "system", "{told}");
    assert!(told["report"]["after"]["memoryBytes"].is_i64(), "{told}");
    println!("report: {}", told["report"]);
    pipeline.ready().unwrap();
    assert_eq!(pending(&cluster, &pipeline), Value::Null);
    assert!(images(&cluster, &pipeline).iter().all(|image| image.ends_with("-mimalloc")));

    let verdict = running.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!((verdict.duplicated, verdict.sent), (0, SPANS), "{}", verdict.line);
}
