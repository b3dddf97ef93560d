//! Starts the watches of pods, of namespaces and of a share where settings request them, from what
//! Kubernetes gives each pod. It connects both sides, so that sources and rules know no Kubernetes.

use std::sync::Arc;

use millrace_config::{ContainersReceiver, LabelSelector, PodMetadata, Positions, Receivers};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::pods::{Namespaces, PodLookup};
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{MetadataRules, NamespaceWatchMetrics, PodReaders, WatchedPods};
use millrace_rules::Rules;

use crate::common::RunError;
use crate::edge::api_server::{api_endpoint, required_variable};
use crate::edge::share::watch_share;

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
    let labels = rules.and_then(|rules| rules.pod_metadata());
    let adds_labels = labels.is_some_and(|config| !config.namespace_labels.is_empty());
    let selector = sources.containers.as_ref().and_then(|it| it.namespace_selector.as_ref());
    let metrics = (adds_labels || selector.is_some())
        .then(|| NamespaceWatchMetrics::register(telemetry))
        .transpose()?;
    let watches = watch_pods(sources, rules, budget, (telemetry, metrics.as_ref()))?;
    let namespaces = match (selector, metrics) {
        (Some(selector), Some(metrics)) => {
            Some(watch_namespaces(selector, positions, telemetry, metrics)?)
        }
        _ => None,
    };
    let share = sources.prometheus.as_ref().map(|settings| watch_share(settings, telemetry));
    Ok(EdgeWatches { namespaces, share: share.transpose()?.flatten(), ..watches })
}

/// Starts the watch of pods, if log files or rules need it, and gives rules their table.
fn watch_pods(
    sources: &Receivers,
    rules: Option<&Arc<Rules>>,
    budget: &Budget,
    (telemetry, namespaces): (&Telemetry, Option<&NamespaceWatchMetrics>),
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
    let namespace_labels = watched.identities.as_ref().map(|it| it.namespace_labels.clone());
    let reserved_bytes = watched.identity_bytes(budget.limit_bytes());
    let (node, url) = (&watched.node, &endpoint.url);
    match watched.is_cluster_wide() {
        true => tracing::info!(url, "watching the pods of the cluster"),
        false => tracing::info!(node, url, "watching the pods of the node"),
    }
    let PodReaders { logs, identities } =
        millrace_pods::start_pods(endpoint.clone(), watched, budget, telemetry)?;
    if let (Some(rules), Some(identities)) = (rules, identities) {
        if let (Some(labels), Some(metrics)) =
            (namespace_labels.filter(|labels| !labels.is_empty()), namespaces)
        {
            let table = Arc::clone(&identities);
            millrace_pods::start_namespace_labels(endpoint, labels, table, metrics.clone());
        }
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

/// Starts the watch of the namespaces that are selected by their labels.
fn watch_namespaces(
    selector: &LabelSelector,
    positions: &Positions,
    telemetry: &Telemetry,
    metrics: NamespaceWatchMetrics,
) -> Result<Arc<Namespaces>, RunError> {
    let record = positions.directory.join(NAMESPACES_RECORD);
    let endpoint = api_endpoint(RunError::Pods)?;
    tracing::info!(%selector, "selecting namespaces by their labels");
    Ok(millrace_pods::start_namespaces(endpoint, selector, record, telemetry, metrics)?)
}
