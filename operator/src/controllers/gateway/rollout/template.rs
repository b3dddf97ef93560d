//! Finds the unit of a pod template, and the rollback's template. Pure.
//!
//! An annotation of the StatefulSet stores the complete previous template as JSON. It is written in
//! the same request as the new one, so that no crash in between loses it.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use millrace_crds::v1alpha1::Allocator;
use millrace_rollout::Unit;

use crate::pods::CONTAINER;
use crate::pool::template;
use crate::pool::volumes::CONFIG_VOLUME;

/// Returns the unit of a live StatefulSet's template.
pub(super) fn live_unit(live: &StatefulSet) -> Option<Unit> {
    unit_of(&live.spec.as_ref()?.template)
}

/// Returns the unit of a template; `None` for a template that this operator didn't make.
pub(super) fn unit_of(template: &PodTemplateSpec) -> Option<Unit> {
    let (image, config) = template::template_runs(template)?;
    let (image, config) = (image.to_owned(), config.to_owned());
    let tag_end = image.rsplit('-').next().unwrap_or_default();
    let allocator = Allocator::ALL.iter().find(|it| it.as_str() == tag_end);
    Some(Unit {
        allocator: allocator.map_or_else(String::new, |it| it.as_str().to_owned()),
        image,
        config,
        schema_revision: None,
        digests: Vec::new(),
    })
}

/// Returns the rollback's template: the stored one; else the live one, if it still has that unit;
/// else the desired one with that unit, which is correct except for other changes.
pub(super) fn rollback_template(
    live: Option<&StatefulSet>,
    unit: &Unit,
    desired: &PodTemplateSpec,
) -> PodTemplateSpec {
    let stored = live.and_then(template::baseline_template).map(|it| it.template);
    let live = || live.and_then(|live| Some(live.spec.as_ref()?.template.clone()));
    let holds = |it: &PodTemplateSpec| unit_of(it).is_some_and(|held| held.runs_as(unit));
    let found = stored.filter(holds).or_else(|| live().filter(holds));
    found.unwrap_or_else(|| with_unit(desired.clone(), unit))
}

fn with_unit(mut template: PodTemplateSpec, unit: &Unit) -> PodTemplateSpec {
    template::annotate_image(&mut template, &unit.image);
    if let Some(pod) = &mut template.spec {
        for container in pod.containers.iter_mut().filter(|it| it.name == CONTAINER) {
            container.image = Some(unit.image.clone());
        }
        for volume in pod.volumes.iter_mut().flatten() {
            if let (CONFIG_VOLUME, Some(source)) = (volume.name.as_str(), &mut volume.config_map) {
                source.name.clone_from(&unit.config);
            }
        }
    }
    template
}

#[cfg(test)]
mod tests;
