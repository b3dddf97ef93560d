//! Writes statuses, as the only module: only when one differs, and only to the same object in the
//! state that it was computed from.

use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use millrace_crds::{Condition, ConditionType, Reason};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Applicable, ApplyError, WRITES, set_conditions};
use crate::context::Context;
use crate::error::{Category, ReconcileStep, StepError};
use crate::report::conditions::Conditions;
use crate::report::unreachable::needs_a_person;

/// The field manager of the statuses of this operator's kinds.
pub const STATUS_MANAGER: &str = "millrace-operator/status";
/// The HTTP status for a failed test of a patch, and for an invalid object.
const UNPROCESSABLE: u16 = 422;

/// Writes `desired` as the status of `object` unless it equals `current`; returns whether it wrote.
///
/// The patch tests uid and resource version, which server-side apply of a status does not. An
/// object recreated under the same name must not get the old one's status. A status also holds
/// decisions: one made from an older state would undo newer ones, so it is a conflict and is
/// decided again.
///
/// # Errors
/// When the API server refuses or can't be reached.
pub async fn patch_status<K: Applicable, S: Serialize>(
    context: &Context,
    object: &K,
    current: Option<&S>,
    desired: &S,
) -> Result<bool, StepError> {
    let kind = K::kind(&()).into_owned();
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let (desired, current) = (encode(object, desired)?, encode(object, &current)?);
    let conditions: Vec<Condition> = Vec::deserialize(&desired["conditions"]).unwrap_or_default();
    set_conditions(&context.metrics, &kind, &namespace, &name, &conditions);
    if desired == current {
        return Ok(false);
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    let operations = serde_json::json!([
        { "op": "test", "path": "/metadata/uid", "value": object.uid() },
        { "op": "test", "path": "/metadata/resourceVersion", "value": object.resource_version() },
        { "op": "add", "path": "/status", "value": desired },
    ]);
    let patch = serde_json::from_value(operations).map_err(|error| encode_error(object, error))?;
    let params =
        PatchParams { field_manager: Some(STATUS_MANAGER.into()), ..PatchParams::default() };
    let refused = match api.patch_status(&name, &params, &Patch::Json::<()>(patch)).await {
        Ok(_) => {
            context.metrics.count(&WRITES, [&kind, "status"]);
            return Ok(true);
        }
        Err(error) => error,
    };
    let what = format!("patch status of {kind} {namespace}/{name}");
    match &refused {
        // The object was deleted in between.
        kube::Error::Api(status) if status.is_not_found() => return Ok(false),
        // The content was refused or a test failed; the message doesn't distinguish the two.
        kube::Error::Api(status) if status.code == UNPROCESSABLE => {
            let now = api.get_metadata_opt(&name).await;
            let now = now.map_err(|error| {
                StepError::from_kube(ReconcileStep::Status, what.clone(), error)
            })?;
            let Some(now) = now.filter(|now| now.uid() == object.uid()) else {
                return Ok(false);
            };
            if now.resource_version() != object.resource_version() {
                let cause = format!("{kind} {namespace}/{name} changed during its reconcile");
                let (category, reason) = (Category::Conflict, Reason::ApiServerFailed);
                return Err(StepError::new(ReconcileStep::Status, category, reason, cause));
            }
        }
        _ => {}
    }
    Err(StepError::from_kube(ReconcileStep::Status, what, refused))
}

/// As [`patch_status`], with these conditions, and publishes their changes as events if it wrote.
///
/// # Errors
/// As [`patch_status`].
pub async fn write_status<K: Applicable, S: Serialize>(
    context: &Context,
    object: &K,
    current: Option<&S>,
    desired: &S,
    conditions: Conditions,
) -> Result<bool, StepError> {
    let notices = conditions.new_notices();
    let mut status = encode(object, desired)?;
    status["conditions"] = encode(object, &conditions.into_conditions())?;
    let current = current.map(|current| encode(object, current)).transpose()?;
    let wrote = patch_status(context, object, current.as_ref(), &status).await?;
    for notice in notices.into_iter().filter(|_| wrote) {
        context.events.publish(&object.object_ref(&()), notice).await;
    }
    Ok(wrote)
}

/// Reports that readiness is unknown, and why, for a reconcile that ended with `failure` before it
/// could report. Other conditions are unchanged, except that the object is stalled if only a person
/// can end the failure.
///
/// # Errors
/// As [`patch_status`].
pub async fn patch_unknown_status<K: Applicable>(
    context: &Context,
    object: &K,
    failure: &StepError,
) -> Result<bool, StepError> {
    let mut encoded = encode(object, object)?;
    let before = encoded.get_mut("status").map(Value::take).filter(|it| !it.is_null());
    let mut desired = before.clone().unwrap_or_else(|| serde_json::json!({}));
    let known = serde_json::from_value(desired["conditions"].take()).unwrap_or_default();
    let known: Vec<Condition> = known;
    let mut conditions = Conditions::new(&known, object.meta().generation, context.clock.now());
    let (reason, message) = (failure.reason, failure.cause());
    conditions.set_unknown(ConditionType::Ready, reason, message.as_str());
    if needs_a_person(failure) {
        conditions.set_progress((false, true), reason, &message);
    }
    // Conditions of an older spec carry that spec's generation.
    if let Some(generation) = object.meta().generation {
        desired["observedGeneration"] = generation.into();
    }
    write_status(context, object, before.as_ref(), &desired, conditions).await
}

fn encode<K: Applicable>(object: &K, part: &impl Serialize) -> Result<Value, StepError> {
    serde_json::to_value(part).map_err(|error| encode_error(object, error))
}

fn encode_error<K: Applicable>(object: &K, source: serde_json::Error) -> StepError {
    let (kind, name) = (K::kind(&()).into_owned(), object.name_any());
    let error = ApplyError::Encode { kind, name, source };
    StepError::new(ReconcileStep::Status, error.category(), error.reason(), error)
}
