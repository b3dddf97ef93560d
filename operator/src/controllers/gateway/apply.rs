//! Writes the objects of a gateway pool, the StatefulSet last, and prunes obsolete ones. A
//! configuration remains while a pod, or the template of a rollback, may need it.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use millrace_rollout::{RolloutVerdict, WorkloadObservation, assess_rollout};

use super::build::GatewayObjects;
use super::resize::ResizeProgress;
use super::rollout::{self, RolloutDecision};
use super::validate::Validated;
use crate::cache::baseline::Untried;
use crate::cluster::{ApplyError, ChildChange, Children, is_paused};
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::lag_cache::LagObservation;
use crate::pool::names::PoolNames;
use crate::pool::{observe, trial_pods, workload};

/// The observation after writing.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) names: PoolNames,
    /// The StatefulSet's figures, with its pods' faults unless it is complete.
    pub(super) observation: WorkloadObservation,
    /// The assessment of the figures.
    pub(super) verdict: RolloutVerdict,
    /// Whether something differs from the spec because the pool is paused.
    pub(super) withheld: bool,
    /// The trial pod that could not be created.
    pub(super) untried: Option<Untried>,
    pub(super) rollout: RolloutDecision,
    pub(super) sizing: SizingStatus,
    /// The progress of pods towards the decided resources; set after they were resized.
    pub(super) resized: Option<ResizeProgress>,
    /// The lag, or why it is unknown.
    pub(super) lag: Result<LagObservation, StepError>,
}

/// Writes children that differ.
///
/// # Errors
/// When the API server refuses or can't be reached, after some writes.
pub(super) async fn apply_pool(
    context: &Context,
    pool: &GatewayPool,
    prepared: GatewayObjects<'_>,
) -> Result<Applied, StepError> {
    let GatewayObjects { validated, common, tries, stateful_set } = prepared;
    let Validated { observed, sizing, rollout, .. } = validated;
    let names = &observed.draft.names;
    let children = Children::of_owner(context, pool)?;
    let mut retained_configs = rollout::config_maps(&stateful_set);
    retained_configs.insert(common.config_map.name_any());
    let mut changes = common.apply(&children).await?;
    let untried = match is_paused(pool) {
        true => None,
        false => trial_pods::apply_trial_pods(context, pool, tries).await?,
    };
    let (mut observation, change) = write_set(context, pool, &children, stateful_set).await?;
    changes.push(change);
    let mut verdict = assess_rollout(&observation);
    if verdict != RolloutVerdict::Complete {
        let pods = observe::list_pods(context, &names.namespace, &names.selector()).await?;
        observation.pods = workload::active_pods(&pods, context.clock.now());
        let absent = &observed.watched.baseline.absent;
        observation.creation_refused = rollout::creation_refused(absent, observed.now);
        verdict = assess_rollout(&observation);
    }
    let pruning = common.prune_optional::<GatewayPool>(&children, names).await?;
    if verdict == RolloutVerdict::Complete {
        let retained: Vec<&str> = retained_configs.iter().map(String::as_str).collect();
        pruning.prune_configs::<GatewayPool>(&retained, false).await?;
    }
    children.publish_changes().await;
    Ok(Applied {
        names: names.clone(),
        observation,
        verdict,
        untried,
        withheld: changes.contains(&ChildChange::Withheld),
        rollout: rollout.clone(),
        sizing: sizing.clone(),
        resized: None,
        lag: observed.lag.clone(),
    })
}

/// Writes the StatefulSet. Before its watch reports that, the copy read earlier is no longer used.
async fn write_set(
    context: &Context,
    pool: &GatewayPool,
    children: &Children<'_>,
    set: StatefulSet,
) -> Result<(WorkloadObservation, ChildChange), ApplyError> {
    let applied = children.apply_workload(set, workload::observe_stateful_set).await;
    if !matches!(applied, Ok((_, ChildChange::None))) {
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        context.gateway_cache.forget_set(uid, context.clock.now());
    }
    applied
}
