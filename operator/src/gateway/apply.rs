//! Writes the objects of a gateway pool, the StatefulSet last, and prunes what is no longer wanted.
//! Another image waits until the tables the pool writes to are at the revision of this release.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use millrace_crds::{ConditionType, is_true};
use millrace_rollout::{Observation, Verdict, judge};

use super::build::Prepared;
use super::validate::Validated;
use crate::apply::{ApplyError, Change, Children, is_paused};
use crate::context::Context;
use crate::error::StepError;
use crate::lag::LagObservation;
use crate::pool::names::PoolNames;
use crate::pool::status::Outcome;
use crate::pool::{observe, workload};
use crate::schema::tables_behind;

/// What was found after writing.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) names: PoolNames,
    pub(super) image: String,
    /// The StatefulSet's figures, with its pods' troubles unless it is complete.
    pub(super) seen: Observation,
    /// What the figures mean.
    pub(super) verdict: Verdict,
    /// Something differs from the spec and was left so because the pool is paused.
    pub(super) withheld: bool,
    /// What must be at its revision before the pods get another image.
    pub(super) waits_for: Option<String>,
    /// The decision about the size, whole.
    pub(super) sizing: SizingStatus,
    /// The lag, or the reason and message of why it is not known.
    pub(super) lag: Result<LagObservation, (millrace_crds::Reason, String)>,
}

/// Writes the difference. Failures become part of the outcome, so that the status can tell them.
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
    let Prepared { validated, account, config_map, service, budget, policy, stateful_set } =
        prepared;
    let Validated { pool: _, observed, config_map: _, secrets_digest: _, sizing, kept: _ } =
        validated;
    let names = &observed.draft.names;
    let children =
        Children::of(context, pool).ok_or_else(|| ApplyError::not_stored("GatewayPool"))?;
    let kept_config = config_map.name_any();
    let keeps_policy = policy.is_some();
    let mut changes = vec![
        children.keep(account).await?,
        children.keep(config_map).await?,
        children.keep(service).await?,
        children.keep(budget).await?,
    ];
    if let Some(policy) = policy {
        changes.push(children.keep(policy).await?);
    }
    let is_new_image =
        workload::image(&stateful_set) != observed.live.as_ref().and_then(workload::image);
    let behind = match is_new_image {
        true => tables_behind(context, pool).await?,
        false => None,
    };
    let ensured = match &behind {
        None => children.ensure(stateful_set).await?,
        Some(_) => children.withheld().ensure(stateful_set).await?,
    };
    let waits_for = behind.filter(|_| ensured.change == Change::Withheld && !is_paused(pool));
    changes.push(if waits_for.is_some() { Change::None } else { ensured.change });
    let mut seen = workload::stateful_set(&ensured.object);
    let mut verdict = judge(&seen);
    if verdict != Verdict::Complete {
        seen.pods = observe::pods(context, &names.namespace, &names.selector()).await?;
        verdict = judge(&seen);
    }
    let complete = verdict == Verdict::Complete;
    prune(&children, pool, names, &kept_config, keeps_policy, complete).await?;
    children.finish().await;
    Ok(Applied {
        names: names.clone(),
        image: observed.draft.image.clone(),
        seen,
        verdict,
        withheld: changes.contains(&Change::Withheld),
        waits_for,
        sizing: sizing.clone(),
        lag: match &observed.lag {
            Ok(lag) => Ok(lag.clone()),
            Err(error) => Err((error.reason, error.cause())),
        },
    })
}

/// Deletes what an earlier spec made. A pool that was settled at this generation before, and of
/// which watches show nothing left over, is not looked at. Old configurations stay until no pod can still need one.
async fn prune(
    children: &Children<'_>,
    pool: &GatewayPool,
    names: &PoolNames,
    config_map: &str,
    keeps_policy: bool,
    complete: bool,
) -> Result<(), ApplyError> {
    let generation = pool.metadata.generation.unwrap_or(0);
    let conditions = pool.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let surplus = children.has_more_than::<GatewayPool, ConfigMap>(1)
        || children.has_more_than::<GatewayPool, NetworkPolicy>(usize::from(keeps_policy));
    if is_true(conditions, ConditionType::PodsReady, generation) && !surplus {
        return Ok(());
    }
    let labels = names.selector_text();
    if !keeps_policy {
        children.prune::<NetworkPolicy>(&labels, &[]).await?;
    }
    if complete {
        children.prune::<ConfigMap>(&labels, &[config_map]).await?;
    }
    Ok(())
}
