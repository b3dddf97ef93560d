//! Reads what an edge pool's spec refers to, what its pods say of their nodes' logs, and its
//! workload when nothing may be applied.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use millrace_crds::v1alpha1::{EdgeMode, EdgePool};
use millrace_rollout::Observation;

use super::apply::Applied;
use super::node_logs::NodeLogs;
use super::validate::Observed;
use crate::cache::baseline;
use crate::cluster::api;
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::pool::draft::Draft;
use crate::pool::status::Outcome;
use crate::pool::{observe, workload as figures};

/// Reads the Secrets the draft refers to.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn observe(
    context: &Context,
    pool: &EdgePool,
    draft: Draft,
) -> Result<Observed, StepError> {
    let salt = pool.metadata.uid.as_deref().unwrap_or_default();
    let found = observe::secrets(context, &draft.names.namespace, salt, &draft.secrets).await?;
    Ok(Observed { draft, found })
}

/// Reads the live workload, for the status of a pool that may not be applied.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub(super) async fn workload(
    context: &Context,
    pool: &EdgePool,
    draft: &Draft,
) -> Result<Option<Observation>, StepError> {
    let (namespace, name) = (&draft.names.namespace, &draft.names.base);
    let failed = |error| {
        StepError::api(Step::Observe, format!("get the workload {namespace}/{name}"), error)
    };
    Ok(match pool.spec.settings.mode {
        EdgeMode::Deployment => api::<Deployment>(&context.client, namespace)
            .get_opt(name)
            .await
            .map_err(failed)?
            .map(|live| figures::deployment(&live)),
        EdgeMode::DaemonSet => api::<DaemonSet>(&context.client, namespace)
            .get_opt(name)
            .await
            .map_err(failed)?
            .map(|live| figures::daemon_set(&live)),
    })
}

/// Asks the pods about their nodes' logs, once everything is applied; before that it has what the
/// status says. None if the pool reads no node's logs.
///
/// # Errors
/// When the API server refuses or can't be reached. Pods that don't answer are no error.
pub(super) async fn node_logs(
    context: &Context,
    pool: &EdgePool,
    outcome: &Outcome<Applied>,
) -> Result<Option<NodeLogs>, StepError> {
    if !reads_nodes(pool) {
        return Ok(None);
    }
    let mut logs = NodeLogs::told(pool.status.as_ref());
    if let Outcome::Applied(applied) = outcome {
        let Applied { names, pods, .. } = applied.as_ref();
        let pods = match pods {
            Some(pods) => Cow::Borrowed(pods),
            None => {
                let selector = names.selector();
                Cow::Owned(observe::pods(context, &names.namespace, &selector).await?)
            }
        };
        let now = context.clock.now();
        let (facts, look) = observe::figures(context, names, &pods, now).await;
        if applied.pending.is_none() && pool.spec.rollout.canary.is_some() {
            let uid = pool.metadata.uid.as_deref().unwrap_or_default();
            let mut baseline = context.baselines.get(uid);
            baseline.rest(baseline::answered(&look));
            context.baselines.put(uid, baseline, now);
        }
        logs.note(&facts, &look, now);
    }
    Ok(Some(logs))
}

/// Whether the status has figures of pods, which no watch reports.
pub(super) fn is_told_of(pool: &EdgePool) -> bool {
    reads_nodes(pool) || pool.spec.settings.receivers.prometheus.is_some()
}

/// Whether a pool's pods read logs of their nodes.
pub(super) fn reads_nodes(pool: &EdgePool) -> bool {
    let receivers = &pool.spec.settings.receivers;
    receivers.reads_files() || receivers.reads_kernel()
}
