//! Decides the pod resources in the StatefulSet's template: the spec's, or those of an in-place
//! resize. Pure.
//!
//! A change of the template replaces all pods, so it never changes for sizing alone. A change of
//! image or configuration, which replaces them anyway, includes the sizing decision if every
//! running pod has it: resources that a quota, a LimitRange or a node refused would stop the
//! rollout. An annotation written in the same request stores the template's resources.

use k8s_openapi::api::apps::v1::StatefulSet;
use millrace_autoscale::{Resources, VerticalPolicy};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use serde::{Deserialize, Serialize};

use super::observed::Observed;
use super::{resize, resources, rollout};
use crate::cache::sizing::Sizing;
use crate::cluster::is_paused;
use crate::pool::template::{cpu_text, memory_text};

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
    fn from_resources(resources: &Resources) -> Self {
        Self {
            memory_limit: memory_text(resources.memory_limit_bytes),
            cpu: cpu_text(resources.cpu_millicores()),
        }
    }

    fn read(&self, range: &VerticalPolicy) -> Option<Resources> {
        let memory = resources::parse_bytes(&self.memory_limit)?;
        Some(range.resources_within(memory, resources::parse_millicores(&self.cpu)?))
    }
}

/// The resources that the template gives each pod.
#[derive(Clone, Debug)]
pub(super) struct TemplateResources {
    pub(super) resources: Resources,
    /// The StatefulSet's annotation; `None` if the resources equal the spec's.
    pub(super) annotation: Option<String>,
}

pub(super) fn decide_template(
    pool: &GatewayPool,
    observed: &Observed,
    rolling: &rollout::RolloutDecision,
    sizing: &SizingStatus,
    memory: &Sizing,
) -> TemplateResources {
    let written = resources::declared_resources(pool);
    let Some(range) = resources::resource_range(pool) else {
        return TemplateResources { resources: written, annotation: None };
    };
    let live = observed.live.as_ref();
    let takes_along = !is_paused(pool)
        && rollout::brings_new_unit(live, rolling)
        && resize::all_have(&observed.watched.pods, sizing);
    let decided = memory.state.as_ref().and_then(|state| state.memory.vertical.resources);
    let decided = decided.filter(|_| takes_along);
    let resources = decided
        .map(|it| range.resources_within(it.memory_limit_bytes, it.cpu_millicores()))
        .or_else(|| live.and_then(read_annotation)?.read(&range))
        .unwrap_or(written);
    let amounts = (resources != written).then(|| Amounts::from_resources(&resources));
    let annotation = amounts.and_then(|it| serde_json::to_string(&it).ok());
    TemplateResources { resources, annotation }
}

/// Returns the resources in a StatefulSet's annotation; `None` if unreadable.
fn read_annotation(live: &StatefulSet) -> Option<Amounts> {
    let text = live.metadata.annotations.as_ref()?.get(RESOURCES_ANNOTATION)?;
    serde_json::from_str(text).ok()
}
