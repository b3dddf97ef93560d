//! Decides the pod resources in the StatefulSet's template: the spec's, or those of an in-place
//! resize. Pure.
//!
//! A change of the template replaces all pods, so it never changes for sizing alone. A change of
//! image or configuration, which replaces them anyway, includes the sizing decision if every
//! running pod has it: resources that a quota, a LimitRange or a node refused would stop the
//! rollout. An annotation written in the same request stores the template's resources.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use millrace_autoscale::Resources;
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use serde::{Deserialize, Serialize};

use super::observed::Observed;
use super::{resize, resources, rollout};
use crate::cache::sizing::Sizing;
use crate::cluster::is_paused;
use crate::pods::CONTAINER;

/// The annotation with the template's resources, if they differ from the spec's.
pub(super) const RESOURCES_ANNOTATION: &str = "millrace.dev/template-resources";

/// Amounts of both, as in the annotation; CPU is the limit, or the request without a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Amounts {
    memory_limit: String,
    cpu: String,
}

impl Amounts {
    /// Returns the amounts that a template gives the collector.
    fn from_template(template: &PodTemplateSpec) -> Option<Self> {
        let mut containers = template.spec.as_ref()?.containers.iter();
        let resources = containers.find(|it| it.name == CONTAINER)?.resources.as_ref()?;
        let (limits, requests) = (resources.limits.as_ref(), resources.requests.as_ref());
        let cpu = limits.and_then(|it| it.get("cpu")).or_else(|| requests?.get("cpu"))?;
        Some(Self { memory_limit: limits?.get("memory")?.0.clone(), cpu: cpu.0.clone() })
    }

    fn read(&self) -> Option<(u64, u64)> {
        let memory = resources::parse_bytes(&self.memory_limit)?;
        Some((memory, resources::parse_millicores(&self.cpu)?))
    }
}

/// Returns the resources that a template of the declared unit gives each pod.
pub(super) fn decide_resources(
    pool: &GatewayPool,
    observed: &Observed,
    rolling: &rollout::RolloutDecision,
    sizing: &SizingStatus,
    memory: &Sizing,
) -> Resources {
    let written = resources::declared_resources(pool);
    let Some(range) = resources::resource_range(pool) else { return written };
    let live = observed.live.as_ref();
    let takes_along = !is_paused(pool)
        && rollout::brings_new_unit(live, rolling)
        && resize::all_have(&observed.watched.pods, sizing);
    let decided = memory.state.as_ref().and_then(|state| state.memory.vertical.resources);
    let decided = decided.filter(|_| takes_along);
    let decided = decided.map(|it| (it.memory_limit_bytes, it.cpu_millicores()));
    let amounts = decided.or_else(|| live.and_then(read_annotation)?.read());
    amounts.map_or(written, |(memory, cpu)| range.resources_within(memory, cpu))
}

/// Returns the StatefulSet's annotation, given the resources of the declared unit's template. It is
/// about the template that is written: one that a rollback restores may have had the spec's
/// resources, and would be replaced at the next change if the annotation stated others.
pub(super) fn build_annotation(
    pool: &GatewayPool,
    resources: &Resources,
    template: &PodTemplateSpec,
) -> Option<String> {
    let written = resources::declared_resources(pool);
    let amounts = Amounts::from_template(template).filter(|_| *resources != written)?;
    let held = amounts.read()?;
    let is_written = held == (written.memory_limit_bytes, written.cpu_millicores());
    (!is_written).then(|| serde_json::to_string(&amounts).ok()).flatten()
}

/// Returns the resources in a StatefulSet's annotation; `None` if unreadable.
fn read_annotation(live: &StatefulSet) -> Option<Amounts> {
    let text = live.metadata.annotations.as_ref()?.get(RESOURCES_ANNOTATION)?;
    serde_json::from_str(text).ok()
}
