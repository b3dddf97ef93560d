//! The watches of this node's pods and of namespaces: started where settings ask for them, by what
//! Kubernetes gives each pod. It knows what both sides need, so that the reader of files knows no
//! Kubernetes.

use std::env;
use std::sync::Arc;

use millrace_config::{ContainersReceiver, LogSources};
use millrace_pipeline::pods::{Namespaces, Pods};
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::{Endpoint, Rules};

use crate::common::RunError;

/// The pod's account, as the kubelet mounts it.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The name of the pod's node.
pub(crate) const NODE: &str = "NODE_NAME";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// Starts the watch, if pods are to be watched.
pub(crate) fn watch(
    logs: &LogSources,
    telemetry: &Telemetry,
) -> Result<Option<Arc<dyn Pods>>, RunError> {
    let Some(containers @ ContainersReceiver { watch_pods: true, .. }) = &logs.containers else {
        return Ok(None);
    };
    let rules = Rules {
        node: variable(NODE, RunError::Pods)?,
        labels: containers.labels.clone(),
        annotations: containers.annotations.clone(),
        follow_annotations: containers.follow_annotations,
    };
    let endpoint = endpoint(RunError::Pods)?;
    tracing::info!(node = rules.node, url = endpoint.url, "pods of the node are watched");
    Ok(Some(millrace_pods::start(endpoint, rules, telemetry)?))
}

/// The file, beside positions, with the namespaces that were chosen last.
const NAMESPACES_RECORD: &str = "namespaces.json";

/// Starts the watch of namespaces, if some are to be chosen by their labels.
pub(crate) fn watch_namespaces(
    logs: &LogSources,
    telemetry: &Telemetry,
) -> Result<Option<Arc<Namespaces>>, RunError> {
    let selector = logs.containers.as_ref().and_then(|it| it.namespace_selector.as_ref());
    let Some(selector) = selector else { return Ok(None) };
    let record = logs.positions.directory.join(NAMESPACES_RECORD);
    let endpoint = endpoint(RunError::Pods)?;
    tracing::info!(%selector, "namespaces are chosen by their labels");
    Ok(Some(millrace_pods::start_namespaces(endpoint, selector, record, telemetry)?))
}

/// The API server as a pod reaches it. `missing` names a variable that isn't there.
pub(crate) fn endpoint(missing: fn(&'static str) -> RunError) -> Result<Endpoint, RunError> {
    Ok(Endpoint {
        url: url(&variable(HOST, missing)?, &variable(PORT, missing)?),
        token_file: format!("{ACCOUNT}/token").into(),
        ca_file: Some(format!("{ACCOUNT}/ca.crt").into()),
    })
}

/// A variable that Kubernetes gives a pod.
pub(crate) fn variable(
    name: &'static str,
    missing: fn(&'static str) -> RunError,
) -> Result<String, RunError> {
    env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| missing(name))
}

/// The address of the API server; one of IPv6 is in brackets in a URL.
fn url(host: &str, port: &str) -> String {
    if host.contains(':') {
        format!("https://[{host}]:{port}")
    } else {
        format!("https://{host}:{port}")
    }
}
