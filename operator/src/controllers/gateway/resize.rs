//! Resizes running pods in place to the memory and CPU decided on: no restart, no rebalance.
//!
//! The StatefulSet's template stays unchanged, so nothing rolls: a new pod starts with the
//! template's values and is resized at the next check; a restarted container keeps its pod's. The
//! collector follows its limits by itself. A refusal is logged and counted, and fails nothing. A
//! refusal that would repeat is remembered for `template_resources` and not retried before
//! [`RETRY_SECONDS`]. Limits: [`RESIZES_MAX`] pods per check.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use serde_json::{Value, json};

use super::validate::Observed;
use crate::cache::sizing::Sizing;
use crate::cluster::is_paused;
use crate::context::Context;
use crate::ownership::compare::quantity;
use crate::pods::CONTAINER;

/// Who resizes pods, for the API server.
const RESIZE_MANAGER: &str = "millrace-operator/resize";

/// A permanent refusal may end with an upgrade of the server: retry this often.
const RETRY_SECONDS: i64 = 600;
/// Pods resized per check, in sequence: about 10 ms each, and the next check follows in seconds.
const RESIZES_MAX: usize = 100;
/// Status codes that would repeat: the server lacks the subresource, this operator lacks the right,
/// or the pod or its node can't take it.
const REFUSALS: [u16; 5] = [400, 403, 404, 405, 422];

/// Resizes pods to what was decided.
pub(super) async fn resize(
    context: &Context,
    pool: &GatewayPool,
    observed: &Observed,
    sizing: &SizingStatus,
    kept: &mut Sizing,
) {
    let Some(wanted) = wanted(sizing).filter(|_| !is_paused(pool)) else { return };
    let young = |at: Timestamp| observed.now.duration_since(at).as_secs() < RETRY_SECONDS;
    let names = &observed.draft.names;
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &names.namespace);
    let patch = json!({"spec": {"containers": [{"name": CONTAINER, "resources": wanted}]}});
    let params =
        PatchParams { field_manager: Some(RESIZE_MANAGER.into()), ..PatchParams::default() };
    let pods = observed.watched.pods.iter().filter(|pod| runs(pod));
    for pod in pods.filter(|pod| !holds(pod, &wanted)).take(RESIZES_MAX) {
        let name = pod.name_any();
        let grows = grows(pod, &wanted);
        let refused_at = match grows {
            true => kept.resize_refused.as_ref().map(|(at, _)| *at),
            false => kept.shrink_refused_at,
        };
        if refused_at.is_some_and(young) {
            continue;
        }
        let answer =
            api.patch_subresource("resize", &name, &params, &Patch::Strategic(&patch)).await;
        if answer.as_ref().err().is_some_and(is_gone) {
            continue;
        }
        context.metrics.resized(answer.is_ok());
        match answer {
            Ok(_) => {
                kept.resize_refused = kept.resize_refused.take().filter(|_| !grows);
                tracing::info!(pod = name, resources = %wanted, "pod resized in place");
            }
            Err(error) => {
                // The others would hear the same.
                tracing::warn!(pod = name, resources = %wanted, %error, "pod not resized");
                match refusal(&error) {
                    Some(cause) if grows => kept.resize_refused = Some((observed.now, cause)),
                    Some(_) => kept.shrink_refused_at = Some(observed.now),
                    None => {}
                }
                return;
            }
        }
    }
}

/// The server's message, if it refuses permanently.
fn refusal(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    REFUSALS.contains(&status.code).then(|| status.message.clone())
}

/// Whether the pod itself is gone: an answer about the request names no pod.
fn is_gone(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_it = status.details.as_ref().is_some_and(|it| !it.name.is_empty());
    status.code == 404 && names_it
}

/// Whether every running pod has the decided resources.
pub(super) fn all_hold(pods: &[Pod], sizing: &SizingStatus) -> bool {
    let wanted = wanted(sizing);
    let running = pods.iter().filter(|pod| runs(pod));
    wanted.is_some_and(|wanted| {
        running.clone().count() > 0 && running.clone().all(|pod| holds(pod, &wanted))
    })
}

/// The desired container resources of each pod, as written into it; `None` where nothing moves.
/// Leaves out what the operator doesn't manage.
fn wanted(sizing: &SizingStatus) -> Option<Value> {
    let mut wanted = json!({});
    for (kind, resource, amount) in [
        ("limits", "memory", &sizing.memory_limit),
        ("requests", "memory", &sizing.memory_request),
        ("limits", "cpu", &sizing.cpu_limit),
        ("requests", "cpu", &sizing.cpu_request),
    ] {
        if let Some(amount) = amount {
            wanted[kind][resource] = amount.as_str().into();
        }
    }
    wanted.as_object().is_some_and(|it| !it.is_empty()).then_some(wanted)
}

/// Whether a pod has a node and will stay there.
fn runs(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let waits = conditions.iter().any(|it| it.type_ == "PodScheduled" && it.status == "False");
    pod.metadata.deletion_timestamp.is_none() && !["Succeeded", "Failed"].contains(&phase) && !waits
}

/// Whether a pod's spec has all of it. Whether its node has is another question.
fn holds(pod: &Pod, wanted: &Value) -> bool {
    amounts(wanted).all(|(kind, resource, amount)| given(pod, kind, resource) == Some(amount))
}

/// Whether a limit is to rise above the pod's. Kubernetes 1.33 refuses to lower one, which says
/// nothing about raising it.
fn grows(pod: &Pod, wanted: &Value) -> bool {
    let mut limits = amounts(wanted).filter(|(kind, ..)| *kind == "limits");
    limits.any(|(kind, resource, amount)| given(pod, kind, resource).is_none_or(|it| it < amount))
}

/// Each desired amount, in thousandths, by resource and kind.
fn amounts(wanted: &Value) -> impl Iterator<Item = (&str, &str, i128)> {
    let kinds = wanted.as_object().into_iter().flatten();
    kinds.flat_map(|(kind, amounts)| {
        let amounts = amounts.as_object().into_iter().flatten();
        amounts.filter_map(|(resource, amount)| {
            Some((kind.as_str(), resource.as_str(), quantity(amount.as_str()?)?))
        })
    })
}

/// What a pod's container was given, in thousandths.
fn given(pod: &Pod, kind: &str, resource: &str) -> Option<i128> {
    let containers = &pod.spec.as_ref()?.containers;
    let given = containers.iter().find(|it| it.name == CONTAINER)?.resources.as_ref()?;
    let amounts = if kind == "limits" { &given.limits } else { &given.requests };
    quantity(&amounts.as_ref()?.get(resource)?.0)
}
