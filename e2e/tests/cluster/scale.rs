//! Other autoscalers on a real cluster: `/scale` of fresh pools, HorizontalPodAutoscalers of both
//! kinds of pool and of a Deployment, and `kubectl scale`.
//!
//! The local stack has no metrics API. An autoscaler needs none to bring a target up to its fewest
//! pods, which goes the whole way: it reads `/scale`, writes it, and its conditions tell of both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use millrace_e2e::cluster::Cluster;
use millrace_e2e::pipeline::{EDGE, NAME, Pipeline, Wish, resources};
use millrace_e2e::wait;
use millrace_stack::Stack;
use serde_json::{Value, json};

/// Autoscalers look every 15 s, and pods start within some seconds.
const LIMIT: Duration = Duration::from_secs(120);
/// Two looks of the operator at what others wrote, and two of the autoscaler.
const STAYS: Duration = Duration::from_secs(40);

fn autoscaler(name: &str, (version, kind, target): (&str, &str, &str), fewest: u32) -> String {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": version, "kind": kind, "name": target},
            "minReplicas": fewest, "maxReplicas": 4,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}],
        },
    })
    .to_string()
}

/// All of these have so many pods in their spec, at one look.
fn have(cluster: &Cluster, namespace: &str, objects: &[(&str, &str, u32)]) -> Result<()> {
    let names: Vec<String> =
        objects.iter().map(|(kind, name, _)| format!("{kind}/{name}")).collect();
    let names = names.iter().map(String::as_str);
    let get: Vec<&str> = ["-n", namespace, "get", "-o", "json"].into_iter().chain(names).collect();
    let list: Value = serde_json::from_str(&cluster.kubectl(&get)?)?;
    for (kind, name, size) in objects {
        let is_it = |item: &&Value| {
            item["metadata"]["name"] == **name
                && item["kind"].as_str().is_some_and(|it| it.eq_ignore_ascii_case(kind))
        };
        let found = list["items"].as_array().into_iter().flatten().find(is_it);
        let found = found.with_context(|| format!("{kind} {name} is not there"))?;
        let has = &found["spec"]["replicas"];
        ensure!(has == size, "{kind} {name} has {has} of {size}");
    }
    Ok(())
}

/// Waits until all of these have so many pods in their spec, and then for a while that it stays so.
fn keep(cluster: &Cluster, namespace: &str, objects: &[(&str, &str, u32)]) {
    let all = || have(cluster, namespace, objects);
    wait::until("the sizes asked for", LIMIT, all).unwrap();
    let begun = Instant::now();
    wait::until("the sizes to have stayed", STAYS * 2, || {
        all().unwrap();
        ensure!(begun.elapsed() >= STAYS, "not yet");
        Ok(())
    })
    .unwrap();
}

/// Scenario: the pools of a fresh pipeline that says no number of pods; an autoscaler that wants
/// more of each; one for the Deployment of an edge pool instead; `kubectl scale`. Guarantee:
/// `/scale` answers at once with the size there is, every autoscaler gets and sets it, and nobody
/// writes another number.
#[test]
fn other_autoscalers_find_a_number_and_keep_theirs() {
    let stack = Stack::open().unwrap();
    let cluster = Cluster::of(&stack).unwrap();
    let resources = resources();
    let scaling = json!({"minReplicas": 1, "maxReplicas": 4});
    let gateway = json!({"scaling": scaling, "resources": resources});
    let edges = Some(json!([{"name": "clients", "resources": resources}]));
    let wish = Wish { edges, gateway: Some(gateway), ..Wish::usual(&stack) };
    let pipeline = Pipeline::apply(&stack, &cluster, "scale", wish).unwrap();
    pipeline.ready().unwrap();
    let namespace = pipeline.namespace.name.as_str();
    for (plural, name, size) in [("edgepools", EDGE, 2), ("gatewaypools", NAME, 1)] {
        let path =
            format!("/apis/millrace.dev/v1alpha1/namespaces/{namespace}/{plural}/{name}/scale");
        let scale: Value =
            serde_json::from_str(&cluster.kubectl(&["get", "--raw", &path]).unwrap()).unwrap();
        assert_eq!(scale["spec"]["replicas"], size, "{scale}");
        assert!(scale["status"]["selector"].as_str().unwrap().contains(name), "{scale}");
    }

    let ours = "millrace.dev/v1alpha1";
    let pools = [("edge", "EdgePool", EDGE, 3), ("gateway", "GatewayPool", NAME, 2)];
    for (name, kind, pool, fewest) in pools {
        let document = autoscaler(name, (ours, kind, pool), fewest);
        cluster.apply(namespace, &document).unwrap();
    }
    let (edge, gateway) = (format!("{EDGE}-edge"), format!("{NAME}-gateway"));
    keep(
        &cluster,
        namespace,
        &[
            ("edgepool", EDGE, 3),
            ("deployment", &edge, 3),
            ("gatewaypool", NAME, 2),
            ("statefulset", &gateway, 2),
        ],
    );
    for name in ["edge", "gateway"] {
        let condition = cluster.condition(namespace, "hpa", name, "AbleToScale").unwrap();
        assert_eq!(condition.status, "True", "{name}: {condition:?}");
        cluster.kubectl(&["-n", namespace, "delete", "hpa", name]).unwrap();
    }

    // One for the Deployment of the one pool, and a user's number for the other.
    let deployment = autoscaler("deployment", ("apps/v1", "Deployment", &edge), 4);
    cluster.apply(namespace, &deployment).unwrap();
    let target = format!("gatewaypool/{NAME}");
    cluster.kubectl(&["-n", namespace, "scale", "--replicas=1", &target]).unwrap();
    keep(
        &cluster,
        namespace,
        &[
            ("deployment", &edge, 4),
            ("edgepool", EDGE, 3),
            ("statefulset", &gateway, 1),
            ("gatewaypool", NAME, 1),
        ],
    );
    cluster.kubectl(&["-n", namespace, "delete", "hpa", "deployment"]).unwrap();
    wait::until("the pool's own size again", LIMIT, || {
        have(&cluster, namespace, &[("deployment", &edge, 3), ("edgepool", EDGE, 3)])
    })
    .unwrap();
    pipeline.ready().unwrap();
}
