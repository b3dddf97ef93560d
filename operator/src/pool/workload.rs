//! The figures of Deployments, StatefulSets, DaemonSets and pods for `millrace_rollout`. Pure; an
//! absent field counts as the value that claims least.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use millrace_rollout::{Observation, PodFigures};

use super::template::{collector, collector_status};

/// How long a node may be silent about a pod, in seconds: Kubernetes has waited 40 to 50 when it
/// marks the pod unready, and a rebooted machine is back in two minutes.
const NODE_LOST_SECONDS: i64 = 120;

fn count(value: Option<i32>) -> u32 {
    value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
}

/// Figures of a Deployment.
#[must_use]
pub fn deployment(live: &Deployment) -> Observation {
    let status = live.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |type_: &str, value: &str| {
        conditions.iter().find(|c| c.type_ == type_ && c.status == value)
    };
    Observation {
        generation: live.metadata.generation.unwrap_or(i64::MAX),
        observed_generation: status.observed_generation,
        wanted: live.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, |n| count(Some(n))),
        existing: count(status.replicas),
        updated: count(status.updated_replicas),
        ready: count(status.ready_replicas),
        available: count(status.available_replicas),
        deadline_exceeded: condition("Progressing", "False")
            .is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded")),
        creation_refused: condition("ReplicaFailure", "True")
            .map(|c| c.message.clone().unwrap_or_default()),
        pods: Vec::new(),
    }
}

/// Figures of a StatefulSet.
#[must_use]
pub fn stateful_set(live: &StatefulSet) -> Observation {
    let status = live.status.clone().unwrap_or_default();
    let wanted = live.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, |n| count(Some(n)));
    // Once all pods are of the newest revision, the controller may count them as current only.
    let same =
        status.update_revision.is_some() && status.update_revision == status.current_revision;
    let updated = if same { count(Some(status.replicas)) } else { count(status.updated_replicas) };
    Observation {
        generation: live.metadata.generation.unwrap_or(i64::MAX),
        observed_generation: status.observed_generation,
        wanted,
        existing: count(Some(status.replicas)),
        updated,
        ready: count(status.ready_replicas),
        available: count(status.available_replicas),
        deadline_exceeded: false,
        creation_refused: None,
        pods: Vec::new(),
    }
}

/// The image a StatefulSet's pods run, or will.
#[must_use]
pub fn image(set: &StatefulSet) -> Option<&str> {
    collector(set.spec.as_ref()?.template.spec.as_ref()?)?.image.as_deref()
}

/// Figures of a DaemonSet.
#[must_use]
pub fn daemon_set(live: &DaemonSet) -> Observation {
    let status = live.status.clone().unwrap_or_default();
    Observation {
        generation: live.metadata.generation.unwrap_or(i64::MAX),
        observed_generation: status.observed_generation,
        wanted: count(Some(status.desired_number_scheduled)),
        existing: count(Some(status.current_number_scheduled)),
        updated: count(status.updated_number_scheduled),
        ready: count(Some(status.number_ready)),
        available: count(status.number_available),
        deadline_exceeded: false,
        creation_refused: None,
        pods: Vec::new(),
    }
}

/// Figures of pods that stay: a pod being deleted proves nothing about a rollout, until it is long
/// overdue.
#[must_use]
pub fn staying(pods: &[Pod], now: Timestamp) -> Vec<PodFigures> {
    let figures = pods.iter().map(|pod| (pod, pod_figures(pod, now)));
    let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    figures.filter(|(pod, it)| stays(pod) || it.node_lost).map(|(_, it)| it).collect()
}

/// Whether a pod's node has been silent for long. For a pod being deleted, its deletion time sets
/// the limit. When a node is lost, Kubernetes marks the pod unready, while its containers keep the
/// readiness that the kubelet last reported; otherwise theirs changes first.
fn is_node_lost(pod: &Pod, now: Timestamp) -> bool {
    let is_long = |since: Timestamp| now.duration_since(since).as_secs() >= NODE_LOST_SECONDS;
    if let Some(end) = &pod.metadata.deletion_timestamp {
        return is_long(end.0);
    }
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    let is = |type_: &str, value: &str| {
        let mut all = conditions.unwrap_or_default().iter();
        all.find(|condition| condition.type_ == type_ && condition.status == value)
    };
    let not_ready = is("Ready", "False")
        .filter(|it| it.reason.as_deref() != Some("ReadinessGatesNotReady"))
        .and_then(|it| it.last_transition_time.as_ref());
    is("ContainersReady", "True").is_some() && not_ready.is_some_and(|since| is_long(since.0))
}

/// What is said of it.
fn node_lost(pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("?");
    match pod.metadata.deletion_timestamp {
        Some(_) => format!("it should have ended, and its node {node} doesn't tell that it has"),
        None => format!("its node {node} doesn't answer"),
    }
}

/// Figures of a pod: what its collector container waits for, and whether it has a node.
#[must_use]
pub fn pod_figures(pod: &Pod, now: Timestamp) -> PodFigures {
    let mut figures =
        PodFigures { name: pod.metadata.name.clone().unwrap_or_default(), ..PodFigures::default() };
    let Some(status) = &pod.status else { return figures };
    if let Some(container) = collector_status(status) {
        let restarts = count(Some(container.restart_count));
        // A running, ready container has recovered from its restarts.
        figures.restarts = if container.ready { 0 } else { restarts };
        if let Some(waiting) = container.state.as_ref().and_then(|state| state.waiting.as_ref()) {
            figures.waiting = waiting.reason.clone();
            figures.message = waiting.message.clone().unwrap_or_default();
        }
        let ended = |state: Option<&k8s_openapi::api::core::v1::ContainerState>| {
            state.and_then(|state| state.terminated.as_ref()).and_then(|ended| ended.reason.clone())
        };
        let last = ended(container.last_state.as_ref());
        figures.last_ended = last.or(ended(container.state.as_ref()));
    }
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|c| c.type_ == "PodScheduled" && c.reason.as_deref() == Some("Unschedulable"));
    if let Some(condition) = unscheduled {
        figures.unschedulable = true;
        figures.message = condition.message.clone().unwrap_or_default();
    }
    if is_node_lost(pod, now) {
        figures.node_lost = true;
        figures.message = node_lost(pod);
    }
    figures
}

#[cfg(test)]
#[path = "../../tests/unit/pool/workload.rs"]
mod tests;
