//! The pipeline's life on a real cluster: Ready, kept as it is declared, silent when converged,
//! and gone without taking anybody's data along.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, NAME, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::Value;

/// What the operator may take to see drift and mend it (the issue's own bound).
const DRIFT_LIMIT: Duration = Duration::from_secs(5);
/// How long a converged pipeline is watched for writes.
const QUIET: Duration = Duration::from_secs(20);
const OWNED: &str = "app.kubernetes.io/managed-by=millrace-operator";
/// Every kind the operator makes for a pipeline.
const KINDS: [&str; 12] = [
    "telemetrytopics",
    "telemetryschemas",
    "edgepools",
    "gatewaypools",
    "configmaps",
    "serviceaccounts",
    "services",
    "deployments",
    "statefulsets",
    "poddisruptionbudgets",
    "networkpolicies",
    "telemetrypipelines",
];

fn stack() -> (Stack, Cluster) {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    (stack, cluster)
}

/// The objects of a namespace that the operator made, by kind and name.
fn owned(cluster: &Cluster, namespace: &str) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    for kind in KINDS {
        let selector = if kind == "telemetrypipelines" { "" } else { OWNED };
        for object in cluster.list(namespace, kind, selector).unwrap() {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            found.insert(format!("{kind}/{name}"), object);
        }
    }
    found
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
    let namespace = &pipeline.namespace.name;
    let before = owned(&cluster, namespace);
    for kind in KINDS {
        assert!(before.keys().any(|key| key.starts_with(kind)), "no {kind}: {:?}", before.keys());
    }
    let started = Instant::now();
    let moved = wait::until("a write", QUIET, || {
        let now = owned(&cluster, namespace);
        let moved = now.iter().find(|(key, object)| {
            before.get(*key).is_none_or(|earlier| version(earlier) != version(object))
        });
        moved.map(|(key, object)| (key.clone(), object.clone())).ok_or_else(|| anyhow("none"))
    });
    if let Ok((key, object)) = moved {
        let earlier = before.get(&key);
        panic!("{key} changed after {:?}: {earlier:?} became {object}", started.elapsed());
    }
    for pod in cluster.list(namespace, "pods", OWNED).unwrap() {
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
    let all = owned(&cluster, &namespace);
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

    let edge = &cluster.list(&namespace, "deployments", OWNED).unwrap()[0];
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

/// Scenario: a pipeline that says Delete, with rows, is deleted. Guarantee: its children go, the
/// gateway pool not before the edges' pods have ended, and its tables with them; applied again it is
/// Ready, with no row.
#[test]
fn a_deleted_pipeline_takes_its_data_along_if_it_says_so() {
    let (stack, cluster) = stack();
    let wish = Wish { deletion_policy: "Delete", ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "delete", wish).unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 32, 20_000, None).unwrap();
    let verdict = load.run(folder.path(), Duration::from_secs(120)).unwrap();
    assert_eq!((verdict.stored, verdict.missing), (20_000, 0), "{}", verdict.line);
    let namespace = pipeline.namespace.name.clone();
    cluster
        .kubectl(&["-n", &namespace, "delete", "--wait=false", "telemetrypipeline", NAME])
        .unwrap();
    wait::until("the children to go", Duration::from_secs(180), || {
        let gateway = cluster.get(&namespace, "gatewaypool", NAME);
        if gateway.is_err()
            || gateway.is_ok_and(|it| it["metadata"]["deletionTimestamp"].is_string())
        {
            assert_eq!(cluster.edge_pods(&namespace, EDGE).unwrap().len(), 0);
        }
        let left: Vec<String> = owned(&cluster, &namespace).into_keys().collect();
        if left.is_empty() { Ok(()) } else { Err(anyhow(&format!("{left:?}"))) }
    })
    .unwrap();
    let tables = "SELECT count() FROM system.tables WHERE database = 'DATABASE'";
    assert_eq!(pipeline.query(&stack, tables).unwrap().trim(), "0");
    pipeline.change(|_| {}).unwrap();
    pipeline.ready().unwrap();
    assert_eq!(pipeline.rows(&stack).unwrap(), 0);
}

/// Scenario: a pipeline with rows is deleted, then applied again. Guarantee: its children go, its
/// topic and tables stay (deletion retains unless asked otherwise), and the new one finds the rows.
#[test]
fn a_deleted_pipeline_leaves_topics_and_tables() {
    let (stack, cluster) = stack();
    let mut pipeline = Pipeline::apply(&stack, &cluster, "retain", Wish::usual(&stack)).unwrap();
    pipeline.ready().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 31, 20_000, None).unwrap();
    let verdict = load.run(folder.path(), Duration::from_secs(120)).unwrap();
    assert_eq!((verdict.stored, verdict.missing), (20_000, 0), "{}", verdict.line);
    let namespace = pipeline.namespace.name.clone();
    cluster.kubectl(&["-n", &namespace, "delete", "telemetrypipeline", NAME]).unwrap();
    wait::until("the children to go", Duration::from_secs(60), || {
        let left: Vec<String> = owned(&cluster, &namespace).into_keys().collect();
        if left.is_empty() { Ok(()) } else { Err(anyhow(&format!("{left:?}"))) }
    })
    .unwrap();
    assert_eq!(pipeline.rows(&stack).unwrap(), 20_000);
    pipeline.change(|_| {}).unwrap();
    pipeline.ready().unwrap();
    assert_eq!(pipeline.rows(&stack).unwrap(), 20_000);
    cluster.kubectl(&["delete", "namespace", &namespace, "--timeout=90s"]).unwrap();
}
