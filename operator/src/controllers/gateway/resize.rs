//! Resizes running pods in place to the decided memory and CPU: no restart, no rebalance.
//!
//! The StatefulSet's template is unchanged, so no pod is replaced: a new pod starts with the
//! template's values and is resized at the next check; a restarted container retains its pod's. The
//! collector follows its limits automatically. A refusal is logged, counted and reported in the
//! condition `PodsResized`; the pod is unchanged, and is retried after [`RETRY_SECONDS`] or a
//! different decision. Limits: [`RESIZES_MAX`] pods per check.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodCondition, ResourceRequirements};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use millrace_crds::v1alpha1::{GatewayPool, SizingStatus};
use serde_json::{Value, json};

use super::observed::Observed;
use crate::cache::sizing::{ResizeRefusal, Sizing};
use crate::cluster::is_paused;
use crate::context::Context;
use crate::ownership::compare::parse_quantity_millis;
use crate::pods::CONTAINER;
use crate::pool::template::collector_status;
use crate::telemetry::metrics::Counter;

/// The field manager of resizes.
const RESIZE_MANAGER: &str = "millrace-operator/resize";

/// The interval of retries: a refusal may end with an upgrade of the server or a larger quota.
const RETRY_SECONDS: i64 = 600;
/// The number of pods resized per check, in sequence: about 10 ms each, and the next check follows
/// in seconds.
const RESIZES_MAX: usize = 100;
/// Status codes of refusals that would repeat: the server lacks the subresource, this operator
/// lacks the right, a quota or LimitRange forbids the resize, or the pod or its node can't apply
/// it.
const REFUSALS: [u16; 5] = [400, 403, 404, 405, 422];

const RESIZES: Counter<1> =
    Counter::new("millrace_operator_pod_resizes_total", "Pods resized, by result.", ["result"]);

/// The progress of pods towards the decided resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResizeProgress {
    /// All running pods have them.
    Done,
    /// The named pod has yet to get them, and why.
    Pending(String),
    /// The API server, or a pod's node, refuses them, with this message.
    Refused(String),
}

/// Resizes pods to the decided resources; returns `None` if neither memory nor CPU may change.
pub(super) async fn resize_pods(
    context: &Context,
    pool: &GatewayPool,
    observed: &Observed,
    sizing: &SizingStatus,
    memory: &mut Sizing,
) -> Option<ResizeProgress> {
    let desired = desired_resources(sizing)?;
    let running: Vec<&Pod> = observed.watched.pods.iter().filter(|pod| is_running(pod)).collect();
    let lacking: Vec<&Pod> =
        running.iter().copied().filter(|it| !has_resources(it, &desired)).collect();
    let refusals = &mut memory.resizes_refused;
    refusals.retain(|name, it| {
        it.requested == desired && lacking.iter().any(|pod| pod.name_any() == *name)
    });
    let requests = match is_paused(pool) {
        true => Requests { resized: Vec::new(), stop: Some("the pool is paused".to_owned()) },
        false => patch(context, observed, &desired, &lacking, refusals).await,
    };
    let refused = refusals.iter().next().map(|(name, it)| refused(name, &it.cause));
    Some(refused.unwrap_or_else(|| progress(&running, &desired, &requests)))
}

/// The resizes of one check.
struct Requests {
    /// The pods whose new resources the API server accepted; their observations are older.
    resized: Vec<String>,
    /// Why the others were not requested; `None` if that is only a matter of time.
    stop: Option<String>,
}

/// Patches pods until one is refused; the next check continues with the others.
async fn patch(
    context: &Context,
    observed: &Observed,
    desired: &Value,
    lacking: &[&Pod],
    refusals: &mut BTreeMap<String, ResizeRefusal>,
) -> Requests {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &observed.draft.names.namespace);
    let patch = json!({"spec": {"containers": [{"name": CONTAINER, "resources": desired}]}});
    let params =
        PatchParams { field_manager: Some(RESIZE_MANAGER.into()), ..PatchParams::default() };
    let young = |it: &ResizeRefusal| observed.now.duration_since(it.at).as_secs() < RETRY_SECONDS;
    let names = lacking.iter().map(|pod| pod.name_any());
    let due: Vec<String> =
        names.filter(|name| !refusals.get(name).is_some_and(young)).take(RESIZES_MAX).collect();
    let mut requests = Requests { resized: Vec::new(), stop: None };
    for name in due {
        let answer =
            api.patch_subresource("resize", &name, &params, &Patch::Strategic(&patch)).await;
        if answer.as_ref().err().is_some_and(is_pod_missing) {
            continue;
        }
        let result = if answer.is_ok() { "ok" } else { "rejected" };
        context.metrics.count(&RESIZES, [result]);
        let Err(error) = answer else {
            refusals.remove(&name);
            tracing::info!(pod = name, resources = %desired, "pod resized in place");
            requests.resized.push(name);
            continue;
        };
        tracing::warn!(pod = name, resources = %desired, %error, "pod not resized");
        if let kube::Error::Api(status) = &error
            && REFUSALS.contains(&status.code)
        {
            let (at, desired, cause) = (observed.now, desired.clone(), status.message.clone());
            refusals.insert(name, ResizeRefusal { at, requested: desired, cause });
        } else {
            requests.stop = Some(format!("the API server did not resize pod {name}: {error}"));
        }
        return requests;
    }
    requests
}

