//! Documents by which the operator assigns scrape targets to pods. The operator writes them, and
//! collectors and a new operator read them. No clock, no I/O.
//!
//! [`Share`] is a pod's document; [`split_share`] splits it into parts that a ConfigMap can hold.
//! docs/internals/sharing/rule.md explains when it is written and what its pod does.

mod document;
mod pod_name;
mod target_id;
mod weight;

pub use document::{
    ADDRESS_BYTES_MAX, DocumentFault, JOB_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX, PART_BYTES_MAX,
    PARTS_MAX, Released, Share, TargetEntry, join_parts, split_share,
};
pub use pod_name::PodName;
pub use target_id::TargetId;
pub use weight::Weight;
