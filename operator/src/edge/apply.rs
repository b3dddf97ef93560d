//! Writes the objects of an edge pool, the workload last, and prunes what is no longer wanted. A
//! change of image or configuration is tried before the workload has it.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, PodTemplateSpec};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{EdgePool, PendingChange};
use millrace_rollout::{Moving, Observation, Verdict, judge};

use super::build::{Prepared, Workload};
use super::preflight::{self, Asked, Decision};
use crate::apply::{Applicable, ApplyError, Change, Children, Looked, is_paused};
use crate::context::Context;
use crate::error::StepError;
use crate::pool::names::PoolNames;
use crate::pool::preflight::{self as tried, Tries};
use crate::pool::status::Outcome;
use crate::pool::{observe, tries, workload as figures};

/// What was found after writing.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) names: PoolNames,
    pub(super) image: String,
    /// The workload's figures, with its pods' troubles unless it is complete.
    pub(super) seen: Observation,
    /// What the figures mean.
    pub(super) verdict: Verdict,
    /// Something differs from the spec and was left so because the pool is paused.
    pub(super) withheld: bool,
    /// A change that no pod has yet.
    pub(super) pending: Option<PendingChange>,
}

/// Writes the difference. Failures become part of the outcome, so that the status can tell them.
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
    let Prepared { names, image, account, config_map, service, budget, policy, asked, workload } =
        prepared;
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
    let gate = Gate { context, pool, names: &names, asked: &asked, children: &children };
    let Kept { mut seen, change, pending } = match workload {
        Workload::Deployment(wanted) => {
            gate.keep(*wanted, figures::deployment, figures::deployed).await?
        }
        Workload::DaemonSet(wanted) => {
            gate.keep(*wanted, figures::daemon_set, figures::on_each_node).await?
        }
    };
    changes.push(change);
    let mut verdict = judge(&seen);
    // What its controller has not looked at yet has no pods in trouble.
    if !matches!(verdict, Verdict::Complete | Verdict::Moving(Moving::NotSeen)) {
        let pods = observe::pods(context, &names.namespace, &names.selector()).await?;
        seen.pods = figures::staying(&pods);
        verdict = judge(&seen);
    }
    let complete = verdict == Verdict::Complete && pending.is_none();
    prune(&children, &names, &wanted, complete).await?;
    children.finish().await;
    let withheld = changes.contains(&Change::Withheld);
    Ok(Applied { names, image, seen, verdict, withheld, pending })
}

/// Keeps the workload; lets a change of image or configuration through once it has been tried.
struct Gate<'a> {
    context: &'a Context,
    pool: &'a EdgePool,
    names: &'a PoolNames,
    asked: &'a Asked,
    children: &'a Children<'a>,
}

/// What keeping the workload came to.
struct Kept {
    seen: Observation,
    change: Change,
    pending: Option<PendingChange>,
}

impl Gate<'_> {
    async fn keep<K: Applicable>(
        &self,
        wanted: K,
        figures: fn(&K) -> Observation,
        template: fn(&K) -> Option<&PodTemplateSpec>,
    ) -> Result<Kept, StepError> {
        let told = self.pool.status.as_ref().and_then(|status| status.pending_change.as_ref());
        if is_paused(self.pool) {
            let (seen, change) = self.children.keep_workload(wanted, figures).await?;
            return Ok(Kept { seen, change, pending: told.cloned() });
        }
        let looked = self.children.look_at_workload(wanted).await?;
        let replaced = match &looked {
            Looked::AsWanted(_) => None,
            Looked::Differs(differs) => differs.replaced().zip(template(differs.wanted())),
        };
        let change = replaced.filter(|(live, _)| self.asked.differs_from(template(live)));
        let pending = match (change, told) {
            (None, None) => None,
            (change, _) => self.try_out(change.map(|(_, wanted)| wanted)).await?,
        };
        match (looked, pending) {
            (Looked::AsWanted(seen), pending) => Ok(Kept { seen, change: Change::None, pending }),
            (Looked::Differs(differs), Some(pending)) => {
                let seen = differs.replaced().map(figures).unwrap_or_default();
                Ok(Kept { seen, change: Change::None, pending: Some(pending) })
            }
            (Looked::Differs(differs), None) => {
                let (seen, change) = self.children.bring_about(*differs, figures).await?;
                Ok(Kept { seen, change, pending: None })
            }
        }
    }

    /// Goes on with the try of a change, given the template it wants; without one, ends all tries.
    /// Gives what is still to come of it. Where no such pod may be made, the pool's first pods are
    /// what tries the change.
    async fn try_out(
        &self,
        change: Option<&PodTemplateSpec>,
    ) -> Result<Option<PendingChange>, StepError> {
        let Self { context, pool, names, asked, .. } = self;
        let namespace = &names.namespace;
        let pods = observe::pods(context, namespace, &tried::selector(names)).await?;
        let Decision { pending, tries } = match change {
            Some(wanted) => {
                preflight::decide(pool, names, asked, wanted, &pods, context.clock.now())
            }
            None => Decision { pending: None, tries: Tries::over(&pods) },
        };
        let untried = tries::try_out(context, namespace, tries).await?;
        Ok(pending.filter(|_| untried.is_none()))
    }
}

/// What stays when the rest is pruned.
struct Wanted {
    config_map: String,
    deployment: bool,
    budget: bool,
    policy: bool,
}

/// Deletes what an earlier spec made, once watches show it: the event that tells of it wakes the
/// pool. Where they have not even told of what is in use, it is looked for at the end: a list costs
/// the API server a look at all objects of the namespace. Old configurations stay until no pod can
/// still need one.
async fn prune(
    children: &Children<'_>,
    names: &PoolNames,
    wanted: &Wanted,
    complete: bool,
) -> Result<(), ApplyError> {
    let blind = complete && !children.is_known::<ConfigMap>(&wanted.config_map);
    let labels = names.selector_text();
    let keep: &[&str] = &[&names.base];
    let kept = |stays: bool| if stays { keep } else { &[] };
    let Wanted { deployment, budget, policy, .. } = *wanted;
    if blind || children.has_more_than::<EdgePool, PodDisruptionBudget>(usize::from(budget)) {
        children.prune::<PodDisruptionBudget>(&labels, kept(budget)).await?;
    }
    if blind || children.has_more_than::<EdgePool, NetworkPolicy>(usize::from(policy)) {
        children.prune::<NetworkPolicy>(&labels, kept(policy)).await?;
    }
    if !complete {
        // Not before the new pods are up: clients must always find some.
        return Ok(());
    }
    if blind || children.has_more_than::<EdgePool, Deployment>(usize::from(deployment)) {
        children.prune::<Deployment>(&labels, kept(deployment)).await?;
    }
    if blind || children.has_more_than::<EdgePool, DaemonSet>(usize::from(!deployment)) {
        children.prune::<DaemonSet>(&labels, kept(!deployment)).await?;
    }
    if blind || children.has_more_than::<EdgePool, ConfigMap>(1) {
        children.prune::<ConfigMap>(&labels, &[&wanted.config_map]).await?;
    }
    Ok(())
}
