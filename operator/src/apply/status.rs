//! The one way a status is written: only when it differs, and only onto the object it is of.

use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde::Serialize;

use super::{Applicable, ApplyError};
use crate::context::Context;
use crate::error::{Step, StepError};

/// Owns the status of our own kinds.
pub const STATUS_MANAGER: &str = "millrace-operator/status";
/// What a server answers to a patch whose test fails, as to an object that it finds invalid.
const UNPROCESSABLE: u16 = 422;

/// Writes `wanted` as the status of `object` unless `current` is the same; tells whether it wrote.
///
/// Of this very object: one that was made anew under its name since says nothing of what was found
/// for the one before. Server-side apply of a status takes no uid, so this is a patch with a test.
///
/// # Errors
/// When the API server refuses or is away.
pub async fn patch_status<K: Applicable, S: Serialize>(
    context: &Context,
    object: &K,
    current: Option<&S>,
    wanted: &S,
) -> Result<bool, StepError> {
    let kind = K::kind(&()).into_owned();
    let name = object.name_any();
    let namespace = object.namespace().unwrap_or_default();
    let encode = |source| ApplyError::Encode { kind: kind.clone(), name: name.clone(), source };
    let wanted = serde_json::to_value(wanted).map_err(|e| at_status(encode(e)))?;
    let current = serde_json::to_value(current).map_err(|e| at_status(encode(e)))?;
    if wanted == current {
        return Ok(false);
    }
    let api: Api<K> = Api::namespaced(context.client.clone(), &namespace);
    let operations = serde_json::json!([
        { "op": "test", "path": "/metadata/uid", "value": object.uid() },
        { "op": "add", "path": "/status", "value": wanted },
    ]);
    let patch = serde_json::from_value(operations).map_err(|e| at_status(encode(e)))?;
    let params =
        PatchParams { field_manager: Some(STATUS_MANAGER.into()), ..PatchParams::default() };
    let refused = match api.patch_status(&name, &params, &Patch::Json::<()>(patch)).await {
        Ok(_) => {
            context.metrics.wrote(&kind, "status");
            return Ok(true);
        }
        Err(error) => error,
    };
    let is_gone = match &refused {
        kube::Error::Api(status) if status.is_not_found() => true,
        // Refused for what it says, or because the test failed: the server's words don't tell.
        kube::Error::Api(status) if status.code == UNPROCESSABLE => {
            let now = api.get_metadata_opt(&name).await;
            now.is_ok_and(|now| now.and_then(|it| it.uid()) != object.uid())
        }
        _ => false,
    };
    if is_gone {
        // Deleted while we looked: there is nobody left to tell.
        return Ok(false);
    }
    let what = format!("patch status of {kind} {namespace}/{name}");
    Err(StepError::api(Step::Status, what, refused))
}

fn at_status(error: ApplyError) -> StepError {
    StepError::new(Step::Status, error.category(), error.reason(), error)
}
