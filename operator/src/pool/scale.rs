//! Writes the number in a pool's `spec.replicas`, which the `/scale` subresource shows and
//! autoscalers write.
//!
//! The API server answers `/scale` only if the field exists, so an autoscaler can't start on a pool
//! that omits it. The operator then writes the field under a separate field manager. A number that
//! only the operator owns requests nothing and follows the operator's decision. Whoever changes or
//! applies it becomes its owner.

use std::borrow::Cow;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::core::ObjectMeta;
use millrace_crds::MillraceKind;
use millrace_crds::v1alpha1::{EdgePool, GatewayPool};
use serde_json::json;

use crate::cache::sizing::{SCALER_FRESH, Sizing};
use crate::cluster::{Applicable, Children, WRITES, WorkloadComparison, is_paused, list_objects};
use crate::context::Context;
use crate::error::StepError;
use crate::ownership::CHILDREN_MANAGER;

/// The field manager of a number without another owner.
pub const SCALE_MANAGER: &str = "millrace-operator/scale";

/// A pool with a replica count.
pub trait Scaled: Applicable + MillraceKind {
    /// Returns the number in the pool's spec.
    fn replicas_mut(&mut self) -> &mut Option<u32>;
}

impl Scaled for EdgePool {
    fn replicas_mut(&mut self) -> &mut Option<u32> {
        &mut self.spec.settings.replicas
    }
}

impl Scaled for GatewayPool {
    fn replicas_mut(&mut self) -> &mut Option<u32> {
        &mut self.spec.settings.replicas
    }
}

/// Returns the pool as the user declared it: without the number, if only the operator owns that.
pub fn declared_pool<K: Scaled>(pool: &K) -> Cow<'_, K> {
    if !is_ours(pool.meta()) {
        return Cow::Borrowed(pool);
    }
    let mut declared = pool.clone();
    *declared.replicas_mut() = None;
    Cow::Owned(declared)
}

/// Sets the number to `size` if no one else owns it; `None` removes it. `declared` is `pool` as the
/// user declared it; it is returned with its new generation and version. A failure is logged: the
/// next reconcile retries.
pub async fn apply_replicas<'a, K: Scaled>(
    context: &Context,
    pool: &K,
    declared: &'a K,
    size: Option<u32>,
) -> Cow<'a, K> {
    let written = pool.clone().replicas_mut().take();
    let is_theirs = written.is_some() && !is_ours(pool.meta());
    if is_theirs || written == size || is_paused(pool) {
        return Cow::Borrowed(declared);
    }
    let (kind, name) = (K::kind(&()), pool.name_any());
    let namespace = pool.namespace().unwrap_or_default();
    let mut body = json!({"apiVersion": K::api_version(&()), "kind": kind,
        "metadata": {"name": name, "uid": pool.uid(), "resourceVersion": pool.resource_version()}});
    if let Some(size) = size {
        body["spec"] = json!({"replicas": size});
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    // The patch is not forced and tests the version: a change in between is a conflict.
    let applied = api.patch(&name, &PatchParams::apply(SCALE_MANAGER), &Patch::Apply(&body)).await;
    match applied {
        // No one else changed the pool in between, so the observations still apply.
        Ok(now) => {
            context.metrics.count(&WRITES, [&kind, "scale"]);
            let mut updated = declared.clone();
            updated.meta_mut().generation = now.meta().generation;
            updated.meta_mut().resource_version = now.resource_version();
            Cow::Owned(updated)
        }
        Err(error) => {
            let is_conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
            if !is_conflict {
                tracing::warn!(%kind, namespace, name, %error, "cannot write spec.replicas");
            }
            Cow::Borrowed(declared)
        }
    }
}

/// Returns whether only the operator owns a pool's number.
fn is_ours(metadata: &ObjectMeta) -> bool {
    let managers: Vec<_> = replica_owners(metadata).collect();
    !managers.is_empty() && managers.iter().all(|manager| *manager == Some(SCALE_MANAGER))
}

/// Returns whether anyone except the operator owns the number in a workload's spec.
pub fn is_others(metadata: &ObjectMeta) -> bool {
    replica_owners(metadata).any(|manager| manager != Some(CHILDREN_MANAGER))
}

fn replica_owners(metadata: &ObjectMeta) -> impl Iterator<Item = Option<&str>> {
    let entries = metadata.managed_fields.as_deref().unwrap_or_default();
    let owns = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| !fields.0["f:spec"]["f:replicas"].is_null())
    };
    entries.iter().filter(owns).map(|entry| entry.manager.as_deref())
}

/// Returns the HorizontalPodAutoscaler of one of these targets (kind, name), if one exists. KEDA
/// also acts through one: each ScaledObject creates its own.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn find_autoscaler(
    context: &Context,
    namespace: &str,
    targets: &[(&str, &str)],
) -> Result<Option<String>, StepError> {
    let scalers: Vec<HorizontalPodAutoscaler> =
        list_objects(context, namespace, ListParams::default(), |it| it).await?;
    let is_one = |scaler: &&HorizontalPodAutoscaler| {
        let target = scaler.spec.as_ref().map(|spec| &spec.scale_target_ref);
        target.is_some_and(|it| targets.contains(&(it.kind.as_str(), it.name.as_str())))
    };
    let mut found = scalers.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
    Ok(found.find(is_one).map(|it| format!("HorizontalPodAutoscaler {}", it.name_any())))
}

/// Removes the number from a Deployment that an autoscaler targets directly, but only once someone
/// else owns it: a field without an owner falls back to 1. Autoscalers are listed only then, so a
/// pool without one costs nothing.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn release_replicas(
    context: &Context,
    pool: &EdgePool,
    children: &Children<'_>,
    desired: &mut Deployment,
) -> Result<(), StepError> {
    let uid = pool.metadata.uid.as_deref().unwrap_or_default();
    let (namespace, name) = (pool.namespace().unwrap_or_default(), desired.name_any());
    let now = context.clock.now();
    let mut sizing: Sizing = context.sizings.get(uid);
    if sizing.sized_by().is_none() {
        if let WorkloadComparison::AsDesired(_) = children.compare_workload(desired.clone()).await?
        {
            return Ok(());
        }
        let live = children.read_live(desired).await?;
        if !live.is_some_and(|live| is_others(&live.metadata)) {
            return Ok(());
        }
    }
    let is_fresh = |(at, _): &(_, _)| now.duration_since(*at) < SCALER_FRESH;
    if !sizing.scaler.as_ref().is_some_and(is_fresh) {
        let found = find_autoscaler(context, &namespace, &[("Deployment", &name)]).await?;
        if found.as_deref() != sizing.sized_by() {
            tracing::info!(namespace, name, sized_by = found, "who sizes this edge pool changed");
        }
        sizing.scaler = Some((now, found));
    }
    if let (Some(_), Some(spec)) = (sizing.sized_by(), &mut desired.spec) {
        spec.replicas = None;
    }
    context.sizings.insert(uid, sizing, now);
    Ok(())
}
