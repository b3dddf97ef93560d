//! Reads what a gateway pool's spec refers to: Secrets, the live StatefulSet, the consumer lag.

use k8s_openapi::api::apps::v1::StatefulSet;
use millrace_crds::v1alpha1::GatewayPool;

use super::validate::{Draft, Observed};
use crate::apply::api;
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::pool::observe;

/// Reads all of it. A lag that cannot be observed is part of the observation, not a failure: pods
/// are kept right even while the broker is away.
///
/// # Errors
/// When the API server refuses or is away.
pub(super) async fn observe(
    context: &Context,
    pool: &GatewayPool,
    draft: Draft,
) -> Result<Observed, StepError> {
    let (namespace, name) = (&draft.names.namespace, &draft.names.base);
    let salt = pool.metadata.uid.as_deref().unwrap_or_default();
    let found = observe::secrets(context, namespace, salt, &draft.secrets).await?;
    let live =
        api::<StatefulSet>(&context.client, namespace).get_opt(name).await.map_err(|error| {
            StepError::api(Step::Observe, format!("get StatefulSet {namespace}/{name}"), error)
        })?;
    let lag = context.lag.observe(&draft.lag).await;
    let mut kept = context.sizings.get(salt);
    if let Ok(lag) = &lag {
        kept.note(lag);
    }
    Ok(Observed { draft, found, live, lag, kept, now: context.clock.now() })
}
