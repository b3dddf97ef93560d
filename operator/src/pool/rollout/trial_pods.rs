//! Creates and deletes trial pods, as `preflight` decides.
//!
//! If the pool changed since the decision, the creator of the pod deletes it again: the change may
//! have ended, and nothing would search for the pod then.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use millrace_crds::Reason;

use super::preflight::{Trial, TrialPods, is_violation};
use crate::cache::baseline::Untried;
use crate::cluster::{Applicable, delete_object, namespaced_api};
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};

/// Deletes ended trial pods and creates the desired one; returns the refusal if a quota, an
/// admission rule or a role forbade that.
///
/// # Errors
/// When the API server can't be reached, or refuses for another cause.
pub async fn apply_trial_pods<K: Applicable>(
    context: &Context,
    pool: &K,
    tries: TrialPods,
) -> Result<Option<Untried>, StepError> {
    let namespace = pool.namespace().unwrap_or_default();
    let TrialPods { make, remove } = tries;
    let pods = namespaced_api::<Pod>(&context.client, &namespace);
    for name in remove {
        delete_object::<Pod>(context, &namespace, &name, &DeleteParams::default()).await?;
    }
    let Some(trial) = make else { return Ok(None) };
    let Trial { pod, complete } = *trial;
    let name = pod.name_any();
    if let Some(cause) = find_violation(&pods, &namespace, &complete).await? {
        tracing::warn!(pod = name, cause, "Pod Security refuses the pods of a change");
        return Ok(Some(Untried { name, cause }));
    }
    match pods.create(&PostParams::default(), &pod).await {
        Ok(_) if is_unchanged(context, pool, &namespace).await? => Ok(None),
        Ok(_) => {
            delete_object::<Pod>(context, &namespace, &name, &DeleteParams::default()).await?;
            let cause = format!("{} changed while Pod {namespace}/{name} was made", K::kind(&()));
            let reason = Reason::ApiServerFailed;
            Err(StepError::new(ReconcileStep::Apply, Category::Conflict, reason, cause))
        }
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
        Err(kube::Error::Api(status)) if [400, 403, 422].contains(&status.code) => {
            let cause = status.message;
            tracing::warn!(pod = name, cause, "the trial pod can't be created");
            Ok(Some(Untried { name, cause }))
        }
        Err(error) => {
            let what = format!("create Pod {namespace}/{name}");
            Err(StepError::from_kube(ReconcileStep::Apply, what, error))
        }
    }
}

/// Returns Pod Security's refusal of a pod, by a dry run. Other refusals, such as that of a webhook
/// that supports no dry run, prove nothing about the pool's pods.
async fn find_violation(
    pods: &Api<Pod>,
    namespace: &str,
    pod: &Pod,
) -> Result<Option<String>, StepError> {
    let params = PostParams { dry_run: true, ..PostParams::default() };
    match pods.create(&params, pod).await {
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status))
            if (400..500).contains(&status.code) && status.code != 429 =>
        {
            Ok(Some(status.message.clone()).filter(|cause| is_violation(cause)))
        }
        Err(error) => {
            let what = format!("create Pod {namespace}/{} as a dry run", pod.name_any());
            Err(StepError::from_kube(ReconcileStep::Apply, what, error))
        }
    }
}

/// Returns whether the API server has no other state of the pool than this copy.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn is_unchanged<K: Applicable>(
    context: &Context,
    pool: &K,
    namespace: &str,
) -> Result<bool, StepError> {
    let name = pool.name_any();
    let now = namespaced_api::<K>(&context.client, namespace).get_metadata_opt(&name).await;
    let now = now.map_err(|error| {
        StepError::from_kube(
            ReconcileStep::Apply,
            format!("get {} {namespace}/{name}", K::kind(&())),
            error,
        )
    })?;
    Ok(now.is_some_and(|now| {
        now.uid() == pool.uid() && now.resource_version() == pool.resource_version()
    }))
}
