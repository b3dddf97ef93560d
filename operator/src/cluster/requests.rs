//! Requests that several kinds make, with the error of a step.

use kube::api::{DeleteParams, ListParams};

use super::{Applicable, namespaced_api};
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::pods::pages;

/// Reads all objects of a kind in a namespace that `params` select, each reduced by `reduce`.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn list_objects<K: Applicable>(
    context: &Context,
    namespace: &str,
    params: ListParams,
    reduce: impl FnMut(K) -> K,
) -> Result<Vec<K>, StepError> {
    let listed = pages::list_all(&namespaced_api(&context.client, namespace), params, reduce).await;
    listed.map_err(|error| {
        let what = format!("list {} in {namespace}", K::plural(&()));
        StepError::from_kube(ReconcileStep::Observe, what, error)
    })
}

/// Deletes an object. It is no error if that no longer exists, or is not the one that `params`
/// require.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn delete_object<K: Applicable>(
    context: &Context,
    namespace: &str,
    name: &str,
    params: &DeleteParams,
) -> Result<(), StepError> {
    let is_other = |code| code == 409 && params.preconditions.is_some();
    match namespaced_api::<K>(&context.client, namespace).delete(name, params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 || is_other(status.code) => Ok(()),
        Err(error) => {
            let what = format!("delete {} {namespace}/{name}", K::kind(&()));
            Err(StepError::from_kube(ReconcileStep::Apply, what, error))
        }
    }
}