/// Returns whether the pod itself no longer exists: an answer about the request names no pod.
fn is_pod_missing(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let names_it = status.details.as_ref().is_some_and(|it| !it.name.is_empty());
    status.code == 404 && names_it
}

/// Returns the progress of all pods: the first refusal, else the first pod that waits.
fn progress(running: &[&Pod], desired: &Value, requests: &Requests) -> ResizeProgress {
    let mut waits = None;
    for pod in running {
        let name = pod.name_any();
        let pending = resize_pending(pod);
        let cause = pending.and_then(|it| it.message.as_deref()).unwrap_or_default();
        let why = match pending.and_then(|it| it.reason.as_deref()) {
            Some("Infeasible") => return refused(&name, cause),
            Some(reason) => format!("{reason}: {cause}"),
            None if is_in_force(pod, desired) => continue,
            None if has_resources(pod, desired) || requests.resized.contains(&name) => {
                "its node has not reported the new resources yet".to_owned()
            }
            None => requests.stop.clone().unwrap_or_else(|| "the next check resizes it".to_owned()),
        };
        waits.get_or_insert_with(|| format!("pod {name}: {why}"));
    }
    waits.map_or(ResizeProgress::Done, ResizeProgress::Pending)
}

fn is_in_force(pod: &Pod, desired: &Value) -> bool {
    desired_amounts(desired).all(|it| in_force(pod, it.0, it.1) == Some(it.2))
}

fn refused(pod: &str, cause: &str) -> ResizeProgress {
    ResizeProgress::Refused(format!(
        "pod {pod} is unchanged: {cause}; raise resources in the spec to replace pods"
    ))
}

fn resize_pending(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|it| it.type_ == "PodResizePending" && it.status == "True")
}

/// Returns whether there are running pods, and each has at least the decided resources.
pub(super) fn all_have(pods: &[Pod], sizing: &SizingStatus) -> bool {
    let Some(desired) = desired_resources(sizing) else { return false };
    let mut running = pods.iter().filter(|pod| is_running(pod)).peekable();
    // A node that can't give a request reports that, and the pod's spec has it all the same.
    let has = |pod: &Pod| {
        resize_pending(pod).is_none()
            && desired_amounts(&desired)
                .all(|it| in_force(pod, it.0, it.1).is_some_and(|has| has >= it.2))
    };
    running.peek().is_some() && running.all(has)
}

/// Returns the desired container resources of each pod, as written into it; `None` if none change.
/// Omits resources that the operator doesn't manage.
fn desired_resources(sizing: &SizingStatus) -> Option<Value> {
    let mut desired = json!({});
    for (kind, resource, amount) in [
        ("limits", "memory", &sizing.memory_limit),
        ("requests", "memory", &sizing.memory_request),
        ("limits", "cpu", &sizing.cpu_limit),
        ("requests", "cpu", &sizing.cpu_request),
    ] {
        if let Some(amount) = amount {
            desired[kind][resource] = amount.as_str().into();
        }
    }
    desired.as_object().is_some_and(|it| !it.is_empty()).then_some(desired)
}

/// Returns whether a pod has a node and will stay there.
fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let waits = conditions.iter().any(|it| it.type_ == "PodScheduled" && it.status == "False");
    pod.metadata.deletion_timestamp.is_none() && !["Succeeded", "Failed"].contains(&phase) && !waits
}

/// Returns whether a pod's spec has all amounts, even if its node has not applied them.
fn has_resources(pod: &Pod, desired: &Value) -> bool {
    desired_amounts(desired).all(|(kind, resource, amount)| {
        amount_of(spec_resources(pod), kind, resource) == Some(amount)
    })
}

/// Returns each desired amount, in thousandths, by resource and kind.
fn desired_amounts(desired: &Value) -> impl Iterator<Item = (&str, &str, i128)> {
    let kinds = desired.as_object().into_iter().flatten();
    kinds.flat_map(|(kind, amounts)| {
        let amounts = amounts.as_object().into_iter().flatten();
        amounts.filter_map(|(resource, amount)| {
            Some((kind.as_str(), resource.as_str(), parse_quantity_millis(amount.as_str()?)?))
        })
    })
}

fn spec_resources(pod: &Pod) -> Option<&ResourceRequirements> {
    let containers = &pod.spec.as_ref()?.containers;
    containers.iter().find(|it| it.name == CONTAINER)?.resources.as_ref()
}

/// Returns the amount that the node reports of a pod's container, in thousandths. If it reports
/// none, the node can't resize and the container has the spec's. That also applies to requests,
/// which nothing enforces exactly: a node that can't give one reports that ([`resize_pending`]).
fn in_force(pod: &Pod, kind: &str, resource: &str) -> Option<i128> {
    let status = pod.status.as_ref().and_then(collector_status).filter(|_| kind == "limits");
    let reported = status.and_then(|status| status.resources.as_ref());
    amount_of(reported, kind, resource).or_else(|| amount_of(spec_resources(pod), kind, resource))
}

fn amount_of(of: Option<&ResourceRequirements>, kind: &str, resource: &str) -> Option<i128> {
    let amounts = if kind == "limits" { &of?.limits } else { &of?.requests };
    parse_quantity_millis(&amounts.as_ref()?.get(resource)?.0)
}
