//! Reads what both kinds of pools need: Secrets, pods, and what pods say of themselves.
//!
//! Secrets are read one by one by name, never listed or watched: the role needs only `get`, and
//! none is cached. A change is seen at the next reconcile.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Secret};
use kube::api::{Api, ListParams};

use super::names::PoolNames;
use super::secrets::{CurrentSecrets, SecretUses, SecretsSeen};
use super::template::CONFIG_VOLUME;
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::pods::{Look, PodState, facts, pages};

/// Reads the Secrets needed; `salt` is the pool's uid.
///
/// # Errors
/// When the API server refuses or can't be reached. A missing Secret is no error here.
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

/// What the Secrets that templates need are now. `known` are those of the spec, which aren't read
/// again: templates that need the same cost nothing.
///
/// # Errors
/// When the API server refuses or can't be reached. A missing Secret is no error here.
pub async fn current_secrets(
    context: &Context,
    namespace: &str,
    salt: &str,
    known: (SecretUses, Option<String>),
    templates: Vec<SecretUses>,
) -> Result<CurrentSecrets, StepError> {
    let mut current = CurrentSecrets::default();
    current.note(known.0, known.1);
    for uses in templates {
        if !current.knows(&uses) {
            let seen = secrets(context, namespace, salt, &uses).await?;
            current.note(uses, seen.digest().ok().flatten());
        }
    }
    Ok(current)
}

/// Reads all pods of a pool, each as [`cut_down`] leaves it: one page would have the first by name,
/// and pods with a change have the highest numbers.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn pods(
    context: &Context,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Result<Vec<Pod>, StepError> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), namespace);
    let selector: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(","));
    pages::all(&api, params, cut_down)
        .await
        .map_err(|error| StepError::api(Step::Observe, format!("list pods in {namespace}"), error))
}

/// Scrapes the pods that will stay. A silent one is part of the observation.
pub async fn figures(
    context: &Context,
    names: &PoolNames,
    pods: &[Pod],
    now: Timestamp,
) -> (Vec<PodState>, Look) {
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let facts: Vec<PodState> = staying.map(facts).collect();
    let targets: Vec<_> = facts.iter().filter_map(PodState::target).collect();
    let look = context.pods.look(&targets, now).await;
    for error in look.values().filter_map(|answer| answer.as_ref().err()) {
        tracing::debug!(pool = %names.pool, namespace = %names.namespace, %error, "no figures");
    }
    (facts, look)
}

/// The needed part of a pod, about 2 kB: image, configuration and resources of its containers, its
/// node and its status.
fn cut_down(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    pod.metadata.annotations = None;
    pod.spec = pod.spec.map(|spec| PodSpec {
        containers: spec.containers.into_iter().map(container).collect(),
        node_name: spec.node_name,
        volumes: spec.volumes.map(|mut volumes| {
            volumes.retain(|volume| volume.name == CONFIG_VOLUME);
            volumes
        }),
        ..PodSpec::default()
    });
    pod
}

fn container(whole: Container) -> Container {
    Container {
        name: whole.name,
        image: whole.image,
        resources: whole.resources,
        ..Container::default()
    }
}
