//! Which fields of a child are ours, and whether they still hold what was applied. Pure.
//!
//! It must not read or write an object (`cluster` does) or cache one (`cache` does).

pub mod applied_state;
pub mod compare;

/// Owns the fields of children.
pub const CHILDREN_MANAGER: &str = "millrace-operator/children";
/// Carries the hash of the wanted state a child was last applied from.
pub const APPLIED_HASH_ANNOTATION: &str = "millrace.dev/applied-hash";
