//! The watch of this pod's share of scrape targets: started where settings ask for it, by what
//! Kubernetes gives each pod. It knows what both sides need, so that the scraper knows no
//! Kubernetes.

use millrace_config::PrometheusReceiver;
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::Telemetry;
use millrace_pods::Whose;

use crate::common::RunError;
use crate::pods::{endpoint, variable};

/// The pod's namespace and uid, by the downward API.
const NAMESPACE: &str = "POD_NAMESPACE";
const UID: &str = "POD_UID";

/// Starts the watch, if targets come from a share.
pub(crate) fn watch(
    settings: &PrometheusReceiver,
    telemetry: &Telemetry,
) -> Result<Option<Shares>, RunError> {
    if settings.share.is_none() {
        return Ok(None);
    }
    let missing = RunError::Share;
    let whose = Whose { namespace: variable(NAMESPACE, missing)?, uid: variable(UID, missing)? };
    let endpoint = endpoint(missing)?;
    tracing::info!(
        namespace = whose.namespace,
        uid = whose.uid,
        url = endpoint.url,
        "this pod's share of scrape targets is watched"
    );
    Ok(Some(millrace_pods::start_share(endpoint, &whose, telemetry)?))
}
