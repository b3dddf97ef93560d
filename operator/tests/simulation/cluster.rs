//! The rest of the cluster: the controllers that make pods of workloads, and what users do.

use serde_json::{Value, json};

use crate::reconcilers::support::apiserver::ApiServer;
use crate::simulation::instance::{NAMESPACE, own_path, plural};
use crate::simulation::rng::Rng;

/// What becomes of a workload's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pods {
    /// All updated and available.
    Complete,
    /// On their way.
    Some,
}

/// The nodes of a DaemonSet.
const NODES: i64 = 2;

/// Lets the workload controllers look at every workload, and the kubelet at pods that try a change;
/// tells whether a status changed.
pub(crate) fn run_workloads(server: &ApiServer, mut fate: impl FnMut() -> Option<Pods>) -> bool {
    let mut changed = false;
    let tries = |path: &str| plural(path) == "pods" && path.contains("-try-");
    for (path, pod) in server.select(tries) {
        let phase = match fate() {
            Some(Pods::Complete) if pod["status"]["phase"] != "Succeeded" => "Succeeded",
            Some(Pods::Some) if pod["status"].is_null() => "Pending",
            _ => continue,
        };
        server.edit(&path, |pod| pod["status"] = json!({"phase": phase}));
        changed = true;
    }
    let workloads = ["deployments", "daemonsets", "statefulsets"];
    for (path, object) in server.select(|path| workloads.contains(&plural(path))) {
        let kind = plural(&path);
        let Some(fate) = fate() else { continue };
        if kind == "daemonsets" {
            changed |= run_nodes(server, &path, &object, fate);
        }
        let status = status_of(server, &path, &object, fate);
        if object["status"] != status {
            server.edit(&path, |object| object["status"] = status);
            changed = true;
        }
    }
    changed
}

/// Where the pod of a node is.
fn pod_path(set: &str, node: i64) -> String {
    let (_, name) = set.rsplit_once('/').unwrap();
    format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}-{node}")
}

/// Whether a pod was made of a DaemonSet's template.
fn is_of(pod: &Value, set: &Value) -> bool {
    let template = &set["spec"]["template"];
    let mut spec = pod["spec"].clone();
    spec.as_object_mut().map(|spec| spec.remove("nodeName"));
    spec == template["spec"]
        && pod["metadata"]["annotations"] == template["metadata"]["annotations"]
}

/// Makes the pods that a DaemonSet lacks, and replaces one of another template if that is left to
/// it. Whether anything changed.
fn run_nodes(server: &ApiServer, path: &str, set: &Value, fate: Pods) -> bool {
    let mut changed = false;
    for node in 0..NODES {
        let at = pod_path(path, node);
        let by_itself = set["spec"]["updateStrategy"]["type"] == "RollingUpdate";
        match server.get(&at) {
            Some(pod) if is_of(&pod, set) => continue,
            Some(_) if !by_itself || fate != Pods::Complete => continue,
            _ => {}
        }
        let mut spec = set["spec"]["template"]["spec"].clone();
        spec["nodeName"] = format!("node-{node}").into();
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "controller": true,
            "name": set["metadata"]["name"], "uid": set["metadata"]["uid"]});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"labels": set["spec"]["selector"]["matchLabels"],
                "annotations": set["spec"]["template"]["metadata"]["annotations"],
                "ownerReferences": [owner]},
            "spec": spec,
            "status": {"conditions": [{"type": "Ready", "status": "True",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        server.put(&at, pod);
        changed = true;
    }
    changed
}

fn status_of(server: &ApiServer, path: &str, object: &Value, fate: Pods) -> Value {
    let kind = plural(path);
    let generation = object["metadata"]["generation"].clone();
    let wanted = object["spec"]["replicas"].as_i64().unwrap_or(1);
    let up = |wanted: i64| if fate == Pods::Complete { wanted } else { wanted - 1 };
    if kind == "daemonsets" {
        let pods = (0..NODES).filter_map(|node| server.get(&pod_path(path, node)));
        let updated = pods.filter(|pod| is_of(pod, object)).count() as i64;
        return json!({"observedGeneration": generation, "desiredNumberScheduled": NODES,
            "currentNumberScheduled": NODES, "updatedNumberScheduled": up(NODES).min(updated),
            "numberReady": up(NODES), "numberAvailable": up(NODES), "numberMisscheduled": 0});
    }
    let mut status = json!({"observedGeneration": generation, "replicas": wanted,
        "updatedReplicas": wanted, "readyReplicas": up(wanted), "availableReplicas": up(wanted)});
    if kind == "statefulsets" {
        status["currentRevision"] = "r".into();
        status["updateRevision"] = "r".into();
    }
    status
}

/// A Secret that pools and topics may refer to.
pub(crate) fn secret_path(name: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
}

/// Its content; `password` tells one version from another.
pub(crate) fn secret(password: &str) -> Value {
    let encode = |text: &str| serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap();
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {},
        "data": {"username": encode("user"), "password": encode(password)}})
}

