//! Writes the objects of an edge pool and prunes obsolete ones. The workload is written last,
//! through its gate.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::ResourceExt;
use millrace_crds::v1alpha1::{EdgePool, PendingChange};
use millrace_rollout::{Moving, RolloutVerdict, WorkloadObservation, assess_rollout};

use super::build::{EdgeObjects, Workload};
use super::change;
use super::gate::{self, Gate, GateOutcome};
use super::unit::DesiredUnit;
use crate::cluster::{ApplyError, ChildChange, Children};
use crate::context::Context;
use crate::error::{Category, StepError};
use crate::pool::access::{self, Right};
use crate::pool::names::PoolNames;
use crate::pool::{observe, scale, workload as figures};

/// The observation after writing.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) names: PoolNames,
    pub(super) image: String,
    /// The workload's figures, with its pods' faults unless it is complete.
    pub(super) observation: WorkloadObservation,
    /// The assessment of the figures.
    pub(super) verdict: RolloutVerdict,
    /// Whether something differs from the spec because the pool is paused.
    pub(super) withheld: bool,
    /// A change that not all pods have.
    pub(super) pending: Option<PendingChange>,
    pub(super) desired: DesiredUnit,
    /// The pool's pods, if they were read.
    pub(super) pods: Option<Vec<Pod>>,
}

/// Writes children that differ.
///
/// # Errors
/// When the API server refuses or can't be reached, after some writes.
pub(super) async fn apply_pool(
    context: &Context,
    pool: &EdgePool,
    prepared: EdgeObjects,
) -> Result<Applied, StepError> {
    let EdgeObjects { names, image, share_access, common, desired, workload } = prepared;
    let children = Children::of_owner(context, pool)?;
    let is_deployment = matches!(workload, Workload::Deployment(_));
    let mut changes = common.apply(&children).await?;
    apply_share_access(pool, &children, &names, share_access).await?;
    // A new pod finds its right already granted; a pool that is no longer on nodes loses it.
    access::ensure_binding(context, Right::Pods, pool).await?;
    access::ensure_binding(context, Right::Namespaces, pool).await?;
    let gate = Gate { context, pool, names: &names, desired: &desired, children: &children };
    let GateOutcome { mut observation, change, pending, mut pods } = match workload {
        Workload::Deployment(mut deployment) => {
            scale::release_replicas(context, pool, &children, &mut deployment).await?;
            gate.apply_workload(*deployment).await?
        }
        Workload::DaemonSet(daemon_set) => gate.apply_workload(*daemon_set).await?,
    };
    changes.push(change);
    let mut verdict = assess_rollout(&observation);
    // Before its controller has reconciled it, a workload has no pods in trouble.
    if !matches!(verdict, RolloutVerdict::Complete | RolloutVerdict::Moving(Moving::NotObserved)) {
        let all = match pods.take() {
            Some(all) => all,
            None => observe::list_pods(context, &names.namespace, &names.selector()).await?,
        };
        let existing = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let refused = gate::creation_refused(context, pool, (observation.desired, existing));
        observation.creation_refused = observation.creation_refused.or(refused);
        observation.pods = figures::active_pods(&all, context.clock.now());
        verdict = assess_rollout(&observation);
        pods = Some(all);
    } else {
        // The time of absence starts again.
        gate::creation_refused(context, pool, (observation.desired, observation.existing));
    }
    let complete = verdict == RolloutVerdict::Complete && pending.is_none();
    let ended = complete && change::reported_change(pool).is_some();
    let pruning = common.prune_optional::<EdgePool>(&children, &names).await?;
    // Clients must always find pods, so the new ones must be up first. A DaemonSet that finds no
    // node is complete without any.
    if complete {
        let stays = is_deployment || observation.desired == 0;
        pruning.prune_unless::<EdgePool, Deployment>(stays).await?;
        pruning.prune_unless::<EdgePool, DaemonSet>(!is_deployment).await?;
        // Old configurations remain until no pod can need one. A change that ends leaves one
        // behind, and no further event follows.
        let config_map = common.config_map.name_any();
        pruning.prune_configs::<EdgePool>(&[&config_map], ended).await?;
    }
    children.publish_changes().await;
    let withheld = changes.contains(&ChildChange::Withheld);
    Ok(Applied { names, image, observation, verdict, withheld, pending, desired, pods })
}

/// Binds the right to read shares, or revokes it from a pool that scraped before. If the operator
/// lacks that permission, the pool does not fail: its pods report that they can't read.
async fn apply_share_access(
    pool: &EdgePool,
    children: &Children<'_>,
    names: &PoolNames,
    binding: Option<RoleBinding>,
) -> Result<(), ApplyError> {
    let scraped = pool.status.as_ref().is_some_and(|status| status.targets.is_some());
    let outcome = match binding {
        Some(binding) => children.apply_child(binding).await.map(|_| ()),
        None if scraped && pool.spec.settings.receivers.prometheus.is_none() => {
            children.prune_children::<RoleBinding>(&names.selector_text(), &[]).await
        }
        None => Ok(()),
    };
    match outcome {
        Err(error) if error.category() == Category::Denied => {
            tracing::warn!(
                pool = names.pool,
                namespace = names.namespace,
                "pods can't be granted the right to read their shares, upgrade the chart: {error}"
            );
            Ok(())
        }
        outcome => outcome,
    }
}
