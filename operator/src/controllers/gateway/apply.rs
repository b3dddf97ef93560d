//! Writes the objects of a gateway pool, the StatefulSet last, and prunes obsolete ones. A
//! configuration stays while a pod, or the template of a rollback, may need it.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use millrace_crds::{ConditionType, is_true};
use millrace_rollout::{Observation, Verdict, judge};

use super::build::Prepared;
use super::rollout::{self, Decision};
use super::validate::Validated;
use crate::cluster::{ApplyError, Change, Children, is_paused};
use crate::context::Context;
use crate::error::StepError;
use crate::kafka::lag_board::LagObservation;
use crate::pool::names::PoolNames;
use crate::pool::status::Outcome;
use crate::pool::{observe, try_pods, workload};

/// What was found after writing.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) names: PoolNames,
    /// The StatefulSet's figures, with its pods' faults unless it is complete.
    pub(super) seen: Observation,
    /// What the figures mean.
    pub(super) verdict: Verdict,
    /// Something differs from the spec and stays so because the pool is paused.
    pub(super) withheld: bool,
    /// The trial pod that could not be created.
    pub(super) untried: Option<String>,
    /// The decision about the rollout, whole.
    pub(super) rollout: Decision,
    /// The decision about the size, whole.
    pub(super) sizing: SizingStatus,
    /// The lag, or the reason and message of why it is unknown.
    pub(super) lag: Result<LagObservation, (millrace_crds::Reason, String)>,
}

/// Writes what differs. Failures become part of the outcome, so that the status can report them.
pub(super) async fn apply(
    context: &Context,
    pool: &GatewayPool,
    prepared: Prepared<'_>,
) -> Outcome<Applied> {
    match write(context, pool, prepared).await {
        Ok(applied) => Outcome::Applied(Box::new(applied)),
        Err(error) => Outcome::Failed(error),
    }
}

async fn write(
    context: &Context,
    pool: &GatewayPool,
    prepared: Prepared<'_>,
) -> Result<Applied, StepError> {
    let Prepared { validated, account, config_map, service, budget, policy, tries, stateful_set } =
        prepared;
    let Validated { observed, sizing, rollout, .. } = validated;
    let names = &observed.draft.names;
    let children =
        Children::of(context, pool).ok_or_else(|| ApplyError::not_stored("GatewayPool"))?;
    let mut kept_configs = rollout::config_maps(&stateful_set);
    let config_name = config_map.name_any();
    kept_configs.insert(config_name.clone());
    let (keeps_budget, keeps_policy) = (budget.is_some(), policy.is_some());
    let mut changes = vec![
        children.keep(account).await?,
        children.keep(config_map).await?,
        children.keep(service).await?,
    ];
    if let Some(budget) = budget {
        changes.push(children.keep(budget).await?);
    }
    if let Some(policy) = policy {
        changes.push(children.keep(policy).await?);
    }
    let untried = match is_paused(pool) {
        true => None,
        false => try_pods::try_out(context, pool, tries).await?,
    };
    let (mut seen, change) = children.keep_workload(stateful_set, workload::stateful_set).await?;
    changes.push(change.clone());
    let mut verdict = judge(&seen);
    if verdict != Verdict::Complete {
        let pods = observe::pods(context, &names.namespace, &names.selector()).await?;
        seen.pods = workload::staying(&pods, context.clock.now());
        verdict = judge(&seen);
    }
    let complete = verdict == Verdict::Complete;
    let kept = Kept {
        configs: complete.then(|| kept_configs.iter().map(String::as_str).collect()),
        budget: keeps_budget,
        policy: keeps_policy,
        settled: change == Change::None && !children.has_compared::<ConfigMap>(&config_name),
    };
    prune(&children, pool, names, kept).await?;
    children.finish().await;
    Ok(Applied {
        names: names.clone(),
        seen,
        verdict,
        untried,
        withheld: changes.contains(&Change::Withheld),
        rollout: rollout.clone(),
        sizing: sizing.clone(),
        lag: match &observed.lag {
            Ok(lag) => Ok(lag.clone()),
            Err(error) => Err((error.reason, error.cause())),
        },
    })
}

/// What pruning leaves.
struct Kept<'a> {
    /// These configurations; `None`: all, as pods may still need them.
    configs: Option<Vec<&'a str>>,
    /// The disruption budget.
    budget: bool,
    /// The network policy.
    policy: bool,
    /// The StatefulSet did not differ, and the configuration in use was not read in full.
    settled: bool,
}

/// Deletes objects of an earlier spec. Skipped for a pool that was settled at this generation,
/// whose StatefulSet is unchanged, and for which watches show no leftovers, unless it is time to
/// look beyond the watches.
async fn prune(
    children: &Children<'_>,
    pool: &GatewayPool,
    names: &PoolNames,
    kept: Kept<'_>,
) -> Result<(), ApplyError> {
    let generation = pool.metadata.generation.unwrap_or(0);
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let surplus = children.has_more_than::<GatewayPool, NetworkPolicy>(usize::from(kept.policy))
        || children.has_more_than::<GatewayPool, PodDisruptionBudget>(usize::from(kept.budget))
        || kept
            .configs
            .as_ref()
            .is_some_and(|configs| children.has_more_than::<GatewayPool, ConfigMap>(configs.len()));
    if kept.settled && is_true(conditions, ConditionType::PodsReady, generation) && !surplus {
        return Ok(());
    }
    let labels = names.selector_text();
    if !kept.budget {
        children.prune::<PodDisruptionBudget>(&labels, &[]).await?;
    }
    if !kept.policy {
        children.prune::<NetworkPolicy>(&labels, &[]).await?;
    }
    if let Some(configs) = kept.configs {
        children.prune::<ConfigMap>(&labels, &configs).await?;
    }
    Ok(())
}