/// A user edits or deletes one of the objects that the operator made.
pub(crate) fn meddle(server: &ApiServer, rng: &mut Rng) {
    let label = "app.kubernetes.io/managed-by";
    let ours = server.select(|_| true).into_iter();
    let ours = ours.filter(|(_, it)| it["metadata"]["labels"][label] == "millrace-operator");
    let ours: Vec<String> = ours.map(|(path, _)| path).collect();
    if ours.is_empty() {
        return;
    }
    let path = rng.pick(&ours).clone();
    match rng.below(4) {
        0 => server.ask_to_delete(&path),
        1 => server.edit(&path, |object| {
            object["metadata"]["labels"]["app.kubernetes.io/component"] = "theirs".into();
        }),
        2 => server.edit(&path, |object| {
            if !object["spec"]["replicas"].is_null() {
                object["spec"]["replicas"] = 9.into();
            } else if object["spec"]["ports"].is_array() {
                object["spec"]["ports"][0]["port"] = 4444.into();
            } else {
                object["metadata"]["labels"]["app.kubernetes.io/instance"] = "theirs".into();
            }
        }),
        _ => server.edit(&path, |object| {
            let containers = &mut object["spec"]["template"]["spec"]["containers"];
            if containers.is_array() {
                containers[0]["image"] = "theirs:1".into();
            } else {
                object["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "them".into();
            }
        }),
    }
}

fn kafka(rng: &mut Rng) -> Value {
    let mut kafka = json!({"bootstrapServers": ["kafka:9092"]});
    if rng.chance(50) {
        let name = *rng.pick(&["user-a", "user-b"]);
        let mechanism = *rng.pick(&["ScramSha256", "ScramSha512"]);
        kafka["authentication"] = json!({"type": mechanism,
            "usernameSecret": {"name": name, "key": "username"},
            "passwordSecret": {"name": name, "key": "password"}});
    }
    kafka
}

fn collector(rng: &mut Rng) -> Value {
    json!({"version": *rng.pick(&["0.1.0", "0.1.1", "0.2.0"]),
        "allocator": *rng.pick(&["System", "jemalloc", "mimalloc"])})
}

fn signals(rng: &mut Rng, of: impl Fn(&str, &mut Rng) -> Value) -> Value {
    let mut signals = json!({"traces": of("traces", rng)});
    for more in ["logs", "metrics"] {
        if rng.chance(50) {
            signals[more] = of(more, rng);
        }
    }
    signals
}

fn pods(rng: &mut Rng) -> Value {
    let env = json!([{"name": "WALK", "value": rng.below(3).to_string()}]);
    let containers = [
        json!({"name": "collector", "env": env}),
        json!({"name": "beside", "image": "beside:1", "env": env}),
    ];
    json!({"metadata": {"annotations": {"walk": rng.below(3).to_string()}},
        "spec": {"nodeSelector": {"pool": *rng.pick(&["a", "b"])},
            "containers": [rng.pick(&containers)]}})
}

/// What a pod gets, or nothing said of it.
fn resources(rng: &mut Rng) -> Value {
    let all =
        [json!({}), json!({"limits": {"memory": "1Gi"}}), json!({"limits": {"memory": "2Gi"}})];
    rng.pick(&all).clone()
}

fn edge(rng: &mut Rng) -> Value {
    let mut edge = json!({
        "compression": *rng.pick(&["Zstd", "Lz4"]),
        "partitionBy": *rng.pick(&["Any", "TraceId"]),
        "drainSeconds": 20 + 10 * rng.below(3),
        "networkPolicy": {"enabled": rng.chance(70)},
        "disruptionBudget": {"enabled": rng.chance(70)},
        "podTemplate": pods(rng),
        "resources": resources(rng),
    });
    if rng.chance(30) {
        edge["mode"] = "DaemonSet".into();
    } else {
        edge["replicas"] = (1 + rng.below(4)).into();
    }
    edge
}

/// A pipeline's edge pools, which come and go; the one that is meant when none is named among them.
fn edges(rng: &mut Rng) -> Value {
    let lists: [&[&str]; 4] = [&[], &["clients"], &["nodes"], &["clients", "nodes"]];
    let names = rng.pick(&lists).iter();
    names.map(|name| join(json!({"name": name}), edge(rng))).collect()
}

fn gateway(rng: &mut Rng) -> Value {
    json!({
        "replicas": 1 + rng.below(4),
        "delivery": *rng.pick(&["AtLeastOnce", "EffectivelyOnce"]),
        "drainSeconds": 20 + 10 * rng.below(3),
        "networkPolicy": {"enabled": rng.chance(70)},
        "disruptionBudget": {"enabled": rng.chance(70)},
        "podTemplate": pods(rng),
        "resources": resources(rng),
    })
}

fn table(rng: &mut Rng) -> Value {
    // Another time to live needs a person's consent; that is walked too, but rarely.
    json!({"ttl": if rng.chance(95) { "3d" } else { "2d" }})
}

fn join(mut base: Value, more: Value) -> Value {
    let (Some(into), Value::Object(more)) = (base.as_object_mut(), more) else { return base };
    into.extend(more);
    base
}

/// A valid spec of the kind, by chance.
pub(crate) fn spec(plural: &str, rng: &mut Rng) -> Value {
    let clickhouse = json!({"endpoints": ["http://clickhouse:8123"], "database": "otel"});
    match plural {
        "edgepools" => {
            let base = json!({"kafka": kafka(rng), "collector": collector(rng),
                "signals": signals(rng, |_, _| json!({}))});
            let mut pool = join(base, edge(rng));
            // By what was drawn already, so that seeds mean what they meant.
            if pool["mode"] == "DaemonSet" && pool["drainSeconds"] != 20 {
                pool["rollout"] = json!({"canary": {"pods": 1, "analysisSeconds": 10}});
            }
            pool
        }
        "gatewaypools" => {
            let base = json!({"kafka": kafka(rng), "clickhouse": clickhouse,
                "collector": collector(rng), "signals": signals(rng, |_, _| json!({}))});
            join(base, gateway(rng))
        }
        "telemetrytopics" => json!({
            "kafka": kafka(rng), "topicName": "walked",
            "partitions": 1 + rng.below(12),
            "retention": format!("{}h", 1 + rng.below(4)),
            "deletionPolicy": *rng.pick(&["Retain", "Delete"]),
        }),
        "telemetryschemas" => json!({
            "clickhouse": clickhouse,
            "signals": signals(rng, |_, rng| table(rng)),
            "deletionPolicy": *rng.pick(&["Retain", "Delete"]),
        }),
        "telemetrypipelines" => json!({
            "kafka": kafka(rng), "clickhouse": clickhouse, "collector": collector(rng),
            "signals": signals(rng, |_, rng| {
                json!({"topic": {"partitions": 1 + rng.below(6)}, "table": table(rng)})
            }),
            "edges": edges(rng), "gateway": gateway(rng),
            "deletionPolicy": *rng.pick(&["Retain", "Delete"]),
        }),
        other => panic!("no spec of {other}"),
    }
}

/// An object of ours with this spec.
pub(crate) fn object(plural: &str, spec: Value) -> Value {
    let kind = match plural {
        "edgepools" => "EdgePool",
        "gatewaypools" => "GatewayPool",
        "telemetrytopics" => "TelemetryTopic",
        "telemetryschemas" => "TelemetrySchema",
        _ => "TelemetryPipeline",
    };
    json!({"apiVersion": "millrace.dev/v1alpha1", "kind": kind, "metadata": {}, "spec": spec})
}

/// Where the walked object of a kind is.
pub(crate) fn walked(plural: &str) -> String {
    own_path(plural, "prod")
}
