//! Writes the objects of a gateway pool, the StatefulSet last, and prunes obsolete ones. A
//! configuration remains while a pod, or the template of a rollback, may need it.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use millrace_crds::{ConditionType, is_true};
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
use crate::pool::status::PoolOutcome;
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

/// Writes children that differ. Failures become part of the outcome, so that the status can report
/// them.
pub(super) async fn apply_pool(
    context: &Context,
    pool: &GatewayPool,
    prepared: GatewayObjects<'_>,
) -> PoolOutcome<Applied> {
    match write_objects(context, pool, prepared).await {
        Ok(applied) => PoolOutcome::Applied(Box::new(applied)),
        Err(error) => PoolOutcome::Failed(error),
    }
}

async fn write_objects(
    context: &Context,
    pool: &GatewayPool,
    prepared: GatewayObjects<'_>,
) -> Result<Applied, StepError> {
    let GatewayObjects {
        validated,
        account,
        config_map,
        service,
        budget,
        policy,
        tries,
        stateful_set,
    } = prepared;
    let Validated { observed, sizing, rollout, .. } = validated;
    let names = &observed.draft.names;
    let children = Children::of_owner(context, pool)?;
    let mut kept_configs = rollout::config_maps(&stateful_set);
    let config_name = config_map.name_any();
    kept_configs.insert(config_name.clone());
    let (keeps_budget, keeps_policy) = (budget.is_some(), policy.is_some());
    let mut changes = vec![
        children.apply_child(account).await?,
        children.apply_child(config_map).await?,
        children.apply_child(service).await?,
    ];
    if let Some(budget) = budget {
        changes.push(children.apply_child(budget).await?);
    }
    if let Some(policy) = policy {
        changes.push(children.apply_child(policy).await?);
    }
    let untried = match is_paused(pool) {
        true => None,
        false => trial_pods::apply_trial_pods(context, pool, tries).await?,
    };
    let (mut observation, change) = write_set(context, pool, &children, stateful_set).await?;
    changes.push(change.clone());
    let mut verdict = assess_rollout(&observation);
    if verdict != RolloutVerdict::Complete {
        let pods = observe::list_pods(context, &names.namespace, &names.selector()).await?;
        observation.pods = workload::active_pods(&pods, context.clock.now());
        let absent = &observed.watched.baseline.absent;
        observation.creation_refused = rollout::creation_refused(absent, observed.now);
        verdict = assess_rollout(&observation);
    }
    let complete = verdict == RolloutVerdict::Complete;
    let retained = RetainedObjects {
        configs: complete.then(|| kept_configs.iter().map(String::as_str).collect()),
        budget: keeps_budget,
        policy: keeps_policy,
        is_unchanged: change == ChildChange::None
            && !children.has_compared::<ConfigMap>(&config_name),
    };
    prune_objects(&children, pool, names, retained).await?;
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

/// The objects that pruning retains.
struct RetainedObjects<'a> {
    /// These configurations; `None` for all, as pods may still need them.
    configs: Option<Vec<&'a str>>,
    budget: bool,
    policy: bool,
    /// Whether the StatefulSet did not differ, and the configuration in use was not read in full.
    is_unchanged: bool,
}

/// Deletes objects of an earlier spec. Skipped for a pool that was settled at this generation,
/// whose StatefulSet is unchanged, and for which watches show no leftovers, unless a direct read is
/// due.
async fn prune_objects(
    children: &Children<'_>,
    pool: &GatewayPool,
    names: &PoolNames,
    retained: RetainedObjects<'_>,
) -> Result<(), ApplyError> {
    let generation = pool.metadata.generation.unwrap_or(0);
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let surplus = children
        .has_more_than::<GatewayPool, NetworkPolicy>(usize::from(retained.policy))
        || children.has_more_than::<GatewayPool, PodDisruptionBudget>(usize::from(retained.budget))
        || retained
            .configs
            .as_ref()
            .is_some_and(|configs| children.has_more_than::<GatewayPool, ConfigMap>(configs.len()));
    if retained.is_unchanged
        && is_true(conditions, ConditionType::PodsReady, generation)
        && !surplus
    {
        return Ok(());
    }
    let labels = names.selector_text();
    if !retained.budget {
        children.prune_children::<PodDisruptionBudget>(&labels, &[]).await?;
    }
    if !retained.policy {
        children.prune_children::<NetworkPolicy>(&labels, &[]).await?;
    }
    if let Some(configs) = retained.configs {
        children.prune_children::<ConfigMap>(&labels, &configs).await?;
    }
    Ok(())
}
