//! A pipeline on a real cluster: Ready, kept as it is declared by the second, silent when converged.

use std::time::{Duration, Instant};

use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{OURS, PARTS, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::Value;

/// What the operator may take to see drift and mend it (the issue's own bound).
const DRIFT_LIMIT: Duration = Duration::from_secs(5);
/// How long a converged pipeline is watched for writes.
const QUIET: Duration = Duration::from_secs(20);

fn stack() -> (Stack, Cluster) {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    (stack, cluster)
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Scenario: a pipeline is applied, becomes Ready, and nothing else happens. Guarantee: every kind
/// of child is there, no pod restarted, and in the following time the operator writes nothing: no
/// object's resourceVersion moves but for a status that reports a changed lag.
#[test]
fn a_converged_pipeline_is_ready_and_writes_nothing() {
    let (stack, cluster) = stack();
    let pipeline = Pipeline::apply(&stack, &cluster, "quiet", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let before = pipeline.owned().unwrap();
    for kind in PARTS {
        assert!(before.keys().any(|key| key.starts_with(kind)), "no {kind}: {:?}", before.keys());
    }
    let started = Instant::now();
    let moved = wait::until("a write", QUIET, || {
        let now = pipeline.owned().unwrap();
        let moved = now.iter().find(|(key, object)| {
            before.get(*key).is_none_or(|earlier| version(earlier) != version(object))
        });
        moved.map(|(key, object)| (key.clone(), object.clone())).ok_or_else(|| anyhow("none"))
    });
    if let Ok((key, object)) = moved {
        let earlier = before.get(&key);
        panic!("{key} changed after {:?}: {earlier:?} became {object}", started.elapsed());
    }
    for pod in pipeline.pods().unwrap() {
        let restarts = &pod["status"]["containerStatuses"][0]["restartCount"];
        assert_eq!(restarts, 0, "{}", pod["metadata"]["name"]);
    }
}

fn anyhow(text: &str) -> anyhow::Error {
    anyhow::anyhow!("{text}")
}

/// Scenario: a user deletes each object the operator made, and edits some. Guarantee: each is back
/// as declared within five seconds, and the pipeline is Ready again.
#[test]
fn what_a_user_deletes_or_edits_comes_back_within_five_seconds() {
    let (stack, cluster) = stack();
    let pipeline = Pipeline::apply(&stack, &cluster, "drift", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.clone();
    let all = pipeline.owned().unwrap();
    // Topics and schemas are retained outside; their objects come back like the others.
    for key in all.keys().filter(|key| !key.starts_with("telemetrypipelines/")) {
        // What a pool deleted above owned is collected at any moment, perhaps right now.
        let delete = ["-n", &namespace, "delete", "--wait=false", "--ignore-not-found", key];
        cluster.kubectl(&delete).unwrap();
        let (kind, name) = key.split_once('/').unwrap();
        let old = all[key]["metadata"]["uid"].clone();
        wait::until(&format!("{key} to come back"), DRIFT_LIMIT, || {
            let object = cluster.get(&namespace, kind, name)?;
            if object["metadata"]["uid"] == old {
                return Err(anyhow("the old object is still there"));
            }
            Ok(())
        })
        .unwrap();
    }
    pipeline.ready().unwrap();

    let edge = &cluster.list(&namespace, "deployments", OURS).unwrap()[0];
    let name = edge["metadata"]["name"].as_str().unwrap();
    let patch =
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"collector","image":"x/y:z"}]}}}}"#;
    cluster
        .kubectl(&["-n", &namespace, "patch", "deployment", name, "--type=strategic", "-p", patch])
        .unwrap();
    let wanted = edge["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    wait::until("the edited image to be put back", DRIFT_LIMIT, || {
        let now = cluster.get(&namespace, "deployment", name)?;
        let image = &now["spec"]["template"]["spec"]["containers"][0]["image"];
        if *image != wanted { Err(anyhow(&format!("{image}"))) } else { Ok(()) }
    })
    .unwrap();
    pipeline.ready().unwrap();
}
