//! Reads what an edge pool's spec refers to, and its workload when nothing may be applied.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use millrace_crds::v1alpha1::{EdgeMode, EdgePool};
use millrace_rollout::Observation;

use super::validate::Observed;
use crate::cluster::api;
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::pool::draft::Draft;
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
