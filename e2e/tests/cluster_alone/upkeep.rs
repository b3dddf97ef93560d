//! What a platform team does to a cluster, on a real one under load: the operator is upgraded and
//! rolled back by Helm, the API server restarts, the node is drained. Gateways are touched by the
//! drain alone, the operator goes on by itself, and no acknowledged span is missing.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millrace_e2e::cluster::{Cluster, OPERATOR_NAMESPACE, helm};
use millrace_e2e::pipeline::{NAME, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::{Component, Stack};
use serde_json::{Value, json};

/// Spans of the load and their rate: up to three minutes; it is ended when all was done.
const RATE: u64 = 10_000;
const SPANS: u64 = RATE * 180;
/// For a load to be stored and looked up, and for anything to come back.
const LIMIT: Duration = Duration::from_secs(300);
/// Watches that broke are begun anew with a growing delay, and the operator's lease may pass to
/// another replica meanwhile.
const REPAIR_LIMIT: Duration = Duration::from_secs(60);
const GATEWAYS: &str = "app.kubernetes.io/component=gateway";

/// The operator looks after things: a Service that is deleted comes back. After how many seconds.
fn a_deleted_service_comes_back(cluster: &Cluster, pipeline: &Pipeline<'_>) -> f64 {
    let namespace = &pipeline.namespace.name;
    let service = |cluster: &Cluster| cluster.get(namespace, "service", "p-gateway");
    let uid = service(cluster).unwrap()["metadata"]["uid"].clone();
    cluster.kubectl(&["-n", namespace, "delete", "service", "p-gateway"]).unwrap();
    let deleted = Instant::now();
    wait::until("the gateways' Service to be back", REPAIR_LIMIT, || {
        ensure!(service(cluster)?["metadata"]["uid"] != uid, "it is the old one");
        Ok(())
    })
    .unwrap();
    deleted.elapsed().as_secs_f64()
}

/// A pool that reads containers' files, as a user with the role `edit` may write it. The namespace
/// admits none of its pods; its account exists all the same.
const READER: &str = "reader";

/// Writes that pool as such a user.
fn write_reader(stack: &Stack, cluster: &Cluster, namespace: &str) -> Result<()> {
    let role = ["--clusterrole=edit", "--user=the-editor"];
    let bind = ["-n", namespace, "create", "rolebinding", "editor"];
    cluster.kubectl(&[&bind[..], &role].concat())?;
    let secret = |key: &str| json!({"name": "kafka-user", "key": key});
    let authentication = json!({"type": "ScramSha512", "usernameSecret": secret("username"),
        "passwordSecret": secret("password")});
    let pool = json!({
        "apiVersion": "millrace.dev/v1alpha1", "kind": "EdgePool", "metadata": {"name": READER},
        "spec": {
            "kafka": {"bootstrapServers": [stack.kafka_bootstrap()],
                "authentication": authentication},
            "signals": {"logs": {"topicName": format!("{namespace}_logs")}},
            "mode": "DaemonSet", "receivers": {"containers": {}},
        },
    });
    let args = ["-n", namespace, "create", "--as=the-editor", "-f", "-"];
    let spoken = cluster.call(&args, &pool.to_string())?;
    ensure!(spoken.ok, "{}", spoken.err);
    Ok(())
}

/// Whether that user sees the pods of all namespaces, as the pool's account, which the role `edit`
/// may impersonate: a watch begins with all that exist.
fn editor_watches_all_pods(cluster: &Cluster, namespace: &str) -> Result<bool> {
    let account = format!("serviceaccounts/{READER}-edge");
    let impersonate = ["-n", namespace, "auth", "can-i", "impersonate", &account];
    let may = cluster.call(&[&impersonate[..], &["--as=the-editor"]].concat(), "")?;
    ensure!(may.out.trim() == "yes", "{}{}", may.out, may.err);
    let account = format!("--as=system:serviceaccount:{namespace}:{READER}-edge");
    let path = "/api/v1/pods?watch=true&resourceVersion=0&timeoutSeconds=1";
    let spoken = cluster.call(&["get", "--raw", path, &account], "")?;
    ensure!(spoken.ok || spoken.err.contains("Forbidden"), "{}", spoken.err);
    Ok(spoken.ok)
}

/// A node that is drained takes no pods until this is dropped.
struct Cordoned<'c> {
    cluster: &'c Cluster,
    node: String,
}

