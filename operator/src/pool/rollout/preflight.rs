//! Plans trial pods: a new configuration is validated by its own image before any pod of the pool
//! changes. Pure: decides from the pods and their result what to create or delete.
//!
//! A trial pod runs `validate` and ends. It is created after the status reports that a trial is
//! due, and deleted before its result is written; so a crash in between leaves none behind, and the
//! trial repeats. It lacks the template's other containers and most volumes, so a complete pod of
//! the pool is first created as a dry run: if Pod Security refuses that or the trial pod, no pod of
//! the pool changes. One that can't be created otherwise, finds no node or takes too long proves
//! nothing and blocks nothing: the pool's first pods try the change then.
//! Limits: one pod per unit, ended by Kubernetes after [`DEADLINE_SECONDS`].

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use millrace_rollout::{FaultKind, Precondition, UnitFault};

use super::member::member_of_pod;
use crate::cache::baseline::Untried;
use crate::hash::hash_of;
use crate::pods::CONTAINER;
use crate::pool::names::PoolNames;
use crate::pool::template::collector_status;
use crate::pool::volumes::{CONFIG_VOLUME, SECRETS_VOLUME};

/// The name label of trial pods. No selector for collectors matches it: no Service, budget, policy
/// or PodMonitor.
const NAME_LABEL: &str = "millrace-preflight";
/// The time after which Kubernetes ends a trial pod; the operator waits less.
const DEADLINE_SECONDS: i64 = 300;
/// The volumes that `validate` needs; volumes of the node remain too. Other volumes may cost a
/// disk, or belong to another pod.
const VOLUMES: [&str; 2] = [CONFIG_VOLUME, SECRETS_VOLUME];
/// The API server's text for a pod that Pod Security refuses.
const VIOLATION: &str = "violates PodSecurity";
/// Validation takes milliseconds and some MiB.
const CPU_REQUEST: &str = "10m";
const MEMORY_REQUEST: &str = "32Mi";
const MEMORY_LIMIT: &str = "128Mi";

/// Returns the labels that select the pool's trial pods.
#[must_use]
pub fn trial_selector(names: &PoolNames) -> BTreeMap<String, String> {
    let mut labels = names.selector();
    let component = format!("{}-preflight", names.role.as_str());
    labels.insert("app.kubernetes.io/name".into(), NAME_LABEL.into());
    labels.insert("app.kubernetes.io/component".into(), component);
    labels
}

/// Returns the name of a trial pod.
#[must_use]
pub fn trial_name(names: &PoolNames, image: &str, config_map: &str) -> String {
    let tried = hash_of(&format!("{image} {config_map}").into());
    format!("{}-try-{}", names.base, tried.get(..10).unwrap_or(&tried))
}

/// Returns whether Pod Security refused the pod. The namespace or the pod's template can be
/// repaired, so such a refusal is good for one decision and not remembered.
#[must_use]
pub fn is_violation(cause: &str) -> bool {
    cause.contains(VIOLATION)
}

/// Returns the result of a trial; `untried` means that a pod could not be created. If Pod Security
/// refuses it, it would refuse the pool's pods too; a quota may lack capacity for just this pod.
#[must_use]
pub fn trial_outcome(
    pods: &[Pod],
    name: &str,
    untried: Option<&Untried>,
    now: Timestamp,
) -> Precondition {
    if let Some(Untried { cause, .. }) = untried.filter(|it| it.name == name) {
        let text = format!("pod {name} can't be created: {cause}");
        return match is_violation(cause) {
            true => Precondition::Failed(UnitFault::new(FaultKind::PodCreationFailed, text)),
            false => Precondition::Done,
        };
    }
    let found = pods.iter().find(|pod| pod.name_any() == name && is_not_terminating(pod));
    let Some(pod) = found else { return Precondition::Waits };
    let status = pod.status.as_ref();
    let member = member_of_pod(pod, None, now);
    // Injected containers may continue or fail: only the exit of `validate` counts.
    let state = status.and_then(collector_status).and_then(|it| it.state.as_ref());
    let ended = state.and_then(|state| state.terminated.as_ref()).map(|ended| ended.exit_code);
    match (ended, status.and_then(|status| status.phase.as_deref())) {
        (Some(0), _) | (None, Some("Succeeded")) => Precondition::Done,
        // The node or Kubernetes ended the pod, with a reason, which proves nothing.
        (_, Some("Failed")) if status.is_some_and(|it| it.reason.is_some()) => Precondition::Done,
        (Some(_), _) | (None, Some("Failed")) => {
            Precondition::Failed(member.find_fault().unwrap_or_else(|| {
                let code = member.exit_code.unwrap_or(-1);
                let words = &member.termination_message;
                let text = format!("pod {name}: `validate` ended with exit code {code}: {words}");
                UnitFault::new(FaultKind::PodCrashing, text)
            }))
        }
        (None, _) => match member.find_fault() {
            None => Precondition::Waits,
            Some(fault) if proves_nothing(fault.kind) => Precondition::Done,
            Some(fault) => Precondition::Failed(fault),
        },
    }
}

