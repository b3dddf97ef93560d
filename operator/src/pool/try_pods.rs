//! Creates and removes trial pods, as `preflight` decides.
//!
//! If the pool changed since the decision, whoever made the pod removes it again: the change may
//! have ended, and nobody would search for it then.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use millrace_crds::Reason;

use super::preflight::Tries;
use crate::cluster::{Applicable, api};
use crate::context::Context;
use crate::error::{Category, Step, StepError};

/// Removes ended trial pods, and creates the desired one; returns its name if a quota, an admission
/// rule or a role forbade that.
///
/// # Errors
/// When the API server can't be reached, or refuses for another cause.
pub async fn try_out<K: Applicable>(
    context: &Context,
    pool: &K,
    tries: Tries,
) -> Result<Option<String>, StepError> {
    let namespace = pool.namespace().unwrap_or_default();
    let Tries { make, remove } = tries;
    let pods = api::<Pod>(&context.client, &namespace);
    for name in remove {
        delete(&pods, &namespace, &name).await?;
    }
    let Some(pod) = make else { return Ok(None) };
    let name = pod.name_any();
    match pods.create(&PostParams::default(), &pod).await {
        Ok(_) if is_as_now(context, pool, &namespace).await? => Ok(None),
        Ok(_) => {
            delete(&pods, &namespace, &name).await?;
            let cause = format!("{} changed while Pod {namespace}/{name} was made", K::kind(&()));
            let reason = Reason::ApiServerFailed;
            Err(StepError::new(Step::Apply, Category::Conflict, reason, cause))
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(kube::Error::Api(status)) if [400, 403, 422].contains(&status.code) => {
            let refusal = status.message;
            tracing::warn!(
                pod = name,
                refusal,
                "no pod tries the change; the pool's first pods do"
            );
            Ok(Some(name))
        }
        Err(error) => {
            let what = format!("create Pod {namespace}/{name}");
            Err(StepError::api(Step::Apply, what, error))
        }
    }
}

async fn delete(pods: &Api<Pod>, namespace: &str, name: &str) -> Result<(), StepError> {
    match pods.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => {
            Err(StepError::api(Step::Apply, format!("delete Pod {namespace}/{name}"), error))
        }
    }
}

/// Whether the pool is still in the state of the decision.
async fn is_as_now<K: Applicable>(
    context: &Context,
    pool: &K,
    namespace: &str,
) -> Result<bool, StepError> {
    let name = pool.name_any();
    let now = api::<K>(&context.client, namespace).get_metadata_opt(&name).await;
    let now = now.map_err(|error| {
        StepError::api(Step::Apply, format!("get {} {namespace}/{name}", K::kind(&())), error)
    })?;
    Ok(now.is_some_and(|now| {
        now.uid() == pool.uid() && now.resource_version() == pool.resource_version()
    }))
}
