//! Gives running pods the memory limit decided on, in place: no restart, no rebalance.
//!
//! The StatefulSet's template stays as the spec writes it, so that nothing rolls for it: a pod made
//! anew starts there and is raised at the first look after. The collector follows its limit by
//! itself. A refusal (no room on the node, a server before 1.33) is logged and counted, fails
//! nothing, and is tried again at the next look. Limits: the pods listed at one look.

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use serde_json::json;

use super::validate::Observed;
use crate::apply::compare::quantity;
use crate::apply::is_paused;
use crate::context::Context;
use crate::pool::template::{CONTAINER, memory_text};

/// Who resizes pods, for the API server.
const RESIZE_MANAGER: &str = "millrace-operator/resize";

/// Brings the limits of the pods that told of themselves to the one decided on.
pub(super) async fn resize(
    context: &Context,
    pool: &GatewayPool,
    observed: &Observed,
    sizing: &SizingStatus,
) {
    let limit = sizing.memory_limit.as_deref().and_then(quantity);
    let limit = limit.and_then(|millis| u64::try_from(millis / 1_000).ok());
    let Some(limit) = limit.filter(|_| !is_paused(pool)) else { return };
    let names = &observed.draft.names;
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &names.namespace);
    let request = memory_text(request(pool, limit));
    let resources =
        json!({"requests": {"memory": request}, "limits": {"memory": memory_text(limit)}});
    let patch = json!({"spec": {"containers": [{"name": CONTAINER, "resources": resources}]}});
    let params =
        PatchParams { field_manager: Some(RESIZE_MANAGER.into()), ..PatchParams::default() };
    for pod in &observed.kept.pods.pods {
        if pod.value.memory_limit_bytes == Some(limit) {
            continue;
        }
        let name = format!("{}-{}", names.base, pod.value.ordinal);
        let answer =
            api.patch_subresource("resize", &name, &params, &Patch::Strategic(&patch)).await;
        context.metrics.resized(answer.is_ok());
        match answer {
            Ok(_) => tracing::info!(pod = name, limit, "memory limit changed in place"),
            Err(error) => {
                // The others would hear the same.
                tracing::warn!(pod = name, limit, %error, "memory limit not changed");
                return;
            }
        }
    }
}

/// What is requested moves with the limit: the share stays as written, and with it the pod's class
/// of service, which can't be changed in place.
fn request(pool: &GatewayPool, limit: u64) -> u64 {
    let (request, start) = pool.spec.settings.resources.memory.bytes();
    let share = u128::from(limit) * u128::from(request) / u128::from(start.max(1));
    // Whole mebibytes, as people write them; the limit's own where the two are the same.
    let bytes = u64::try_from(share).unwrap_or(limit).min(limit);
    if request == start { limit } else { (bytes >> 20).max(1) << 20 }
}
