//! What the controllers of workloads find and make: no node for DaemonSets; for StatefulSets all
//! pods at once, ready. Trial pods end well as soon as they are made.

use serde_json::{Value, json};

use crate::pods;

/// When all pods became what they are.
const SINCE: &str = "2026-01-01T00:00:00Z";
/// The only revision of every StatefulSet.
const REVISION: &str = "only";

/// The status of a DaemonSet whose nodes don't exist.
pub(super) fn daemon_set_status(set: &Value) -> Value {
    json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0,
        "numberMisscheduled": 0, "numberReady": 0,
        "observedGeneration": set["metadata"]["generation"]})
}

/// The status of a StatefulSet all of whose pods are ready.
pub(super) fn stateful_set_status(set: &Value) -> Value {
    let size = size(set);
    json!({"observedGeneration": set["metadata"]["generation"], "replicas": size,
        "readyReplicas": size, "availableReplicas": size, "updatedReplicas": size,
        "currentRevision": REVISION, "updateRevision": REVISION})
}

/// The pods of a StatefulSet, by name.
pub(super) fn stateful_set_pods(set: &Value) -> Vec<(String, Value)> {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    (0..size(set))
        .map(|ordinal| format!("{name}-{ordinal}"))
        .map(|it| (it.clone(), pod(set, &it)))
        .collect()
}

fn size(set: &Value) -> u64 {
    set["spec"]["replicas"].as_u64().unwrap_or(1)
}

fn pod(set: &Value, name: &str) -> Value {
    let template = &set["spec"]["template"];
    let mut metadata = template["metadata"].clone();
    metadata["labels"]["controller-revision-hash"] = REVISION.into();
    metadata["labels"]["statefulset.kubernetes.io/pod-name"] = name.into();
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet",
        "name": set["metadata"]["name"], "uid": set["metadata"]["uid"], "controller": true}]);
    let mut spec = template["spec"].clone();
    spec["nodeName"] = "node".into();
    let container = &template["spec"]["containers"][0];
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": SINCE});
    let kinds = ["PodScheduled", "Initialized", "PodReadyToStartContainers", "ContainersReady"];
    let conditions: Vec<Value> = kinds.into_iter().chain(["Ready"]).map(condition).collect();
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {
        "phase": "Running", "podIP": pods::ADDRESS, "hostIP": pods::ADDRESS, "startTime": SINCE,
        "conditions": conditions,
        "containerStatuses": [{"name": container["name"], "image": container["image"],
            "imageID": container["image"], "ready": true, "restartCount": 0, "started": true,
            "state": {"running": {"startedAt": SINCE}}, "resources": container["resources"]}]}})
}

/// The end of a trial pod that found nothing wrong.
pub(super) fn trial_status(pod: &Value) -> Value {
    let container = &pod["spec"]["containers"][0];
    json!({"phase": "Succeeded", "startTime": SINCE,
        "containerStatuses": [{"name": container["name"], "image": container["image"],
            "imageID": container["image"], "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]})
}
