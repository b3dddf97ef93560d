//! Reading what both kinds of pools need: Secrets, and pods in trouble.
//!
//! Secrets are read one by one by name, never listed or watched: the operator's role then needs no
//! more than `get`, and none is kept in memory. A change is seen at the next look.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, ListParams};

use super::secrets::{SecretUses, SecretsSeen};
use super::workload::pod_figures;
use crate::context::Context;
use crate::error::{Step, StepError};

/// Pods looked at when a rollout is not complete; one page. Trouble shows in the first hundred.
const PODS_MAX: u32 = 100;

/// Reads the Secrets needed; `salt` is the pool's uid.
///
/// # Errors
/// When the API server refuses or is away. A missing Secret is no error here.
pub async fn secrets(
    context: &Context,
    namespace: &str,
    salt: &str,
    uses: &SecretUses,
) -> Result<SecretsSeen, StepError> {
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let mut seen = SecretsSeen::default();
    for (name, keys) in uses.iter() {
        let found = api.get_opt(name).await.map_err(|error| {
            StepError::api(Step::Observe, format!("get Secret {namespace}/{name}"), error)
        })?;
        match found {
            None => seen.absent(name),
            Some(secret) => seen.found(salt, name, keys, &secret.data.unwrap_or_default()),
        }
    }
    Ok(seen)
}

/// Reads what the pods of a pool say about themselves.
///
/// # Errors
/// When the API server refuses or is away.
pub async fn pods(
    context: &Context,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Result<Vec<millrace_rollout::PodFigures>, StepError> {
    let pods = list_pods(context, namespace, selector).await?;
    // A pod on its way out says nothing about the rollout.
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(staying.map(pod_figures).collect())
}

/// Reads the pods of a pool.
///
/// # Errors
/// When the API server refuses or is away.
pub async fn list_pods(
    context: &Context,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Result<Vec<Pod>, StepError> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let selector: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(",")).limit(PODS_MAX);
    let pods = api.list(&params).await.map_err(|error| {
        StepError::api(Step::Observe, format!("list pods in {namespace}"), error)
    })?;
    Ok(pods.items)
}
