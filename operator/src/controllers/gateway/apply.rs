//! Writes the objects of a gateway pool, the StatefulSet last, and prunes obsolete ones. A
//! configuration remains while a pod, or the template of a rollback, may need it.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use millrace_rollout::{RolloutVerdict, WorkloadObservation, assess_rollout};

use super::build::GatewayObjects;
use super::observed::Observed;
use super::resize::{self, ResizeProgress};
use super::rollout::{self, RolloutDecision};
use super::validate::Validated;
use crate::cache::baseline::{Baseline, Untried};
use crate::cache::sizing::Sizing;
use crate::cluster::{ApplyError, ChildChange, Children, is_paused};
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::lag_cache::LagObservation;
use crate::pool::names::PoolNames;
use crate::pool::preflight::is_violation;
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
    pub(super) rollout: RolloutDecision,
    pub(super) sizing: SizingStatus,
    /// The progress of pods towards the decided resources; `None` if those may not change.
    pub(super) resized: Option<ResizeProgress>,
    /// The lag, or why it is unknown.
    pub(super) lag: Result<LagObservation, StepError>,
    pub(super) decided: DecisionState,
}

impl Applied {
    /// Returns the number of pods for the pool's `spec.replicas`; `None` if there are none.
    pub(super) fn replicas(&self) -> Option<u32> {
        u32::try_from(self.sizing.replicas).ok().filter(|size| *size > 0)
    }
}

/// What the next decisions follow from, besides the status.
#[derive(Clone, Debug)]
pub(super) struct DecisionState {
    memory: Sizing,
    baseline: Baseline,
    at: Timestamp,
}

impl DecisionState {
    /// Returns the state after a trial pod could not be created (`untried`), or none was needed.
    fn new(observed: &Observed, memory: Sizing, untried: Option<Untried>) -> Self {
        let mut baseline = observed.watched.baseline.clone();
        let earlier = baseline.untried.filter(|it| !is_violation(&it.cause));
        baseline.untried = untried.or(earlier);
        Self { memory, baseline, at: observed.now }
    }

    /// Stores the state for the next reconcile.
    pub(super) fn store(self, context: &Context, pool: &GatewayPool) {
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        context.sizings.insert(uid, self.memory, self.at);
        context.baselines.insert(uid, self.baseline, self.at);
    }
}

/// Writes children that differ, and resizes running pods.
///
/// # Errors
/// When the API server refuses or can't be reached, after some writes.
pub(super) async fn apply_pool(
    context: &Context,
    pool: &GatewayPool,
    prepared: GatewayObjects<'_>,
) -> Result<Applied, StepError> {
    let GatewayObjects { validated, common, tries, stateful_set } = prepared;
    let Validated { observed, sizing, rollout, memory, .. } = validated;
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
    let mut memory = memory.clone();
    let resizing = resize::resize_pods(context, pool, observed, sizing, &mut memory);
    let resized = Box::pin(resizing).await;
    Ok(Applied {
        names: names.clone(),
        observation,
        verdict,
        withheld: changes.contains(&ChildChange::Withheld),
        rollout: rollout.clone(),
        sizing: sizing.clone(),
        resized,
        lag: observed.lag.clone(),
        decided: DecisionState::new(observed, memory, untried),
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
