//! Making and removing the pods that try a change; which ones, `preflight` says.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};

use super::preflight::Tries;
use crate::cluster::api;
use crate::context::Context;
use crate::error::{Step, StepError};

/// Removes tries that are over, and makes the one that is wanted; gives its name if it could not be
/// made, for a quota, an admission rule or a role that forbids it.
///
/// # Errors
/// When the API server is away, or refuses for another cause.
pub async fn try_out(
    context: &Context,
    namespace: &str,
    tries: Tries,
) -> Result<Option<String>, StepError> {
    let Tries { make, remove } = tries;
    let pods = api::<Pod>(&context.client, namespace);
    for name in remove {
        match pods.delete(&name, &DeleteParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => {
                let what = format!("delete Pod {}/{name}", namespace);
                return Err(StepError::api(Step::Apply, what, error));
            }
        }
    }
    let Some(pod) = make else { return Ok(None) };
    let name = pod.name_any();
    match pods.create(&PostParams::default(), &pod).await {
        Ok(_) => Ok(None),
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
            let what = format!("create Pod {}/{name}", namespace);
            Err(StepError::api(Step::Apply, what, error))
        }
    }
}
