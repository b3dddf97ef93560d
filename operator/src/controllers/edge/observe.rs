//! Reads what an edge pool's spec refers to, the pods' reports of their nodes' logs, of refused
//! watches and of routed records, and the workload if nothing may be applied.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use millrace_crds::v1alpha1::{EdgeMode, EdgePool};
use millrace_rollout::WorkloadObservation;

use super::apply::Applied;
use super::node_logs::NodeLogs;
use super::routes::{self, RoutedRecords};
use super::validate::Observed;
use super::watches::{self, Watches};
use crate::cache::baseline;
use crate::cluster::namespaced_api;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::pool::draft::PoolDraft;
use crate::pool::names::{PoolNames, Role};
use crate::pool::observe;
use crate::pool::secrets::SecretUses;
use crate::pool::workload::EdgeWorkload;

/// What a pool's pods report, as far as the status has it.
#[derive(Debug, Default)]
pub(super) struct PodReports {
    /// Of their nodes' logs; `None` if the pool reads none.
    pub(super) logs: Option<NodeLogs>,
    /// Of watches that they are refused; `None` if no pod answers.
    pub(super) watches: Option<Watches>,
    /// Of records routed to other topics; `None` if no pod answers.
    pub(super) routed: Option<RoutedRecords>,
}

/// Reads the Secrets that the draft refers to.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn observe_pool(
    context: &Context,
    pool: &EdgePool,
    draft: PoolDraft,
) -> Result<Observed, StepError> {
    let salt = pool.metadata.uid.as_deref().unwrap_or_default();
    let PoolNames { namespace, pool: name, .. } = &draft.names;
    let secrets = draft.secrets.secret_names();
    context.references.set_secrets::<EdgePool>(namespace, name, secrets);
    let found = observe::read_secrets(context, namespace, salt, &draft.secrets).await?;
    Ok(Observed { draft, secrets: found })
}

/// Reads the figures of the workload of a pool whose spec can't be applied; `None` if there is
/// none.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn observe_workload(
    context: &Context,
    pool: &EdgePool,
) -> Result<Option<WorkloadObservation>, StepError> {
    let Ok(names) = PoolNames::of_pool(pool, Role::Edge) else { return Ok(None) };
    match pool.spec.settings.mode {
        EdgeMode::Deployment => read_figures::<Deployment>(context, &names).await,
        EdgeMode::DaemonSet => read_figures::<DaemonSet>(context, &names).await,
    }
}

async fn read_figures<K: EdgeWorkload>(
    context: &Context,
    PoolNames { namespace, base: name, .. }: &PoolNames,
) -> Result<Option<WorkloadObservation>, StepError> {
    let live = namespaced_api::<K>(&context.client, namespace).get_opt(name).await;
    let what = || format!("get the workload {namespace}/{name}");
    let live = live.map_err(|it| StepError::from_kube(ReconcileStep::Observe, what(), it))?;
    Ok(live.as_ref().map(K::observe_workload))
}

/// Queries the pods about their nodes' logs, their watches and the records that they routed, once
/// everything is applied; before that, returns the figures in the status.
///
/// # Errors
/// When the API server refuses or can't be reached. Pods that don't answer are no error.
pub(super) async fn observe_pods(
    context: &Context,
    pool: &EdgePool,
    outcome: &Result<Applied, StepError>,
) -> Result<PodReports, StepError> {
    let logs = reads_nodes(pool).then(|| NodeLogs::from_status(pool.status.as_ref()));
    let mut reports = PodReports { logs, ..PodReports::default() };
    let Ok(applied) = outcome else { return Ok(reports) };
    if !reads_pod_reports(pool) {
        return Ok(reports);
    }
    let Applied { names, pods, .. } = applied;
    let pods = match pods {
        Some(pods) => Cow::Borrowed(pods),
        None => {
            let selector = names.selector();
            Cow::Owned(observe::list_pods(context, &names.namespace, &selector).await?)
        }
    };
    let now = context.clock.now();
    let (facts, scrapes) = observe::scrape_pods(context, names, &pods, now).await;
    if applied.pending.is_none() && pool.spec.rollout.canary.is_some() {
        let uid = pool.metadata.uid.as_deref().unwrap_or_default();
        let samples = baseline::successful_samples(&scrapes);
        context.baselines.update(uid, now, |baseline| baseline.record_past(samples));
    }
    reports.watches = Watches::from_answers(&facts, &scrapes);
    reports.routed = RoutedRecords::from_answers(&scrapes);
    if let Some(logs) = &mut reports.logs {
        logs.record_responses(&facts, &scrapes, now);
    }
    Ok(reports)
}

/// Returns whether watches report everything that the pool depends on: its Secrets (ConfigMaps are
/// not watched), and no figures of pods.
pub(super) fn is_watched(context: &Context, pool: &EdgePool, secrets: &SecretUses) -> bool {
    let has_figures = reads_pod_reports(pool) || pool.spec.settings.receivers.prometheus.is_some();
    let watches_all = context.watches_secrets && !secrets.has_config_maps();
    !has_figures && (watches_all || secrets.iter().next().is_none())
}

/// Returns whether pods are queried for the status.
fn reads_pod_reports(pool: &EdgePool) -> bool {
    reads_nodes(pool) || watches::requires_rights(&pool.spec.settings) || routes::has_routes(pool)
}

/// Returns whether a pool's pods read logs of their nodes.
pub(super) fn reads_nodes(pool: &EdgePool) -> bool {
    let receivers = &pool.spec.settings.receivers;
    receivers.reads_files() || receivers.reads_kernel()
}
