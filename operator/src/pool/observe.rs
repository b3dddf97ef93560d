//! Reading what both kinds of pools need: Secrets, and pods in trouble.
//!
//! Secrets are read one by one by name, never listed or watched: the operator's role then needs no
//! more than `get`, and none is kept in memory. A change is seen at the next look.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, ListParams};

use super::secrets::{SecretUses, SecretsSeen};
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::scrape::PODS_MAX;

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

/// Reads the pods of a pool, one page of them: trouble shows in the first [`PODS_MAX`], and no more
/// are asked.
///
/// # Errors
/// When the API server refuses or is away.
pub async fn pods(
    context: &Context,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Result<Vec<Pod>, StepError> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let selector: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(",")).limit(PODS_MAX as u32);
    let pods = api.list(&params).await.map_err(|error| {
        StepError::api(Step::Observe, format!("list pods in {namespace}"), error)
    })?;
    Ok(pods.items)
}