impl<'c> Cordoned<'c> {
    fn drain(cluster: &'c Cluster, selector: &str) -> Result<Self> {
        let node =
            cluster.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"])?;
        let this = Self { cluster, node };
        let selector = format!("--pod-selector={selector}");
        cluster.kubectl(&["drain", &this.node, &selector, "--timeout=120s"])?;
        Ok(this)
    }
}

impl Drop for Cordoned<'_> {
    fn drop(&mut self) {
        let _ = self.cluster.kubectl(&["uncordon", &self.node]);
    }
}

/// Scenario: under load the operator is upgraded by Helm, to a release without `podAccess.grant`, and
/// rolled back; the API server restarts; the only node is drained of its gateways and takes pods
/// again. Guarantee: a user with the role `edit` in one namespace watches the pods of all only while
/// `podAccess.grant` is set, by a pool that reads containers' files; neither upgrade nor
/// restart touches a pod or what pods are made from; the operator repairs after each by itself; the
/// budget lets the drain end; missing=0 and nothing doubled.
#[test]
fn upgrades_restarts_and_drains_cost_nothing() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish { gateways: Some(1), ..Wish::usual(&stack) };
    let pipeline = Pipeline::apply(&stack, &cluster, "upkeep", wish).unwrap();
    pipeline.ready().unwrap();
    let namespace = &pipeline.namespace.name;
    write_reader(&stack, &cluster, namespace).unwrap();
    wait::until("the pool's account to have the right", REPAIR_LIMIT, || {
        ensure!(editor_watches_all_pods(&cluster, namespace)?, "it has not");
        Ok(())
    })
    .unwrap();
    let before = pipeline.lives().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 81, SPANS, Some(RATE)).unwrap();
    let mut running = load.start(folder.path()).unwrap();
    running.reached(SPANS / 20, LIMIT).unwrap();

    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/millrace");
    let chart = chart.to_string_lossy();
    let release = ["--namespace", OPERATOR_NAMESPACE, "--wait", "--timeout", "3m"];
    let upgraded = ["--reuse-values", "--set", "podAccess.grant=false"];
    helm(&stack, &[&["upgrade", "millrace", &*chart][..], &release, &upgraded].concat()).unwrap();
    assert!(!editor_watches_all_pods(&cluster, namespace).unwrap());
    let upgraded_s = a_deleted_service_comes_back(&cluster, &pipeline);
    helm(&stack, &[&["rollback", "millrace"][..], &release].concat()).unwrap();
    let rolled_back_s = a_deleted_service_comes_back(&cluster, &pipeline);
    assert_eq!(pipeline.lives().unwrap(), before);

    stack.restart(Component::ApiServer).unwrap();
    let restarted_s = a_deleted_service_comes_back(&cluster, &pipeline);
    println!(
        "a deleted Service is back after {upgraded_s:.1} s with the operator upgraded, \
         {rolled_back_s:.1} s rolled back, {restarted_s:.1} s after the API server's restart"
    );
    assert_eq!(pipeline.lives().unwrap(), before);

    let ours = format!("{GATEWAYS},app.kubernetes.io/instance={NAME}");
    drop(Cordoned::drain(&cluster, &ours).unwrap());
    wait::until("a gateway to be there again", LIMIT, || {
        let pods = cluster.list(namespace, "pods", GATEWAYS)?;
        let ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == true;
        let uid = |pod: &Value| pod["metadata"]["uid"].clone();
        let new = pods.iter().filter(ready).filter(|pod| !before.iter().any(|it| it.0 == uid(pod)));
        ensure!(new.count() == 1, "{} pods", pods.len());
        Ok(())
    })
    .unwrap();
    running.stop_sending().unwrap();
    let verdict = running.verdict(LIMIT).unwrap();
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    assert!(verdict.sent >= SPANS / 20, "{}", verdict.line);
    pipeline.ready().unwrap();
}
