//! Which fields of a child are ours, and whether they still hold what was applied. Pure.
//!
//! It must not read or write an object (`cluster` does) or cache one (`cache` does).

pub mod applied_state;
pub mod compare;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The field manager of children.
pub const CHILDREN_MANAGER: &str = "millrace-operator/children";
/// The annotation with the hash of the desired state from which a child was last applied.
pub const APPLIED_HASH_ANNOTATION: &str = "millrace.dev/applied-hash";

/// Returns the owner that controls an object, if one does.
#[must_use]
pub fn controller_of(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}
