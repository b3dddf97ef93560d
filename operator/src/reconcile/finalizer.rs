//! Finalizers of kinds that stand for something outside Kubernetes.
//!
//! Set only while the object's deletion policy is `Delete`. An object that can't clean up, or that
//! this release can't read, is released after a bounded time, with an event: no namespace is
//! blocked for ever.

use std::borrow::Cow;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams};
use millrace_crds::v1alpha1::DeletionPolicy;
use millrace_crds::{FINALIZER, Reason};
use serde_json::json;

use crate::cluster::{Applicable, api};
use crate::context::Context;
use crate::error::{Category, Step, StepError};
use crate::reconcile::next::Next;
use crate::report::events::Notice;

/// Owns the finalizer.
const FINALIZER_MANAGER: &str = "millrace-operator/finalizer";

/// How long cleaning up of one thing is retried: several back-offs of 30 s, and a short outage, but
/// less than the patience of someone who deletes a namespace.
pub const CLEANING_MAX: Duration = Duration::from_secs(300);

/// Timeout of one attempt: half of a reconcile's, so that a hanging attempt fails before it is cut
/// off, and the object is released in the end.
const ATTEMPT_MAX: Duration = Duration::from_secs(60);

/// Adds or removes the finalizer by the deletion policy, if needed. Returns the object as it is
/// then.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn follow<'a, K: Applicable>(
    context: &Context,
    object: &'a K,
    policy: DeletionPolicy,
) -> Result<Cow<'a, K>, StepError> {
    let wanted = policy == DeletionPolicy::Delete;
    if wanted == is_held(object.meta()) {
        return Ok(Cow::Borrowed(object));
    }
    let Some(written) = write::<K>(context, object.meta(), wanted).await? else {
        return Ok(Cow::Borrowed(object));
    };
    let mut object = object.clone();
    *object.meta_mut() = written;
    Ok(Cow::Owned(object))
}

/// Deletes an object: retries `clean`, if given, for as long as `patience`, then removes the
/// finalizer, whatever the result. `remains` says what is left behind if it failed, or if another
/// object stands for the same.
///
/// # Errors
/// When cleaning up failed and is retried, or the API server refuses or can't be reached.
pub async fn leave<K: Applicable>(
    context: &Context,
    object: &K,
    clean: Option<impl Future<Output = Result<(), StepError>>>,
    remains: &str,
    patience: Duration,
) -> Result<Next, StepError> {
    if !is_held(object.meta()) {
        return Ok(Next::OnChange);
    }
    let clean = match (clean, context.claims.another(object)) {
        (Some(_), Some(another)) => {
            let notice = Notice::kept(remains, &another);
            context.events.publish(&object.object_ref(&()), notice).await;
            None
        }
        (clean, _) => clean,
    };
    let cleaned = match clean {
        None => Ok(()),
        Some(clean) => tokio::time::timeout(ATTEMPT_MAX, clean).await.unwrap_or_else(|_elapsed| {
            let cause = format!("cleaning up took longer than {} s", ATTEMPT_MAX.as_secs());
            Err(StepError::new(Step::Apply, Category::External, Reason::Waiting, cause))
        }),
    };
    if let Err(error) = cleaned {
        if !time_left(object.meta(), context.clock.now(), patience).is_zero() {
            return Err(error);
        }
        let notice = Notice::given_up(remains, &error);
        context.events.publish(&object.object_ref(&()), notice).await;
    }
    release::<K>(context, object.meta()).await?;
    Ok(Next::OnChange)
}

/// Removes the finalizer, so that the object can be deleted. Needs only its metadata: this release
/// may not be able to read the rest.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn release<K: Applicable>(context: &Context, meta: &ObjectMeta) -> Result<(), StepError> {
    if is_held(meta) {
        write::<K>(context, meta, false).await?;
    }
    Ok(())
}

/// Whether this object waits for us when it is deleted.
#[must_use]
pub fn is_held(meta: &ObjectMeta) -> bool {
    meta.finalizers.iter().flatten().any(|each| each == FINALIZER)
}

/// What is left of `patience`, by when deletion was asked for; all of it for an object that isn't
/// being deleted.
#[must_use]
pub fn time_left(meta: &ObjectMeta, now: Timestamp, patience: Duration) -> Duration {
    let since = meta.deletion_timestamp.as_ref();
    let gone = since.map_or(Duration::ZERO, |since| now.duration_since(since.0).unsigned_abs());
    patience.saturating_sub(gone)
}

/// Writes the finalizer; returns the new metadata, or nothing if the object is gone.
async fn write<K: Applicable>(
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
    // The version makes this a conflict, not an overwrite, when another finalizer was added or
    // removed.
    let patch = json!({
        "metadata": {
            "resourceVersion": meta.resource_version,
            "finalizers": finalizers,
        },
    });
    let params =
        PatchParams { field_manager: Some(FINALIZER_MANAGER.into()), ..PatchParams::default() };
    let api = api::<K>(&context.client, namespace);
    match api.patch_metadata(name, &params, &Patch::Merge(&patch)).await {
        Ok(written) => {
            context.metrics.wrote(&K::kind(&()), "finalizer");
            Ok(Some(written.metadata))
        }
        // Gone already: nothing to release.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(source) => {
            let what = format!("patch finalizers of {} {namespace}/{name}", K::kind(&()));
            Err(StepError::api(Step::Apply, what, source))
        }
    }
}