fn is_not_terminating(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none()
}

/// Returns whether a fault proves nothing about the change.
fn proves_nothing(kind: FaultKind) -> bool {
    matches!(kind, FaultKind::PodUnschedulable | FaultKind::PodsNotReady)
}

/// A trial that begins.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The trial pod.
    pub pod: Pod,
    /// A pod as the pool's workload would create it, for a dry run.
    pub complete: Pod,
}

/// The trial pods to create and delete.
#[derive(Clone, Debug, Default)]
pub struct TrialPods {
    /// The trial to begin.
    pub make: Option<Box<Trial>>,
    /// The names of the pods to delete.
    pub remove: Vec<String>,
}

impl TrialPods {
    /// Returns the deletion of all trial pods.
    #[must_use]
    pub fn remove_all(pods: &[Pod]) -> Self {
        let staying = pods.iter().filter(|pod| is_not_terminating(pod)).map(ResourceExt::name_any);
        Self { make: None, remove: staying.collect() }
    }

    /// Waits for the trial pod `expected`, which is created if the status reports the trial and the
    /// pod is missing; all others are deleted.
    #[must_use]
    pub fn wait_for(
        pods: &[Pod],
        expected: &str,
        is_reported: bool,
        trial: impl FnOnce() -> Trial,
    ) -> Self {
        let is_there = pods.iter().any(|pod| pod.name_any() == expected);
        let mut tries = Self::remove_all(pods);
        tries.remove.retain(|name| name != expected);
        tries.make = (is_reported && !is_there).then(|| Box::new(trial()));
        tries
    }
}

/// Returns a trial. Its pod has only the collector of the pool's template, with another command and
/// small resources; and the labels, annotations, rights and node's volumes of the pool's pods, by
/// which admission decides.
#[must_use]
pub fn plan_trial<P: Resource<DynamicType = ()>>(
    pool: &P,
    names: &PoolNames,
    name: &str,
    template: &PodTemplateSpec,
) -> Trial {
    let metadata = template.metadata.clone().unwrap_or_default();
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(names.namespace.clone()),
        labels: metadata.labels,
        annotations: metadata.annotations,
        owner_references: pool.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    let complete = Pod { metadata: metadata.clone(), spec: template.spec.clone(), status: None };
    let mut pod = Pod { metadata, spec: Some(pod_spec(template)), status: None };
    pod.labels_mut().extend(trial_selector(names));
    Trial { pod, complete }
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
    let volumes = spec.volumes.get_or_insert_default();
    volumes.retain(|it| VOLUMES.contains(&it.name.as_str()) || it.host_path.is_some());
    let left: Vec<String> = volumes.iter().map(|volume| volume.name.clone()).collect();
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
        (container.startup_probe, container.liveness_probe) = (None, None);
        container.readiness_probe = None;
        let mounts = container.volume_mounts.iter_mut();
        mounts.for_each(|all| all.retain(|mount| left.contains(&mount.name)));
        container.resources = Some(ResourceRequirements {
            requests: amount(&[("cpu", CPU_REQUEST), ("memory", MEMORY_REQUEST)]),
            limits: amount(&[("memory", MEMORY_LIMIT)]),
            claims: None,
        });
    }
    spec
}

#[cfg(test)]
mod tests;
