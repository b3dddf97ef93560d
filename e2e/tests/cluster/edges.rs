//! A change that only running pods show to be bad, on a real cluster under load: edge pools of both
//! kinds take it back by themselves.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, Pipeline, READY_LIMIT, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::{Value, json};

/// Spans of a load and their rate: two minutes, with the change in it.
const SPANS: u64 = 600_000;
const RATE: u64 = 5_000;
/// What is promised for a bad change; a kubelet starts a pod that ends at once three times within
/// half a minute.
const ROLLBACK_LIMIT: Duration = Duration::from_secs(180);
/// For a load to be stored and looked up.
const LIMIT: Duration = Duration::from_secs(300);
/// The pool of the other kind, beside the pipeline's.
const ON_NODES: &str = "on-nodes";

/// The pool's pods: which, and how often each was started again.
fn lives(cluster: &Cluster, namespace: &str, pool: &str) -> Result<Vec<(String, u64)>> {
    let pods = cluster.edge_pods(namespace, pool)?;
    let life = |pod: &Value| {
        let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64();
        (pod["metadata"]["uid"].as_str().unwrap_or("").to_owned(), restarts.unwrap_or(0))
    };
    Ok(pods.iter().map(life).collect())
}

/// Listeners that are to be encrypted with a certificate that is none.
fn broken() -> Value {
    json!({"otlp": {"tls": {"certificateSecret": {"name": "broken"}}}})
}

/// An edge pool of one pod on each node, for the pipeline's topic.
fn on_nodes(stack: &Stack, pipeline: &Pipeline<'_>, receivers: Option<Value>) -> Value {
    let topic = format!("{}_traces", pipeline.database());
    let mut pool = json!({
           "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool",
           "metadata": {"name": ON_NODES},
           "spec": {
               "kafka": {"bootstrapServers": [stack.kafka_bootstrap()],
                   "authentication": {"type": "ScramSha512", "usernameSecret": {"name": "kafka-user", "key": "username"},
    "passwordSecret": {"name": "kafka-user", "key": "password"}}},
               "signals": {"traces": {"topicName": topic}},
               "mode": "DaemonSet",
           },
       });
    if let Some(receivers) = receivers {
        pool["spec"]["receivers"] = receivers;
    }
    pool
}

/// Holds both pools' changes in the middle, and lets them go on.
fn hold_and_go_on(cluster: &Cluster, namespace: &str) {
    let says = |action: &str| {
        let patch = format!("{{\"spec\":{{\"rolloutAction\":{action}}}}}");
        for pool in [EDGE, ON_NODES] {
            let of = ["-n", namespace, "patch", "edgepool", pool, "--type=merge", "-p", &patch];
            cluster.kubectl(&of).unwrap();
        }
    };
    let are = |what: &str, so: &dyn Fn(&Value) -> bool| {
        wait::until(what, ROLLBACK_LIMIT, || {
            for name in [EDGE, ON_NODES] {
                let pending = &cluster.get(namespace, "edgepool", name)?["status"]["pendingChange"];
                ensure!(so(pending), "{name}: {pending}");
            }
            Ok(())
        })
        .unwrap();
    };
    are("both changes to be rolled out", &|pending| pending["stage"] == "RollingOut");
    says("\"Pause\"");
    are("both changes to be held", &|pending| pending["reason"] == "RolloutPaused");
    let spec = |kind: &str, name: &str| {
        cluster.get(namespace, kind, &format!("{name}-edge")).unwrap()["spec"].clone()
    };
    assert_eq!(spec("deployment", EDGE)["paused"], true);
    assert_eq!(spec("daemonset", ON_NODES)["updateStrategy"]["type"], "OnDelete");
    says("null");
}

/// Waits until the pool tells that its change was taken back and all its pods run what they ran.
fn is_back(cluster: &Cluster, namespace: &str, name: &str) -> Value {
    wait::until("the change to be taken back", ROLLBACK_LIMIT, || {
        let pool = cluster.get(namespace, "edgepool", name)?;
        let status = &pool["status"];
        let back = status["pendingChange"]["stage"] == "RolledBack"
            && status["readyReplicas"] == 1
            && lives(cluster, namespace, name)?.len() == 1;
        ensure!(back, "{status}");
        Ok(status.clone())
    })
    .unwrap()
}

/// Scenario: a pool of each kind, one of them under load; both are asked to encrypt with a Secret
/// that holds no certificate, which no look at the settings can tell, and held for a moment in the
/// middle; then what ran before again. Guarantee: held, neither's controller may replace pods; both
/// take it back within three minutes and say why; the pod of the Deployment ran all the time, the
/// DaemonSet's was replaced and is back; asked for what ran they are Ready at once, with no pod
/// changed; of the load nothing is missing or doubled.
#[test]
fn a_change_that_only_pods_show_to_be_bad_is_taken_back() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish { gateways: Some(1), ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "edges", wish).unwrap();
    let namespace = pipeline.namespace.name.clone();
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "broken"},
        "type": "kubernetes.io/tls", "stringData": {"tls.crt": "none", "tls.key": "none"}});
    cluster.apply(&namespace, &secret.to_string()).unwrap();
    cluster.apply(&namespace, &on_nodes(&stack, &pipeline, None).to_string()).unwrap();
    pipeline.ready().unwrap();
    let pool = (&*namespace, "edgepool", ON_NODES);
    cluster.wait_for(pool, ("Ready", "True", ""), READY_LIMIT).unwrap();
    let before = lives(&cluster, &namespace, EDGE).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 79, SPANS, Some(RATE)).unwrap();
    let mut running = load.start(folder.path()).unwrap();
    running.reached(SPANS / 20, LIMIT).unwrap();

    let asked = Instant::now();
    let mut clients = json!({"name": "clients", "replicas": 1, "receivers": broken()});
    clients["resources"] = resources();
    let edges = json!([clients]);
    pipeline.change(|wish| wish.edges = Some(edges)).unwrap();
    let bad = on_nodes(&stack, &pipeline, Some(broken()));
    cluster.apply(&namespace, &bad.to_string()).unwrap();
    hold_and_go_on(&cluster, &namespace);
    for name in [EDGE, ON_NODES] {
        let status = is_back(&cluster, &namespace, name);
        println!("{name} back after {} s: {}", asked.elapsed().as_secs(), status["pendingChange"]);
        let pool = (&*namespace, "edgepool", name);
        cluster.wait_for(pool, ("Ready", "False", "RolledBack"), READY_LIMIT).unwrap();
    }
    assert_eq!(lives(&cluster, &namespace, EDGE).unwrap(), before);
    cluster.expect_event(&namespace, "RolledBack", LIMIT).unwrap();
    let on_each_node = lives(&cluster, &namespace, ON_NODES).unwrap();

    pipeline.change(|wish| wish.edges = None).unwrap();
    cluster.apply(&namespace, &on_nodes(&stack, &pipeline, None).to_string()).unwrap();
    pipeline.ready().unwrap();
    cluster.wait_for(pool, ("Ready", "True", ""), READY_LIMIT).unwrap();
    assert_eq!(lives(&cluster, &namespace, EDGE).unwrap(), before);
    assert_eq!(lives(&cluster, &namespace, ON_NODES).unwrap(), on_each_node);

    running.stop_sending().unwrap();
    let verdict = running.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    assert!(verdict.sent >= RATE, "{}", verdict.line);
}
