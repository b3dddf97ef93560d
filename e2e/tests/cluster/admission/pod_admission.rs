//! Admission that refuses or rewrites pods, by a real API server: Pod Security, and a policy that
//! changes images as a mirror's does.

use std::time::Duration;

use anyhow::{Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, NAME, Pipeline, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::{Value, json};

/// For a refusal to be reported, and for a policy to apply.
const LIMIT: Duration = Duration::from_secs(90);
/// The fewest seconds for which a canary is compared.
const ANALYSIS_SECONDS: u32 = 10;

/// Applies both pools, with a `podTemplate` or none.
fn apply_pools(pipeline: &mut Pipeline<'_>, mode: &str, template: Option<Value>) -> Result<()> {
    let mut edge = json!({"name": "clients", "mode": mode, "resources": resources()});
    if mode == "Deployment" {
        edge["replicas"] = 1.into();
    }
    let mut gateway = json!({"replicas": 1, "resources": resources()});
    if let Some(template) = template {
        edge["podTemplate"] = template.clone();
        gateway["podTemplate"] = template;
    }
    pipeline.change(|wish| (wish.edges, wish.gateway) = (Some(json!([edge])), Some(gateway)))
}

/// How often the first container of a pod was started again; none until the node reports it.
fn restart_count(pod: &Value) -> Option<u64> {
    pod["status"]["containerStatuses"][0]["restartCount"].as_u64()
}

/// Which pods of both pools there are, and how often each was started again.
fn lives(pipeline: &Pipeline<'_>) -> Vec<(Value, Option<u64>)> {
    let life = |pod: &Value| (pod["metadata"]["uid"].clone(), restart_count(pod));
    pipeline.pods().unwrap().iter().map(life).collect()
}

/// The statuses of both pools' changes.
fn changes(cluster: &Cluster, namespace: &str) -> Result<[Value; 2]> {
    let gateway = cluster.get(namespace, "gatewaypool", NAME)?["status"]["rollout"].clone();
    Ok([gateway, cluster.get(namespace, "edgepool", EDGE)?["status"]["pendingChange"].clone()])
}

/// Scenario: a pipeline in a namespace of the strictest Pod Security; both pools get a volume of the
/// node, which it refuses, and later lose it. Guarantee: both report the refusal in its own words, no
/// pod of either changes, and without the volume the pipeline is Ready with the same pods.
#[test]
fn a_change_that_pod_security_refuses_reaches_no_pod() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let mut pipeline = Pipeline::apply(&stack, &cluster, "refused", Wish::usual(&stack)).unwrap();
    apply_pools(&mut pipeline, "Deployment", None).unwrap();
    pipeline.ready().unwrap();
    let before = lives(&pipeline);
    let namespace = pipeline.namespace.name.clone();

    let volume = json!({"name": "node", "hostPath": {"path": "/tmp"}});
    let template = json!({"spec": {"volumes": [volume]}});
    apply_pools(&mut pipeline, "Deployment", Some(template)).unwrap();
    wait::until("both pools to report the refusal", LIMIT, || {
        for change in changes(&cluster, &namespace)? {
            let message = change["message"].as_str().unwrap_or_default();
            let is_refused =
                change["reason"] == "PodCreationFailed" && message.contains("violates PodSecurity");
            ensure!(is_refused, "{change}");
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(lives(&pipeline), before);

    apply_pools(&mut pipeline, "Deployment", None).unwrap();
    pipeline.ready().unwrap();
    assert_eq!(lives(&pipeline), before);
}

/// A policy that replaces the images of a namespace's pods, and its binding.
struct Mirror<'c> {
    cluster: &'c Cluster,
    name: String,
}

impl<'c> Mirror<'c> {
    fn apply(cluster: &'c Cluster, namespace: &str) -> Result<Self> {
        let this = Self { cluster, name: format!("{namespace}-mirror") };
        let version = "admissionregistration.k8s.io/v1beta1";
        let image = "object.spec.containers[0].image.replace('-system', '-mimalloc')";
        let patch = format!(
            "[JSONPatch{{op: 'replace', path: '/spec/containers/0/image', value: {image}}}]"
        );
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["pods"]});
        let policy = json!({
            "apiVersion": version, "kind": "MutatingAdmissionPolicy",
            "metadata": {"name": this.name},
            "spec": {
                "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConstraints": {"resourceRules": [rule]},
                "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": patch}}],
            },
        });
        let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": namespace}});
        let binding = json!({
            "apiVersion": version, "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": this.name},
            "spec": {"policyName": this.name, "matchResources": {"namespaceSelector": selector}},
        });
        cluster.apply(namespace, &policy.to_string())?;
        cluster.apply(namespace, &binding.to_string())?;
        Ok(this)
    }

    /// Waits until a copy of this pod would get the other image.
    fn wait_until_applied(&self, namespace: &str, pod: &Value) -> Result<()> {
        let copy = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copy"},
            "spec": {"securityContext": pod["spec"]["securityContext"],
                "containers": [{"name": "copy", "image": pod["spec"]["containers"][0]["image"],
                    "securityContext": pod["spec"]["containers"][0]["securityContext"]}]}});
        wait::until("images to be rewritten", LIMIT, || {
            let create = ["-n", namespace, "create", "--dry-run=server", "-o", "json", "-f", "-"];
            let answer = self.cluster.call(&create, &copy.to_string())?;
            ensure!(answer.ok && answer.out.contains("-mimalloc"), "{}{}", answer.out, answer.err);
            Ok(())
        })
    }
}

impl Drop for Mirror<'_> {
    fn drop(&mut self) {
        let kinds = "mutatingadmissionpolicybinding,mutatingadmissionpolicy";
        let _ = self.cluster.kubectl(&["delete", kinds, &self.name, "--wait=false"]);
    }
}

/// Scenario: a pipeline with gateways and an edge on each node, whose changes go to canaries first;
/// from now on admission gives its pods another image than their templates have; both pools get an
/// annotation. Guarantee: both changes end and the pipeline is Ready; each pool has one pod, with
/// the rewritten image and the annotation, and it was replaced once.
#[test]
fn pods_with_rewritten_images_are_rolled_out_once() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let wish = Wish { canary_seconds: Some(ANALYSIS_SECONDS), ..Wish::usual(&stack) };
    let mut pipeline = Pipeline::apply(&stack, &cluster, "rewritten", wish).unwrap();
    apply_pools(&mut pipeline, "DaemonSet", None).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.clone();
    let mirror = Mirror::apply(&cluster, &namespace).unwrap();
    mirror.wait_until_applied(&namespace, &pipeline.pods().unwrap()[0]).unwrap();

    let template = json!({"metadata": {"annotations": {"example.com/changed": "yes"}}});
    apply_pools(&mut pipeline, "DaemonSet", Some(template)).unwrap();
    wait::until("both pools to have a changed pod", LIMIT, || {
        let pods = pipeline.pods()?;
        let is_changed = |pod: &&Value| {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap_or_default();
            pod["metadata"]["annotations"]["example.com/changed"] == "yes"
                && image.ends_with("-mimalloc")
                && restart_count(pod).is_some()
        };
        let changed = pods.iter().filter(is_changed).count();
        ensure!(pods.len() == 2 && changed == 2, "{changed} of {}", pods.len());
        Ok(())
    })
    .unwrap();
    let changed = lives(&pipeline);
    pipeline.ready().unwrap();
    assert_eq!(lives(&pipeline), changed);
    let [gateway, edge] = changes(&cluster, &namespace).unwrap();
    assert_eq!((&gateway["stage"], &edge), (&"Stable".into(), &Value::Null), "{gateway} {edge}");
}
