//! Trial pods: a new configuration is validated by its own image in a pod of its own, before any
//! pod of the pool changes. Pure: the pods that exist, their result, what to make or remove.
//!
//! The pod runs `validate` and ends. It is made after the status says that a trial is due, and
//! removed before its result is written; so a crash in between leaves none behind, and the trial
//! repeats. A pod that can't be made, finds no node or takes too long proves nothing and blocks
//! nothing: the pool's first pods try the change then. Limits: one pod per unit, ended by
//! Kubernetes after [`DEADLINE_SECONDS`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use millrace_rollout::{Fault, FaultKind, First};

use super::member::member;
use super::names::PoolNames;
use super::secrets::SECRETS_VOLUME;
use super::template::{self, CONFIG_VOLUME, collector_status};
use crate::cluster::hash_of;
use crate::pods::CONTAINER;

/// Name label of trial pods, so that no selector for collectors matches: no Service, budget, policy
/// or PodMonitor.
const NAME_LABEL: &str = "millrace-preflight";
/// Kubernetes ends a pod that takes longer; the operator waits less.
const DEADLINE_SECONDS: i64 = 300;
/// Volumes that `validate` needs. Others may cost a disk, be another pod's, or be a node's, which
/// only pods that read its files may mount.
const VOLUMES: [&str; 2] = [CONFIG_VOLUME, SECRETS_VOLUME];
/// Validating takes milliseconds and some MiB.
const CPU_REQUEST: &str = "10m";
const MEMORY_REQUEST: &str = "32Mi";
const MEMORY_LIMIT: &str = "128Mi";

/// The labels that select the pool's tries.
#[must_use]
pub fn selector(names: &PoolNames) -> BTreeMap<String, String> {
    let mut labels = names.selector();
    let component = format!("{}-preflight", names.role.as_str());
    labels.insert("app.kubernetes.io/name".into(), NAME_LABEL.into());
    labels.insert("app.kubernetes.io/component".into(), component);
    labels
}

/// The pod that tries a configuration with an image.
#[must_use]
pub fn name(names: &PoolNames, image: &str, config_map: &str) -> String {
    let tried = hash_of(&format!("{image} {config_map}").into());
    format!("{}-try-{}", names.base, tried.get(..10).unwrap_or(&tried))
}

/// The result of a trial; `untried` means that it could not be created.
#[must_use]
pub fn outcome(pods: &[Pod], name: &str, untried: Option<&str>, now: Timestamp) -> First {
    if untried == Some(name) {
        return First::Done;
    }
    let found = pods.iter().find(|pod| pod.name_any() == name && is_staying(pod));
    let Some(pod) = found else { return First::Waits };
    let status = pod.status.as_ref();
    let member = member(pod, None, now);
    // Injected containers may run on or fail: only the exit of `validate` counts.
    let state = status.and_then(collector_status).and_then(|it| it.state.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref()).map(|ended| ended.exit_code);
    match (ended, status.and_then(|status| status.phase.as_deref())) {
        (Some(0), _) | (None, Some("Succeeded")) => First::Done,
        // Ended by the node or by Kubernetes, with a reason: nothing is proven.
        (_, Some("Failed")) if status.is_some_and(|it| it.reason.is_some()) => First::Done,
        (Some(_), _) | (None, Some("Failed")) => {
            First::Failed(member.fault().unwrap_or_else(|| {
                let code = member.exit_code.unwrap_or(-1);
                let words = &member.last_words;
                let text = format!("pod {name}: `validate` ended with exit code {code}: {words}");
                Fault::new(FaultKind::PodCrashing, text)
            }))
        }
        (None, _) => match member.fault() {
            None => First::Waits,
            Some(fault) if proves_nothing(fault.kind) => First::Done,
            Some(fault) => First::Failed(fault),
        },
    }
}

fn is_staying(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// No node, or a slow one, says nothing about the change.
fn proves_nothing(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::PodUnschedulable | FaultKind::PodsNotReady)
}

/// What is to be done about tries.
#[derive(Clone, Debug, Default)]
pub struct Tries {
    /// The pod to be made.
    pub make: Option<Box<Pod>>,
    /// The names of those to be removed.
    pub remove: Vec<String>,
}

impl Tries {
    /// All of them are to be removed.
    #[must_use]
    pub fn over(pods: &[Pod]) -> Self {
        let staying = pods.iter().filter(|pod| is_staying(pod)).map(ResourceExt::name_any);
        Self { make: None, remove: staying.collect() }
    }

    /// Waits for the trial pod `wanted`, to be made if the status says so and it is missing; all
    /// others are to be removed.
    #[must_use]
    pub fn waiting(pods: &[Pod], wanted: &str, is_told: bool, pod: impl FnOnce() -> Pod) -> Self {
        let is_there = pods.iter().any(|pod| pod.name_any() == wanted);
        let mut tries = Self::over(pods);
        tries.remove.retain(|name| name != wanted);
        tries.make = (is_told && !is_there).then(|| Box::new(pod()));
        tries
    }
}

/// The trial pod: the collector of the pool's template alone, with another command and small
/// resources.
#[must_use]
pub fn pod<P: Resource<DynamicType = ()>>(
    pool: &P,
    names: &PoolNames,
    name: &str,
    template: &PodTemplateSpec,
) -> Pod {
    let mut labels = selector(names);
    let ours = names.labels();
    labels.extend(ours.into_iter().filter(|(key, _)| key.ends_with("/managed-by")));
    Pod {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(names.namespace.clone()),
            labels: Some(labels),
            owner_references: pool.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: Some(pod_spec(template)),
        status: None,
    }
}

fn pod_spec(template: &PodTemplateSpec) -> PodSpec {
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.restart_policy = Some("Never".into());
    spec.active_deadline_seconds = Some(DEADLINE_SECONDS);
    spec.termination_grace_period_seconds = Some(1);
    spec.topology_spread_constraints = None;
    spec.resource_claims = None;
    spec.init_containers = None;
    spec.containers.retain(|container| container.name == CONTAINER);
    let is_needed = |name: &str| VOLUMES.contains(&name);
    spec.volumes.iter_mut().for_each(|all| all.retain(|volume| is_needed(&volume.name)));
    spec.automount_service_account_token = Some(false);
    let amount = |amounts: &[(&str, &str)]| {
        let amounts =
            amounts.iter().map(|(what, text)| ((*what).to_owned(), Quantity((*text).into())));
        Some(amounts.collect::<BTreeMap<_, _>>())
    };
    for container in &mut spec.containers {
        if let Some(first) = container.args.as_mut().and_then(|args| args.first_mut()) {
            "validate".clone_into(first);
        }
        container.ports = None;
        // What validates settings opens no device.
        if let Some(context) = &mut container.security_context
            && context.privileged.take().is_some()
        {
            template::restrict(context, None);
        }
        (container.startup_probe, container.liveness_probe) = (None, None);
        container.readiness_probe = None;
        let mounts = container.volume_mounts.iter_mut();
        mounts.for_each(|all| all.retain(|mount| is_needed(&mount.name)));
        container.resources = Some(ResourceRequirements {
            requests: amount(&[("cpu", CPU_REQUEST), ("memory", MEMORY_REQUEST)]),
            limits: amount(&[("memory", MEMORY_LIMIT)]),
            claims: None,
        });
    }
    spec
}

#[cfg(test)]
#[path = "../../tests/unit/pool/preflight.rs"]
mod tests;
