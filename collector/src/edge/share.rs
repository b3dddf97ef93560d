//! Starts the watch of this pod's share of scrape targets where settings request it, from what
//! Kubernetes gives each pod. It connects both sides, so that the scraper knows no Kubernetes.

use millrace_config::PrometheusReceiver;
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::ShareOwner;

use crate::common::RunError;
use crate::edge::api_server::{api_endpoint, required_variable};

/// The variable with the pod's namespace, from the downward API.
const NAMESPACE: &str = "POD_NAMESPACE";
const UID: &str = "POD_UID";

/// Starts the watch, if targets come from a share.
pub(crate) fn watch_share(
    settings: &PrometheusReceiver,
    telemetry: &Telemetry,
) -> Result<Option<Shares>, RunError> {
    if settings.share.is_none() {
        return Ok(None);
    }
    let missing = RunError::Share;
    let whose = ShareOwner {
        namespace: required_variable(NAMESPACE, missing)?,
        uid: required_variable(UID, missing)?,
    };
    let endpoint = api_endpoint(missing)?;
    tracing::info!(
        namespace = whose.namespace,
        uid = whose.uid,
        url = endpoint.url,
        "watching this pod's share of scrape targets"
    );
    Ok(Some(millrace_pods::start_share(endpoint, &whose, telemetry)?))
}
