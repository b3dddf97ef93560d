//! Reading and writing objects in the Kubernetes cluster: children by server-side apply, statuses
//! by a patch with tests, each only when something differs.
//!
//! It must not decide what is wanted: kinds do. What was seen and verified is in `cache`.

mod apply;
mod status;

pub use apply::*;
pub use status::{STATUS_MANAGER, patch_status, state_unknown};
