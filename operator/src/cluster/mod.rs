//! Reads and writes Kubernetes objects: children by server-side apply, statuses by a patch with
//! tests, each only when something differs.
//!
//! It must not decide what is desired: kinds do. `cache` holds what was seen and verified.

mod apply;
mod status;

pub use apply::*;
pub use status::{STATUS_MANAGER, patch_status, state_unknown};
