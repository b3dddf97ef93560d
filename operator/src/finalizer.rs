//! Finalizers of kinds that stand for something outside Kubernetes.
//!
//! Set only while the object's deletion policy is `Delete`. An object that can't clean up is let go
//! after a bounded time, with an event: a namespace is never held for ever.

use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use millrace_crds::FINALIZER;
use millrace_crds::v1alpha1::DeletionPolicy;
use serde_json::json;

use crate::apply::{Applicable, api};
use crate::context::Context;
use crate::error::{Step, StepError};

/// Owns the finalizer.
const FINALIZER_MANAGER: &str = "millrace-operator/finalizer";

/// How long cleaning up is tried: several back-offs of 30 s, and an outage that a person would wait
/// out, but less than the patience of someone who deletes a namespace.
pub const CLEANING_MAX: Duration = Duration::from_secs(300);

/// Makes the finalizer's presence follow the deletion policy; writes only when it does not.
///
/// # Errors
/// When the API server refuses or is away.
pub async fn follow<K: Applicable>(
    context: &Context,
    object: &K,
    policy: DeletionPolicy,
) -> Result<(), StepError> {
    let wanted = policy == DeletionPolicy::Delete;
    let present = object.finalizers().iter().any(|each| each == FINALIZER);
    match (wanted, present) {
        (true, true) | (false, false) => Ok(()),
        (true, false) => write(context, object, true).await,
        (false, true) => write(context, object, false).await,
    }
}

/// Takes the finalizer off, so that the object can go.
///
/// # Errors
/// When the API server refuses or is away.
pub async fn release<K: Applicable>(context: &Context, object: &K) -> Result<(), StepError> {
    if object.finalizers().iter().any(|each| each == FINALIZER) {
        write(context, object, false).await?;
    }
    Ok(())
}

/// Whether this object being deleted still waits for us.
pub fn is_held<K: Applicable>(object: &K) -> bool {
    object.finalizers().iter().any(|each| each == FINALIZER)
}

/// Whether cleaning up has been tried for long enough.
pub fn is_overdue<K: Applicable>(object: &K, now: Timestamp) -> bool {
    object
        .meta()
        .deletion_timestamp
        .as_ref()
        .is_some_and(|since| now.duration_since(since.0).unsigned_abs() >= CLEANING_MAX)
}

async fn write<K: Applicable>(
    context: &Context,
    object: &K,
    present: bool,
) -> Result<(), StepError> {
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let mut finalizers: Vec<&str> =
        object.finalizers().iter().map(String::as_str).filter(|each| *each != FINALIZER).collect();
    if present {
        finalizers.push(FINALIZER);
    }
    // The version makes this a conflict, not an overwrite, when another finalizer came or went.
    let patch = json!({
        "metadata": {
            "resourceVersion": object.resource_version(),
            "finalizers": finalizers,
        },
    });
    let params =
        PatchParams { field_manager: Some(FINALIZER_MANAGER.into()), ..PatchParams::default() };
    match api::<K>(&context.client, &namespace).patch(&name, &params, &Patch::Merge(&patch)).await {
        Ok(_) => {
            context.metrics.wrote(&K::kind(&()), "finalizer");
            Ok(())
        }
        // Gone already: nothing to hold or let go.
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(source) => {
            let what = format!("patch finalizers of {} {namespace}/{name}", K::kind(&()));
            Err(StepError::api(Step::Apply, what, source))
        }
    }
}
