//! The number in a pool's `spec.replicas`, which the `/scale` subresource shows and autoscalers
//! write.
//!
//! The API server answers `/scale` only if the field exists, so an autoscaler can't start on a pool
//! that leaves it out. The operator then writes it under a field manager of its own: a number that
//! only we own asks for nothing, and follows what is decided. Whoever changes or applies it becomes
//! its owner.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use millrace_crds::v1alpha1::{EdgePool, GatewayPool};
use serde_json::json;

use crate::cache::sizing::{SCALER_FRESH, Sizing};
use crate::cluster::{Applicable, Children, Looked, is_paused};
use crate::context::Context;
use crate::error::{Step, StepError};
use crate::ownership::CHILDREN_MANAGER;
use crate::pods::pages;

/// Owns the number while nobody else does.
pub const SCALE_MANAGER: &str = "millrace-operator/scale";

/// A pool with a number of pods.
pub trait Scaled: Applicable {
    /// The number in its spec.
    fn replicas(&mut self) -> &mut Option<u32>;
}

impl Scaled for EdgePool {
    fn replicas(&mut self) -> &mut Option<u32> {
        &mut self.spec.settings.replicas
    }
}

impl Scaled for GatewayPool {
    fn replicas(&mut self) -> &mut Option<u32> {
        &mut self.spec.settings.replicas
    }
}

/// The pool as the user declared it: without the number, if only we own that.
pub fn asked<K: Scaled>(pool: &K) -> Cow<'_, K> {
    if !is_ours(pool.meta()) {
        return Cow::Borrowed(pool);
    }
    let mut asked = pool.clone();
    *asked.replicas() = None;
    Cow::Owned(asked)
}

/// Sets the number to `size` where nobody else owns it; `None` removes it. `asked` is `pool` as the
/// user declared it; it is returned with its new generation and version. A failure is logged: the
/// next reconcile retries.
pub async fn keep<'a, K: Scaled>(
    context: &Context,
    pool: &K,
    asked: &'a K,
    size: Option<u32>,
) -> Cow<'a, K> {
    let written = pool.clone().replicas().take();
    let is_theirs = written.is_some() && !is_ours(pool.meta());
    if is_theirs || written == size || is_paused(pool) {
        return Cow::Borrowed(asked);
    }
    let (kind, name) = (K::kind(&()), pool.name_any());
    let namespace = pool.namespace().unwrap_or_default();
    let mut body = json!({"apiVersion": K::api_version(&()), "kind": kind,
        "metadata": {"name": name, "uid": pool.uid(), "resourceVersion": pool.resource_version()}});
    if let Some(size) = size {
        body["spec"] = json!({"replicas": size});
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    // Not forced, and only onto the version that was read: a change of either in between is a
    // conflict.
    let applied = api.patch(&name, &PatchParams::apply(SCALE_MANAGER), &Patch::Apply(&body)).await;
    match applied {
        // Nobody else changed the pool in between, so the observations still hold.
        Ok(now) => {
            context.metrics.wrote(&kind, "scale");
            let mut told = asked.clone();
            told.meta_mut().generation = now.meta().generation;
            told.meta_mut().resource_version = now.resource_version();
            Cow::Owned(told)
        }
        Err(error) => {
            let is_taken = matches!(&error, kube::Error::Api(status) if status.code == 409);
            if !is_taken {
                tracing::warn!(%kind, namespace, name, %error, "cannot write spec.replicas");
            }
            Cow::Borrowed(asked)
        }
    }
}

/// Whether a pool's number is the operator's alone.
fn is_ours(metadata: &ObjectMeta) -> bool {
    let managers: Vec<_> = owners(metadata).collect();
    !managers.is_empty() && managers.iter().all(|manager| *manager == Some(SCALE_MANAGER))
}

/// Whether somebody other than `ours` owns the number in a workload's spec.
pub fn is_others(metadata: &ObjectMeta) -> bool {
    owners(metadata).any(|manager| manager != Some(CHILDREN_MANAGER))
}

fn owners(metadata: &ObjectMeta) -> impl Iterator<Item = Option<&str>> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let owns = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:spec"]["f:replicas"].is_null())
    };
    entries.iter().filter(owns).map(|entry| entry.manager.as_deref())
}

/// The HorizontalPodAutoscaler of one of these targets (kind, name), if there is one. KEDA acts
/// through one too: each ScaledObject makes its own.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn scaler(
    context: &Context,
    namespace: &str,
    targets: &[(&str, &str)],
) -> Result<Option<String>, StepError> {
    let api: Api<HorizontalPodAutoscaler> = Api::namespaced(context.client.clone(), namespace);
    let scalers = pages::all(&api, ListParams::default(), |it| it).await.map_err(|error| {
        let what = format!("list HorizontalPodAutoscalers in {namespace}");
        StepError::api(Step::Observe, what, error)
    })?;
    let is_one = |scaler: &&HorizontalPodAutoscaler| {
        let target = scaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
        target.is_some_and(|it| targets.contains(&(it.kind.as_str(), it.name.as_str())))
    };
    let mut found = scalers.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    Ok(found.find(is_one).map(|it| format!("HorizontalPodAutoscaler {}", it.name_any())))
}

/// Removes the number from a Deployment that an autoscaler targets directly: only once somebody
/// else owns it, since a field without an owner falls back to 1. Autoscalers are searched for only
/// then, so that a pool without one costs nothing.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn leave(
    context: &Context,
    pool: &EdgePool,
    children: &Children<'_>,
    wanted: &mut Deployment,
) -> Result<(), StepError> {
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let (namespace, name) = (pool.namespace().unwrap_or_default(), wanted.name_any());
    let now = context.clock.now();
    let mut kept: Sizing = context.sizings.get(uid);
    if kept.sized_by().is_none() {
        if let Looked::AsWanted(_) = children.look_at_workload(wanted.clone()).await? {
            return Ok(());
        }
        let live = children.live::<Deployment>(&name).await?;
        if !live.is_some_and(|live| is_others(&live.metadata)) {
            return Ok(());
        }
    }
    let is_fresh = |(at, _): &(_, _)| now.duration_since(*at) < SCALER_FRESH;
    if !kept.scaler.as_ref().is_some_and(is_fresh) {
        let found = scaler(context, &namespace, &[("Deployment", &name)]).await?;
        if found.as_deref() != kept.sized_by() {
            tracing::info!(namespace, name, sized_by = found, "who sizes this edge pool changed");
        }
        kept.scaler = Some((now, found));
    }
    if let (Some(_), Some(spec)) = (kept.sized_by(), &mut wanted.spec) {
        spec.replicas = None;
    }
    context.sizings.put(uid, kept, now);
    Ok(())
}
