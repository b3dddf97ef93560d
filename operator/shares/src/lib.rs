//! Which pod scrapes which target, and why: pure functions. No clock, no I/O.
//!
//! - [`decide`] takes targets with their measured samples per second, pods, the present assignment
//!   and a policy. It returns the new assignment with a reason for each target, and how many pods
//!   the load needs. It balances samples, not the number of targets, and moves as few as it can.
//! - [`step`] hands targets over: from the documents that pods read and what pods report it makes
//!   the next documents. No target is in a second pod's document before the first pod has confirmed
//!   that it stopped, or is gone. All memory is in the documents, so a restart loses nothing.
//! - [`Share`] is such a document, and [`split`] its text in parts that a ConfigMap can hold.
//!
//! The same input gives the same output: sets come in sorted, so their order can't matter, and sums
//! are integers. docs/sharing.md explains the rule, its guarantees and limits.

mod balance;
mod board;
mod bounds;
mod decide;
mod decision;
mod document;
mod handover;
mod level;
mod pod;
mod policy;
mod prefer;
mod target;

pub use bounds::{Delays, SILENT_SECONDS};
pub use decide::{Input, decide};
pub use decision::{Decision, Figures, Placement, PodLoad, Reason};
pub use document::{
    ADDRESS_BYTES_MAX, DocumentFault, Entry, JOB_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX,
    PART_BYTES_MAX, PARTS_MAX, Released, Share, join, split,
};
pub use handover::{Step, Wanted, Write, assigned, step};
pub use pod::{Pod, PodName, PodState, Seen, state};
pub use policy::{AtCap, Percent, Policy};
pub use target::{Target, TargetId, Weight};
