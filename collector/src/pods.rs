//! Starts the watches of pods, of namespaces and of a share where settings request them, from what
//! Kubernetes gives each pod. It connects both sides, so that sources and rules know no Kubernetes.

use std::sync::Arc;

use millrace_config::{ContainersReceiver, PodMetadata, Positions, Receivers};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::pods::{Namespaces, PodLookup};
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{MetadataRules, PodReaders, WatchedPods};
use millrace_rules::Rules;

use crate::api_server::{api_endpoint, required_variable};
use crate::common::RunError;
use crate::share::watch_share;

/// The variable with the name of the pod's node.
const NODE: &str = "NODE_NAME";

/// What watches at the API server give the parts of an edge.
#[derive(Default)]
pub(crate) struct EdgeWatches {
    /// The pods of log files.
    pub(crate) pods: Option<Arc<dyn PodLookup>>,
    /// The selected namespaces of log files.
    pub(crate) namespaces: Option<Arc<Namespaces>>,
    /// The process's share of targets.
    pub(crate) share: Option<Shares>,
    /// The memory of the budget that the table of pods for clients' records has.
    pub(crate) reserved_bytes: u64,
}

/// Starts the watches that the settings need.
pub(crate) fn start_watches(
    sources: &Receivers,
    positions: &Positions,
    rules: Option<&Arc<Rules>>,
    budget: &Budget,
    telemetry: &Telemetry,
) -> Result<EdgeWatches, RunError> {
    let watches = watch_pods(sources, rules, budget, telemetry)?;
    let namespaces = watch_namespaces(sources, positions, telemetry)?;
    let share = sources.prometheus.as_ref().map(|settings| watch_share(settings, telemetry));
    Ok(EdgeWatches { namespaces, share: share.transpose()?.flatten(), ..watches })
}

/// Starts the watch of pods, if log files or rules need it, and gives rules their table.
fn watch_pods(
    sources: &Receivers,
    rules: Option<&Arc<Rules>>,
    budget: &Budget,
    telemetry: &Telemetry,
) -> Result<EdgeWatches, RunError> {
    let containers = sources.containers.as_ref();
    let containers = containers.filter(|it| it.pod_metadata == PodMetadata::KubernetesApi);
    let rules = rules.filter(|_| sources.otlp.is_some());
    let identities = rules.and_then(|rules| rules.pod_metadata().cloned());
    if containers.is_none() && identities.is_none() {
        return Ok(EdgeWatches::default());
    }
    let mut watched = WatchedPods { node: String::new(), logs: None, identities };
    if containers.is_some() || !watched.is_cluster_wide() {
        watched.node = required_variable(NODE, RunError::Pods)?;
    }
    watched.logs = containers.map(|containers| log_metadata(containers, &watched.node));
    let endpoint = api_endpoint(RunError::Pods)?;
    let reserved_bytes = watched.identity_bytes(budget.limit_bytes());
    let (node, url) = (&watched.node, &endpoint.url);
    match watched.is_cluster_wide() {
        true => tracing::info!(url, "watching the pods of the cluster"),
        false => tracing::info!(node, url, "watching the pods of the node"),
    }
    let PodReaders { logs, identities } =
        millrace_pods::start_pods(endpoint, watched, budget, telemetry)?;
    if let (Some(rules), Some(identities)) = (rules, identities) {
        rules.set_pods(identities);
    }
    Ok(EdgeWatches { pods: logs, reserved_bytes, ..EdgeWatches::default() })
}

fn log_metadata(containers: &ContainersReceiver, node: &str) -> MetadataRules {
    MetadataRules {
        node: node.to_owned(),
        labels: containers.labels.clone(),
        annotations: containers.annotations.clone(),
        follow_annotations: containers.follow_annotations,
    }
}

/// The file, alongside positions, with the namespaces that were last selected.
const NAMESPACES_RECORD: &str = "namespaces.json";

/// Starts the watch of namespaces, if the settings select some by their labels.
fn watch_namespaces(
    sources: &Receivers,
    positions: &Positions,
    telemetry: &Telemetry,
) -> Result<Option<Arc<Namespaces>>, RunError> {
    let selector = sources.containers.as_ref().and_then(|it| it.namespace_selector.as_ref());
    let Some(selector) = selector else { return Ok(None) };
    let record = positions.directory.join(NAMESPACES_RECORD);
    let endpoint = api_endpoint(RunError::Pods)?;
    tracing::info!(%selector, "selecting namespaces by their labels");
    Ok(Some(millrace_pods::start_namespaces(endpoint, selector, record, telemetry)?))
}
