//! Extracts the figures of Deployments, StatefulSets, DaemonSets and pods for `millrace_rollout`.
//! Pure; an absent field counts as the value that claims least.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetUpdateStrategy, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use millrace_rollout::{PodFigures, WorkloadObservation};

use crate::cluster::Applicable;
use crate::pool::template::collector_status;

/// The time without reports about a pod, in seconds, after which its node is lost. Kubernetes has
/// waited 40 to 50 when it marks the pod unready, and a rebooted machine is back in two minutes.
const NODE_LOST_SECONDS: i64 = 120;

fn to_count(value: Option<i32>) -> u32 {
    value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0)
}

/// A kind of workload that an edge pool may have.
pub trait EdgeWorkload: Applicable {
    /// Returns its figures.
    fn observe_workload(&self) -> WorkloadObservation;
    /// Returns its template.
    fn template(&self) -> Option<&PodTemplateSpec>;
    /// Returns its template, to change it.
    fn template_mut(&mut self) -> Option<&mut PodTemplateSpec>;
    /// Stops its controller from replacing more pods.
    fn pause_updates(&mut self);
}

impl EdgeWorkload for Deployment {
    fn observe_workload(&self) -> WorkloadObservation {
        observe_deployment(self)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.as_ref()?.template)
    }

    fn template_mut(&mut self) -> Option<&mut PodTemplateSpec> {
        Some(&mut self.spec.as_mut()?.template)
    }

    fn pause_updates(&mut self) {
        self.spec.iter_mut().for_each(|spec| spec.paused = Some(true));
    }
}

impl EdgeWorkload for DaemonSet {
    fn observe_workload(&self) -> WorkloadObservation {
        observe_daemon_set(self)
    }

    fn template(&self) -> Option<&PodTemplateSpec> {
        Some(&self.spec.as_ref()?.template)
    }

    fn template_mut(&mut self) -> Option<&mut PodTemplateSpec> {
        Some(&mut self.spec.as_mut()?.template)
    }

    fn pause_updates(&mut self) {
        let by_hand = || DaemonSetUpdateStrategy {
            type_: Some("OnDelete".into()),
            ..DaemonSetUpdateStrategy::default()
        };
        self.spec.iter_mut().for_each(|spec| spec.update_strategy = Some(by_hand()));
    }
}

/// Returns the figures of a Deployment.
#[must_use]
pub fn observe_deployment(live: &Deployment) -> WorkloadObservation {
    let status = live.status.clone().unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    let condition = |type_: &str, value: &str| {
        conditions.iter().find(|c| c.type_ == type_ && c.status == value)
    };
    WorkloadObservation {
        generation: live.metadata.generation.unwrap_or(i64::MAX),
        observed_generation: status.observed_generation,
        desired: live.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, |n| to_count(Some(n))),
        existing: to_count(status.replicas),
        updated: to_count(status.updated_replicas),
        ready: to_count(status.ready_replicas),
        available: to_count(status.available_replicas),
        deadline_exceeded: condition("Progressing", "False")
            .is_some_and(|c| c.reason.as_deref() == Some("ProgressDeadlineExceeded")),
        creation_refused: condition("ReplicaFailure", "True")
            .map(|c| c.message.clone().unwrap_or_default()),
        pods: Vec::new(),
    }
}

/// Returns the figures of a StatefulSet.
#[must_use]
pub fn observe_stateful_set(live: &StatefulSet) -> WorkloadObservation {
    let status = live.status.clone().unwrap_or_default();
    let desired =
        live.spec.as_ref().and_then(|spec| spec.replicas).map_or(1, |n| to_count(Some(n)));
    // Once all pods have the newest revision, the controller may count them as current only.
    let same =
        status.update_revision.is_some() && status.update_revision == status.current_revision;
    let updated =
        if same { to_count(Some(status.replicas)) } else { to_count(status.updated_replicas) };
    WorkloadObservation {
        generation: live.metadata.generation.unwrap_or(i64::MAX),
        observed_generation: status.observed_generation,
        desired,
        existing: to_count(Some(status.replicas)),
        updated,
        ready: to_count(status.ready_replicas),
        available: to_count(status.available_replicas),
        deadline_exceeded: false,
        creation_refused: None,
        pods: Vec::new(),
    }
}

/// Returns the figures of a DaemonSet.
#[must_use]
pub fn observe_daemon_set(live: &DaemonSet) -> WorkloadObservation {
    let status = live.status.clone().unwrap_or_default();
    WorkloadObservation {
        generation: live.metadata.generation.unwrap_or(i64::MAX),
        observed_generation: status.observed_generation,
        desired: to_count(Some(status.desired_number_scheduled)),
        existing: to_count(Some(status.current_number_scheduled)),
        updated: to_count(status.updated_number_scheduled),
        ready: to_count(Some(status.number_ready)),
        available: to_count(status.number_available),
        deadline_exceeded: false,
        creation_refused: None,
        pods: Vec::new(),
    }
}

/// Returns the figures of the remaining pods: a pod being deleted proves nothing about a rollout,
/// until it is long overdue.
#[must_use]
pub fn active_pods(pods: &[Pod], now: Timestamp) -> Vec<PodFigures> {
    let figures = pods.iter().map(|pod| (pod, pod_figures(pod, now)));
    let stays = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
    figures.filter(|(pod, it)| stays(pod) || it.node_lost).map(|(_, it)| it).collect()
}

/// Returns whether a pod's node has long been silent. For a pod being deleted, its deletion time
/// sets the limit. When a node is lost, Kubernetes marks the pod unready, while its containers
/// retain the readiness that the kubelet last reported; otherwise theirs changes first.
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

/// Returns the message about a lost node.
fn node_lost(pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("?");
    match pod.metadata.deletion_timestamp {
        Some(_) => format!("it should have ended, and its node {node} doesn't report that it has"),
        None => format!("its node {node} doesn't answer"),
    }
}

/// Returns the figures of a pod: why its collector container waits, and whether it has a node.
#[must_use]
pub fn pod_figures(pod: &Pod, now: Timestamp) -> PodFigures {
    let mut figures =
        PodFigures { name: pod.metadata.name.clone().unwrap_or_default(), ..PodFigures::default() };
    let Some(status) = &pod.status else { return figures };
    if let Some(container) = collector_status(status) {
        let restarts = to_count(Some(container.restart_count));
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
        let since = condition.last_transition_time.as_ref().map_or(now, |since| since.0);
        figures.unschedulable_seconds = Some(now.duration_since(since).as_secs());
        figures.message = condition.message.clone().unwrap_or_default();
    }
    if is_node_lost(pod, now) {
        figures.node_lost = true;
        figures.message = node_lost(pod);
    }
    figures
}

#[cfg(test)]
mod tests;
