//! The API server, as Kubernetes gives its address and log-in to each pod.

use std::env;

use millrace_pods::ApiEndpoint;

use crate::common::RunError;

/// The pod's service account, as the kubelet mounts it.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const HOST: &str = "KUBERNETES_SERVICE_HOST";
const PORT: &str = "KUBERNETES_SERVICE_PORT";

/// Returns the API server's address for a pod. `missing` names a variable that isn't set.
pub(crate) fn api_endpoint(missing: fn(&'static str) -> RunError) -> Result<ApiEndpoint, RunError> {
    Ok(ApiEndpoint {
        url: api_url(&required_variable(HOST, missing)?, &required_variable(PORT, missing)?),
        token_file: format!("{ACCOUNT}/token").into(),
        ca_file: Some(format!("{ACCOUNT}/ca.crt").into()),
    })
}

/// Returns a variable that Kubernetes gives a pod.
pub(crate) fn required_variable(
    name: &'static str,
    missing: fn(&'static str) -> RunError,
) -> Result<String, RunError> {
    env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| missing(name))
}

/// Returns the URL of the API server, with brackets around IPv6.
fn api_url(host: &str, port: &str) -> String {
    if host.contains(':') {
        format!("https://[{host}]:{port}")
    } else {
        format!("https://{host}:{port}")
    }
}
