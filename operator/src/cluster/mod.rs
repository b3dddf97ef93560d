//! Reads and writes Kubernetes objects, only when something differs: children by server-side apply,
//! statuses by a patch with tests.
//!
//! It must not decide what is desired: kinds do. `cache` stores what was observed and verified.

mod apply;
mod requests;
mod status;

pub use apply::*;
pub use requests::{delete_object, list_objects};
pub use status::{STATUS_MANAGER, patch_status, patch_unknown_status, write_status};
