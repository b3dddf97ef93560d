//! Writes the objects of an edge pool, the workload last, through its gate, and prunes obsolete
//! ones.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{EdgePool, PendingChange};
use millrace_rollout::{Moving, Observation, Verdict, judge};

use super::build::{Prepared, Workload};
use super::change::{self, Asked};
use super::gate::{self, Gate, Kept};
use crate::cluster::{Applicable, ApplyError, Change, Children};
use crate::context::Context;
use crate::error::{Category, StepError};
use crate::pool::access::{self, Right};
use crate::pool::names::PoolNames;
use crate::pool::status::Outcome;
use crate::pool::{observe, scale, workload as figures};

/// What was found after writing.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) names: PoolNames,
    pub(super) image: String,
    /// The workload's figures, with its pods' faults unless it is complete.
    pub(super) seen: Observation,
    /// What the figures mean.
    pub(super) verdict: Verdict,
    /// Something differs from the spec and stays so because the pool is paused.
    pub(super) withheld: bool,
    /// A change that not all pods have.
    pub(super) pending: Option<PendingChange>,
    /// What pods are to run.
    pub(super) asked: Asked,
    /// The pool's pods, if they were read.
    pub(super) pods: Option<Vec<Pod>>,
}

/// Writes what differs. Failures become part of the outcome, so that the status can report them.
pub(super) async fn apply(
    context: &Context,
    pool: &EdgePool,
    prepared: Prepared,
) -> Outcome<Applied> {
    match write(context, pool, prepared).await {
        Ok(applied) => Outcome::Applied(Box::new(applied)),
        Err(error) => Outcome::Failed(error),
    }
}

async fn write(
    context: &Context,
    pool: &EdgePool,
    prepared: Prepared,
) -> Result<Applied, StepError> {
    let Prepared {
        names,
        image,
        account,
        share_access,
        config_map,
        service,
        budget,
        policy,
        asked,
        workload,
    } = prepared;
    let children = Children::of(context, pool).ok_or_else(|| ApplyError::not_stored("EdgePool"))?;
    let wanted = Wanted {
        config_map: config_map.name_any(),
        deployment: matches!(workload, Workload::Deployment(_)),
        budget: budget.is_some(),
        policy: policy.is_some(),
    };
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
    follow_share_access(pool, &children, &names, share_access).await?;
    // A new pod finds the right there. Only pools on nodes may have had it.
    if matches!(workload, Workload::DaemonSet(_)) {
        let receivers = &pool.spec.settings.receivers;
        access::follow(context, Right::Pods, &names, receivers.watches_pods()).await?;
        let selects = receivers.selects_namespaces();
        access::follow(context, Right::Namespaces, &names, selects).await?;
    }
    let gate = Gate { context, pool, names: &names, asked: &asked, children: &children };
    let Kept { mut seen, change, pending, mut pods } = match workload {
        Workload::Deployment(mut wanted) => {
            scale::leave(context, pool, &children, &mut wanted).await?;
            gate.keep(*wanted, &gate::DEPLOYMENT).await?
        }
        Workload::DaemonSet(wanted) => gate.keep(*wanted, &gate::DAEMON_SET).await?,
    };
    changes.push(change);
    let mut verdict = judge(&seen);
    // Before its controller has reconciled it, a workload has no pods in trouble.
    if !matches!(verdict, Verdict::Complete | Verdict::Moving(Moving::NotSeen)) {
        let all = match pods.take() {
            Some(all) => all,
            None => observe::pods(context, &names.namespace, &names.selector()).await?,
        };
        seen.pods = figures::staying(&all, context.clock.now());
        verdict = judge(&seen);
        pods = Some(all);
    }
    let complete = verdict == Verdict::Complete && pending.is_none();
    let ended = complete && change::told(pool).is_some();
    prune(&children, &names, &wanted, complete, ended).await?;
    children.finish().await;
    let withheld = changes.contains(&Change::Withheld);
    Ok(Applied { names, image, seen, verdict, withheld, pending, asked, pods })
}

/// Binds the right to read shares, or takes it away from a pool that scraped before. It is no
/// failure of the pool where the operator may not: its pods say that they can't read.
async fn follow_share_access(
    pool: &EdgePool,
    children: &Children<'_>,
    names: &PoolNames,
    wanted: Option<RoleBinding>,
) -> Result<(), ApplyError> {
    let scraped = pool.status.as_ref().is_some_and(|status| status.targets.is_some());
    let outcome = match wanted {
        Some(wanted) => children.keep(wanted).await.map(|_| ()),
        None if scraped && pool.spec.settings.receivers.prometheus.is_none() => {
            children.prune::<RoleBinding>(&names.selector_text(), &[]).await.map(|_| ())
        }
        None => Ok(()),
    };
    match outcome {
        Err(error) if error.category() == Category::Denied => {
            tracing::warn!(
                pool = names.pool,
                namespace = names.namespace,
                "pods can't be given the right to read their shares, upgrade the chart: {error}"
            );
            Ok(())
        }
        outcome => outcome,
    }
}

/// What stays when the rest is pruned.
struct Wanted {
    config_map: String,
    deployment: bool,
    budget: bool,
    policy: bool,
}

/// Deletes objects of an earlier spec once watches show them; that event also triggers the
/// reconcile. When the configuration in use was read in full, they are listed instead, which costs
/// the API server a pass over the namespace. Old configurations stay until no pod can need
/// one. When a change ends they are listed too: it leaves one behind, and no further event will
/// come.
async fn prune(
    children: &Children<'_>,
    names: &PoolNames,
    wanted: &Wanted,
    complete: bool,
    ended: bool,
) -> Result<(), ApplyError> {
    let Wanted { deployment, budget, policy, .. } = *wanted;
    let blind = children.has_compared::<ConfigMap>(&wanted.config_map);
    absent::<PodDisruptionBudget>(children, names, budget, blind).await?;
    absent::<NetworkPolicy>(children, names, policy, blind).await?;
    if !complete {
        // Only once the new pods are up: clients must always find some.
        return Ok(());
    }
    absent::<Deployment>(children, names, deployment, blind).await?;
    absent::<DaemonSet>(children, names, !deployment, blind).await?;
    if blind || ended || children.has_more_than::<EdgePool, ConfigMap>(1) {
        children.prune::<ConfigMap>(&names.selector_text(), &[&wanted.config_map]).await?;
    }
    Ok(())
}

/// Deletes the pool's objects of kind `C` if there may be some, except the one that `stays`.
async fn absent<C: Applicable>(
    children: &Children<'_>,
    names: &PoolNames,
    stays: bool,
    blind: bool,
) -> Result<(), ApplyError> {
    let keep: &[&str] = if stays { &[&names.base] } else { &[] };
    // All have the same name: where one stays, no other is left over.
    if (blind && !stays) || children.has_more_than::<EdgePool, C>(keep.len()) {
        children.prune::<C>(&names.selector_text(), keep).await?;
    }
    Ok(())
}
