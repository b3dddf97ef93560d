//! Larger pods on a real cluster under load: processor time in place, where a pool may not have
//! more gateways; and a refusal of the API server, which leaves pods as they are.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::loadgen::Verdict;
use millrace_e2e::pipeline::{NAME, Pipeline, Wish};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::{Value, json};

/// Three times what a gateway with [`CPU_START`] does, and more than one does with the next limit,
/// for over four minutes: it is ended as soon as what was waited for has come. 40,000 a second came
/// to nine tenths of the next limit, which is enough.
const CPU_RATE: u64 = 60_000;
/// What fills nine tenths of a gateway's [`MEMORY_START`], and that one can follow.
const MEMORY_RATE: u64 = 40_000;
const SECONDS: u64 = 260;
/// Where gateways start: a fiftieth of a core.
const CPU_START: &str = "20m";
/// Where they start in the second test: a gateway at work uses nine tenths of it.
const MEMORY_START: &str = "30Mi";
/// Twice: half a minute until means and figures tell of it, ten seconds of full use, a look, and
/// the node's part; and as much again for a busy machine.
const GROWTH_LIMIT: Duration = Duration::from_secs(240);
/// For a load to be stored and looked up.
const LIMIT: Duration = Duration::from_secs(300);

/// The first gateway as one look shows it.
struct Gateway {
    pool: Value,
    pod: Value,
}

impl Gateway {
    fn of(cluster: &Cluster, pipeline: &Pipeline<'_>) -> Result<Self> {
        let namespace = &pipeline.namespace.name;
        Ok(Self {
            pool: cluster.get(namespace, "gatewaypool", NAME)?,
            pod: cluster.get(namespace, "pod", "p-gateway-0")?,
        })
    }

    fn sizing(&self) -> &Value {
        &self.pool["status"]["sizing"]
    }

    fn container(&self) -> &Value {
        &self.pod["status"]["containerStatuses"][0]
    }

    /// A limit in force, as the node tells it.
    fn limit(&self, resource: &str) -> Option<&str> {
        self.container()["resources"]["limits"][resource].as_str()
    }
}

fn stored_once(verdict: &Verdict) {
    assert_eq!((verdict.missing, verdict.altered), (0, 0), "{}", verdict.line);
    assert_eq!(verdict.duplicated, 0, "{}", verdict.line);
    assert!(verdict.sent >= MEMORY_RATE, "{}", verdict.line);
}

/// Scenario: one gateway, which may not get company, gets more than it does. Guarantee: its limit of
/// processor time is raised in the running container, which is neither restarted nor replaced;
/// status and event say so; all of the load is stored once.
#[test]
fn a_gateway_at_its_processor_limit_gets_more_in_place() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let gateway = json!({
        "scaling": {"minReplicas": 1, "maxReplicas": 1, "maxResources": {"cpu": "500m"}},
        "resources": {"requests": {"cpu": CPU_START}, "limits": {"cpu": CPU_START}},
    });
    let wish = Wish { gateway: Some(gateway), ..Wish::usual(&stack) };
    let pipeline = Pipeline::apply(&stack, &cluster, "resize-cpu", wish).unwrap();
    pipeline.ready().unwrap();
    let begin = Gateway::of(&cluster, &pipeline).unwrap();
    assert_eq!(begin.limit("cpu"), Some(CPU_START));
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 73, CPU_RATE * SECONDS, Some(CPU_RATE)).unwrap();
    let (load, rose) = (load.start(folder.path()).unwrap(), Instant::now());
    let mut limits = vec![CPU_START.to_owned()];
    wait::until("more processor time, twice", GROWTH_LIMIT, || {
        let now = Gateway::of(&cluster, &pipeline)?;
        let (is, was) = (now.container(), begin.container());
        let same = now.pod["metadata"]["uid"] == begin.pod["metadata"]["uid"]
            && is["containerID"] == was["containerID"]
            && is["restartCount"] == 0;
        assert!(same, "another container: {is}, was {was}");
        limits.extend(now.limit("cpu").map(str::to_owned));
        limits.dedup();
        ensure!(limits.len() > 2, "{limits:?}; {}", now.sizing());
        Ok(())
    })
    .unwrap();
    println!("limits {limits:?}, {} s after the load rose", rose.elapsed().as_secs());
    let sizing = Gateway::of(&cluster, &pipeline).unwrap();
    let sizing = sizing.sizing();
    assert_eq!(sizing["resourcesReason"], "CpuAtLimit", "{sizing}");
    assert_eq!(sizing["replicas"], 1);
    cluster.expect_event(&pipeline.namespace.name, "CpuResized", LIMIT).unwrap();
    load.stop_sending().unwrap();
    stored_once(&load.verdict(LIMIT).unwrap());
    let end = Gateway::of(&cluster, &pipeline).unwrap();
    assert_eq!(end.container()["containerID"], begin.container()["containerID"]);
}

