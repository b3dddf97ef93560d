//! A collector's pod, with the facts that reports need.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use millrace_crds::pods::{CONTAINER, Role};
use serde::Serialize;

use super::CounterSample;

/// A pod of a pool.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its pool.
    pub pool: String,
    /// Its role.
    pub role: Role,
    /// The node it is on.
    pub node: Option<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Running, Pending, or why its container doesn't run.
    pub state: String,
    /// How often its container was restarted.
    pub restarts: i32,
    /// Why its container last ended, if it ever did.
    pub ended: Option<String>,
    /// Its image.
    #[serde(skip)]
    pub image: Option<String>,
    /// Its memory limit as written.
    pub memory_limit: Option<String>,
    /// Its CPU limit as written.
    pub cpu_limit: Option<String>,
    /// The counters of its process at the first reading.
    #[serde(skip)]
    pub before: Option<CounterSample>,
    /// The counters at the last reading.
    #[serde(skip)]
    pub now: Option<CounterSample>,
}

impl PodFacts {
    /// Reads a pod of the API server; `None` if it belongs to no pool.
    #[must_use]
    pub fn from_pod(pod: &Pod) -> Option<Self> {
        let none = BTreeMap::new();
        let labels = pod.metadata.labels.as_ref().unwrap_or(&none);
        let word = labels.get("app.kubernetes.io/component")?;
        let role = [Role::Edge, Role::Gateway].into_iter().find(|role| role.as_str() == word)?;
        let spec = pod.spec.as_ref();
        let status = pod.status.as_ref();
        let container =
            spec.and_then(|spec| spec.containers.iter().find(|one| one.name == CONTAINER));
        let running = status.and_then(|status| status.container_statuses.as_ref());
        let running = running.and_then(|all| all.iter().find(|one| one.name == CONTAINER));
        let limits = container.and_then(|one| one.resources.as_ref()?.limits.as_ref());
        let limit = |name: &str| limits.and_then(|all| Some(all.get(name)?.0.clone()));
        Some(Self {
            name: pod.metadata.name.clone()?,
            pool: labels.get("app.kubernetes.io/instance")?.clone(),
            role,
            node: spec.and_then(|spec| spec.node_name.clone()),
            ready: is_ready(pod),
            state: pod_state(pod, running),
            restarts: running.map_or(0, |one| one.restart_count),
            ended: running.and_then(last_termination),
            image: container.and_then(|one| one.image.clone()),
            memory_limit: limit("memory"),
            cpu_limit: limit("cpu"),
            before: None,
            now: None,
        })
    }

    /// Returns two readings of the same process, the older one first.
    #[must_use]
    pub fn readings(&self) -> Option<(&CounterSample, &CounterSample)> {
        let (before, now) = (self.before.as_ref()?, self.now.as_ref()?);
        (before.started_at == now.started_at).then_some((before, now))
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
}

fn pod_state(pod: &Pod, running: Option<&ContainerStatus>) -> String {
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating".to_owned();
    }
    let waiting = running.and_then(|one| one.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let phase = pod.status.as_ref().and_then(|status| status.phase.clone());
    waiting.or(phase).unwrap_or_else(|| "Unknown".to_owned())
}

fn last_termination(status: &ContainerStatus) -> Option<String> {
    let last = status.last_state.as_ref()?.terminated.as_ref()?;
    let reason = last.reason.clone().unwrap_or_else(|| "ended".to_owned());
    Some(format!("{reason}, exit code {}", last.exit_code))
}
