//! Sets and removes finalizers of kinds that own something outside Kubernetes.
//!
//! An object has one only while its deletion policy is `Delete`. An object that can't clean up, or
//! that this release can't read, is released after a bounded time, with an event: it blocks no
//! namespace for ever.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams};
use millrace_crds::v1alpha1::DeletionPolicy;
use millrace_crds::{FINALIZER, Reason};
use serde_json::json;

use crate::cluster::{Applicable, WRITES, namespaced_api};
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};
use crate::reconcile::next::Next;
use crate::report::events::Notice;

/// The field manager of the finalizer.
const FINALIZER_MANAGER: &str = "millrace-operator/finalizer";

/// The time for which the cleanup of one thing is retried: several back-offs of 30 s and a short
/// outage, but less than the patience of someone who deletes a namespace.
pub const CLEANING_MAX: Duration = Duration::from_secs(300);

/// The time limit of one attempt: half of a reconcile's, so that a hanging attempt fails before the
/// reconcile is aborted, and the object is released in the end.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);

/// Adds or removes the finalizer according to the deletion policy, if needed. Returns the resulting
/// object.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn ensure_finalizer<'a, K: Applicable>(
    context: &Context,
    object: &'a K,
    policy: DeletionPolicy,
) -> Result<Cow<'a, K>, StepError> {
    let needs_finalizer = policy == DeletionPolicy::Delete;
    if needs_finalizer == has_finalizer(object.meta()) {
        return Ok(Cow::Borrowed(object));
    }
    let Some(written) = write_finalizer::<K>(context, object.meta(), needs_finalizer).await? else {
        return Ok(Cow::Borrowed(object));
    };
    let mut object = object.clone();
    *object.meta_mut() = written;
    Ok(Cow::Owned(object))
}

/// Deletes an object: retries `clean`, if given, for as long as `patience`, then removes the
/// finalizer, whatever the result. `remains` names what remains if the cleanup failed, or if
/// another object represents the same thing.
///
/// # Errors
/// When the cleanup failed and is retried, or the API server refuses or can't be reached.
pub async fn clean_up<K: Applicable>(
    context: &Context,
    object: &K,
    clean: Option<impl Future<Output = Result<(), StepError>>>,
    remains: &str,
    patience: Duration,
) -> Result<Next, StepError> {
    if !has_finalizer(object.meta()) {
        return Ok(Next::OnChange);
    }
    let clean = match (clean, context.claims.other_claimant(object)) {
        (Some(_), Some(another)) => {
            let notice = Notice::deletion_skipped(remains, &another);
            context.events.publish(&object.object_ref(&()), notice).await;
            None
        }
        (clean, _) => clean,
    };
    let cleaned = match clean {
        None => Ok(()),
        Some(clean) => tokio::time::timeout(ATTEMPT_MAX, clean).await.unwrap_or_else(|_elapsed| {
            let cause = format!("cleaning up took longer than {} s", ATTEMPT_MAX.as_secs());
            Err(StepError::new(ReconcileStep::Apply, Category::External, Reason::Waiting, cause))
        }),
    };
    if let Err(error) = cleaned {
        if !remaining_time(object.meta(), context.clock.now(), patience).is_zero() {
            return Err(error);
        }
        let notice = Notice::deletion_abandoned(remains, &error);
        context.events.publish(&object.object_ref(&()), notice).await;
    }
    remove_finalizer::<K>(context, object.meta()).await?;
    Ok(Next::OnChange)
}

/// Removes the finalizer, so that the object can be deleted. It needs only the metadata: this
/// release may be unable to read the other fields.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn remove_finalizer<K: Applicable>(
    context: &Context,
    meta: &ObjectMeta,
) -> Result<(), StepError> {
    if has_finalizer(meta) {
        write_finalizer::<K>(context, meta, false).await?;
    }
    Ok(())
}

/// Returns whether the object's deletion waits for this operator.
#[must_use]
pub fn has_finalizer(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|each| each == FINALIZER)
}

/// Returns how much of `patience` remains since deletion was requested; all of it for an object
/// that isn't being deleted.
#[must_use]
pub fn remaining_time(meta: &ObjectMeta, now: Timestamp, patience: Duration) -> Duration {
    let since = meta.deletion_timestamp.as_ref();
    let elapsed = since.map_or(Duration::ZERO, |since| now.duration_since(since.0).unsigned_abs());
    patience.saturating_sub(elapsed)
}

/// Writes the finalizer; returns the new metadata, or `None` if the object no longer exists.
async fn write_finalizer<K: Applicable>(
    context: &Context,
    meta: &ObjectMeta,
    present: bool,
) -> Result<Option<ObjectMeta>, StepError> {
    let name = meta.name.as_deref().unwrap_or_default();
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let others = meta.finalizers.iter().flatten().map(String::as_str);
    let mut finalizers: Vec<&str> = others.filter(|each| *each != FINALIZER).collect();
    if present {
        finalizers.push(FINALIZER);
    }
    // If someone added or removed another finalizer, the version makes this a conflict instead of
    // an overwrite.
    let patch = json!({
        "metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        },
    });
    let params =
        PatchParams { field_manager: Some(FINALIZER_MANAGER.into()), ..PatchParams::default() };
    let api = namespaced_api::<K>(&context.client, namespace);
    match api.patch_metadata(name, &params, &Patch::Merge(&patch)).await {
        Ok(written) => {
            context.metrics.count(&WRITES, [&K::kind(&()), "finalizer"]);
            Ok(Some(written.metadata))
        }
        // The object no longer exists.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(source) => {
            let what = format!("patch finalizers of {} {namespace}/{name}", K::kind(&()));
            Err(StepError::from_kube(ReconcileStep::Apply, what, source))
        }
    }
}
