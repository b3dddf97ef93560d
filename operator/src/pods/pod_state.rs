//! The state of a pool's pod in the API server, as far as sizing and rollouts need it. Pure; judges
//! nothing.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::CONTAINER;
use super::PodTarget;
use crate::ownership::compare::parse_quantity;

/// One pod that should continue to exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodState {
    /// The pod's name.
    pub name: String,
    /// Its ordinal, if it belongs to a StatefulSet.
    pub ordinal: Option<u32>,
    /// Its address, once it has one.
    pub address: Option<IpAddr>,
    /// Its node, once it has one.
    pub node: Option<String>,
    /// The revision of the StatefulSet from which it was created.
    pub revision: Option<String>,
    /// When it became ready, in seconds; `None` while it isn't.
    pub ready_since: Option<i64>,
    /// How often its collector restarted.
    pub restarts: u32,
    /// When its collector was last killed for exceeding its memory limit, in seconds.
    pub out_of_memory_at: Option<i64>,
    /// The memory limit in force, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// The limit of processor time in force, in thousandths of a core.
    pub cpu_limit_millicores: Option<u64>,
}

impl PodState {
    /// Returns the pod as a target of queries; `None` while it has no address.
    #[must_use]
    pub fn scrape_target(&self) -> Option<PodTarget> {
        self.address.map(|address| PodTarget { pod: self.name.clone(), address })
    }
}

/// Returns the state in a pod's object.
#[must_use]
pub fn read_pod_state(pod: &Pod) -> PodState {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let label = |key: &str| pod.metadata.labels.as_ref()?.get(key).cloned();
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|it| it.type_ == "Ready" && it.status == "True");
    let container = status
        .and_then(|status| status.container_statuses.as_deref())
        .and_then(|all| all.iter().find(|it| it.name == CONTAINER));
    let limit = |resource: &str| effective_limit(pod, container, resource);
    PodState {
        ordinal: name.rsplit_once('-').and_then(|(_, ordinal)| ordinal.parse().ok()),
        address: status.and_then(|status| status.pod_ip.as_deref()?.parse().ok()),
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        revision: label("controller-revision-hash"),
        ready_since: ready
            .and_then(|it| it.last_transition_time.as_ref())
            .map(|it| it.0.as_second()),
        restarts: container.map_or(0, |it| u32::try_from(it.restart_count).unwrap_or(0)),
        out_of_memory_at: container.and_then(out_of_memory_at),
        memory_limit_bytes: limit("memory").map(|it| it as u64),
        cpu_limit_millicores: limit("cpu").map(|it| (it * 1e3) as u64),
        name,
    }
}

/// Returns the limit in force: the kubelet's figure, else the spec's.
fn effective_limit(pod: &Pod, container: Option<&ContainerStatus>, resource: &str) -> Option<f64> {
    let set = container
        .and_then(|it| it.resources.as_ref()?.limits.as_ref())
        .and_then(|limits| limits.get(resource));
    let declared = || {
        let containers = &pod.spec.as_ref()?.containers;
        let resources = containers.iter().find(|it| it.name == CONTAINER)?.resources.as_ref()?;
        resources.limits.as_ref()?.get(resource)
    };
    parse_quantity(&set.or_else(declared)?.0)
}

fn out_of_memory_at(container: &ContainerStatus) -> Option<i64> {
    let ended = [container.state.as_ref(), container.last_state.as_ref()];
    let ended = ended.into_iter().flatten().filter_map(|state| state.terminated.as_ref());
    let killed = ended.filter(|it| it.reason.as_deref() == Some("OOMKilled"));
    killed.filter_map(|it| it.finished_at.as_ref()).map(|it| it.0.as_second()).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Scenario: a pod as the API server returns it, resized in place and once killed for its
    /// memory. Guarantee: its name's ordinal, its limits in force and the time of that kill are
    /// read.
    #[test]
    fn a_pods_facts_are_read() {
        let pod = json!({
            "metadata": {"name": "prod-gateway-12", "labels": {"controller-revision-hash": "r7"}},
            "spec": {"nodeName": "a", "containers": [{"name": "collector",
                "resources": {"limits": {"memory": "512Mi", "cpu": "1500m"}}}]},
            "status": {"podIP": "10.0.0.7",
                "conditions": [{"type": "Ready", "status": "True",
                    "lastTransitionTime": "1970-01-01T00:01:00Z"}],
                "containerStatuses": [{"name": "collector", "image": "i", "imageID": "", "ready": true,
                    "restartCount": 1, "resources": {"limits": {"memory": "1Gi"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
                        "finishedAt": "1970-01-01T00:00:30Z"}}}]}});
        let facts = read_pod_state(&serde_json::from_value(pod).unwrap());
        let expected = PodState {
            name: "prod-gateway-12".into(),
            ordinal: Some(12),
            address: Some("10.0.0.7".parse().unwrap()),
            node: Some("a".into()),
            revision: Some("r7".into()),
            ready_since: Some(60),
            restarts: 1,
            out_of_memory_at: Some(30),
            memory_limit_bytes: Some(1 << 30),
            cpu_limit_millicores: Some(1_500),
        };
        assert_eq!(facts, expected);
    }
}