/// An admission policy of this test that lets no pod of one namespace be resized.
struct NoResize<'c> {
    cluster: &'c Cluster,
    name: String,
}

impl<'c> NoResize<'c> {
    fn apply(cluster: &'c Cluster, namespace: &str) -> Result<Self> {
        let name = format!("no-resize-{namespace}");
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
            "resources": ["pods/resize"]});
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": "false",
                    "message": "pods are not resized in this namespace"}]}});
        let only = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let binding = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": only}}});
        let this = Self { cluster, name };
        for document in [policy, binding] {
            cluster.apply(namespace, &document.to_string())?;
        }
        Ok(this)
    }
}

impl Drop for NoResize<'_> {
    fn drop(&mut self) {
        for kind in ["validatingadmissionpolicybinding", "validatingadmissionpolicy"] {
            let _ = self.cluster.kubectl(&["delete", kind, &self.name, "--ignore-not-found"]);
        }
    }
}

/// Scenario: one gateway with little memory under a load that comes near its limit, in a namespace
/// where an admission policy refuses to resize pods; then the spec gives it more. Guarantee: the
/// refusal is in the condition in the API server's words, and the pod stays; the change of the spec
/// replaces it; all of the load is stored once.
#[test]
fn a_refused_resize_is_reported_and_replaces_no_pod() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let gateway = |memory: &str| {
        json!({
            "scaling": {"minReplicas": 1, "maxReplicas": 1, "maxResources": {"memory": "256Mi"}},
            "resources": {"requests": {"memory": memory}, "limits": {"memory": memory}},
        })
    };
    let wish = Wish { gateway: Some(gateway(MEMORY_START)), ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "resize-memory", wish).unwrap();
    let refused = NoResize::apply(&cluster, &pipeline.namespace.name).unwrap();
    pipeline.ready().unwrap();
    let begin = Gateway::of(&cluster, &pipeline).unwrap();
    assert_eq!(begin.limit("memory"), Some(MEMORY_START));
    let folder = tempfile::tempdir().unwrap();
    let load = pipeline.load(&stack, 74, MEMORY_RATE * SECONDS, Some(MEMORY_RATE)).unwrap();
    let (load, rose) = (load.start(folder.path()).unwrap(), Instant::now());
    wait::until("a refusal in the status", GROWTH_LIMIT, || {
        let now = Gateway::of(&cluster, &pipeline)?;
        let conditions = now.pool["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let said = conditions.iter().find(|it| it["type"] == "PodsResized");
        let words = "pods are not resized in this namespace";
        let is_refused = said.is_some_and(|it| {
            it["reason"] == "ResizeRejected"
                && it["message"].as_str().is_some_and(|message| message.contains(words))
        });
        ensure!(is_refused, "{said:?}; {}", now.sizing());
        Ok(())
    })
    .unwrap();
    println!("refused {} s after the load rose", rose.elapsed().as_secs());
    cluster.expect_event(&pipeline.namespace.name, "ResizeRejected", LIMIT).unwrap();
    let now = Gateway::of(&cluster, &pipeline).unwrap();
    assert_eq!(now.pod["metadata"]["uid"], begin.pod["metadata"]["uid"]);
    pipeline.change(|wish| wish.gateway = Some(gateway("64Mi"))).unwrap();
    wait::until("a pod with more memory", GROWTH_LIMIT, || {
        let now = Gateway::of(&cluster, &pipeline)?;
        let replaced = now.pod["metadata"]["uid"] != begin.pod["metadata"]["uid"];
        let larger = now.limit("memory").is_some_and(|limit| limit != MEMORY_START);
        ensure!(replaced && larger && now.container()["ready"] == true, "{}", now.sizing());
        Ok(())
    })
    .unwrap();
    load.stop_sending().unwrap();
    stored_once(&load.verdict(LIMIT).unwrap());
    pipeline.ready().unwrap();
    drop(refused);
}
