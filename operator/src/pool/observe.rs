//! Reads what both kinds of pools need: Secrets, pods, and the pods' own metrics.
//!
//! Secrets are read one by one by name: the role needs only `get`. No value is stored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::ListParams;
use millrace_rollout::WorkloadObservation;

use super::names::PoolNames;
use super::secrets::{CurrentSecrets, SecretUses, SecretsObservation};
use super::template::IMAGE_ANNOTATION;
use super::volumes::CONFIG_VOLUME;
use crate::cluster::list_objects;
use crate::context::Context;
use crate::error::{ReconcileStep, StepError};
use crate::outbound::credentials::Secrets;
use crate::pods::{PodState, ScrapeResults, read_pod_state};

/// Reads the needed Secrets and ConfigMaps; `salt` is the pool's uid.
///
/// # Errors
/// When the API server refuses or can't be reached. A missing Secret is no error here.
pub async fn read_secrets(
    context: &Context,
    namespace: &str,
    salt: &str,
    uses: &SecretUses,
) -> Result<SecretsObservation, StepError> {
    let reader = Secrets::in_namespace(&context.client, namespace);
    let mut observation = SecretsObservation::default();
    for (source, keys) in uses.iter() {
        match reader.read_source(source).await? {
            None => observation.record_absent(source),
            Some(data) => observation.record_found(salt, source, keys, &data),
        }
    }
    Ok(observation)
}

/// Returns the present state of the Secrets that templates need. `known` are those of the spec,
/// which aren't read again, so templates that need the same cost nothing.
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
    current.record_digest(known.0, known.1);
    for uses in templates {
        if !current.has_digest(&uses) {
            let observation = read_secrets(context, namespace, salt, &uses).await?;
            current.record_digest(uses, observation.combined_digest().ok().flatten());
        }
    }
    Ok(current)
}

/// Reads all pods of a pool, each reduced by [`strip_pod`]. One page would contain the first by
/// name, but pods with a change have the highest ordinals.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn list_pods(
    context: &Context,
    namespace: &str,
    selector: &BTreeMap<String, String>,
) -> Result<Vec<Pod>, StepError> {
    let selector: Vec<String> =
        selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(","));
    let stripped = |mut pod| {
        strip_pod(&mut pod);
        pod
    };
    list_objects(context, namespace, params, stripped).await
}

/// Scrapes the pods that are not being deleted. The observation includes pods that don't answer.
pub async fn scrape_pods(
    context: &Context,
    names: &PoolNames,
    pods: &[Pod],
    now: Timestamp,
) -> (Vec<PodState>, ScrapeResults) {
    let staying = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let facts: Vec<PodState> = staying.map(read_pod_state).collect();
    let targets: Vec<_> = facts.iter().filter_map(PodState::scrape_target).collect();
    let scrapes = context.pods.scrape_pods(&targets, now).await;
    for error in scrapes.values().filter_map(|answer| answer.as_ref().err()) {
        tracing::debug!(pool = %names.pool, namespace = %names.namespace, %error, "no figures");
    }
    (facts, scrapes)
}

/// Reduces a pod to the needed part, about 2 kB: image, configuration and resources of its
/// containers, its node and its status.
pub fn strip_pod(pod: &mut Pod) {
    pod.metadata.managed_fields = None;
    let image = pod.metadata.annotations.take();
    let image = image.and_then(|mut all| all.remove_entry(IMAGE_ANNOTATION));
    pod.metadata.annotations = image.map(|image| [image].into());
    pod.spec = pod.spec.take().map(|spec| PodSpec {
        containers: spec.containers.into_iter().map(cut_container).collect(),
        node_name: spec.node_name,
        volumes: spec.volumes.map(|mut volumes| {
            volumes.retain(|volume| volume.name == CONFIG_VOLUME);
            volumes
        }),
        ..PodSpec::default()
    });
}

fn cut_container(container: Container) -> Container {
    Container {
        name: container.name,
        image: container.image,
        resources: container.resources,
        ..Container::default()
    }
}

/// Returns the figures of the workload, read by `workload`, if the pool's spec can't be applied:
/// its pods run on as they were.
///
/// # Errors
/// The failed observation of the pool, of which nothing is reported then; or that of `workload`.
pub async fn figures_if_invalid<A>(
    outcome: &Result<A, StepError>,
    workload: impl Future<Output = Result<Option<WorkloadObservation>, StepError>>,
) -> Result<Option<WorkloadObservation>, StepError> {
    match outcome {
        Err(error) if error.step == ReconcileStep::Observe => Err(error.clone()),
        Err(error) if error.step == ReconcileStep::Validate => workload.await,
        Ok(_) | Err(_) => Ok(None),
    }
}
