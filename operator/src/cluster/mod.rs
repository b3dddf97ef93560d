//! Reads and writes Kubernetes objects, only when something differs: children by server-side apply,
//! statuses by a patch with tests.
//!
//! It must not decide what is desired: kinds do. `cache` stores what was observed and verified.

mod apply;
mod condition_series;
mod requests;
mod status;

pub use apply::*;
pub use condition_series::set_conditions;
pub use requests::{delete_object, list_objects};
pub use status::{STATUS_MANAGER, patch_status, patch_unknown_status, write_status};

use crate::telemetry::metrics::Counter;

/// Counts each object that was written.
pub(crate) const WRITES: Counter<2> = Counter::new(
    "millrace_operator_writes_total",
    "Objects written, by kind and concern (children, status, prune).",
    ["kind", "concern"],
);
