//! Decides which pod scrapes which target, and why: pure functions. No clock, no I/O.
//!
//! - [`assign_targets`] gets targets with their measured samples per second, pods, the present
//!   assignment and a policy. It returns the new assignment with a reason for each target, and how
//!   many pods the load needs. It balances samples, not the number of targets, and moves as few as
//!   it can.
//! - [`plan_writes`] hands targets over: from the stored documents and the pods' reports it makes
//!   the next documents. No target is in a second pod's document before the first pod has confirmed
//!   that it stopped, or is gone. All state is in the documents, so a restart loses nothing.
//!
//! The same input gives the same output: inputs are sorted sets, and sums are integers.
//! docs/internals/sharing/rule.md explains the rule, its guarantees and limits.

mod assignment;
mod balance;
mod bounds;
mod decide;
mod decision;
mod handover;
mod level;
mod pod;
mod policy;
mod prefer;
mod target;

pub use bounds::{Delays, SILENT_SECONDS};
pub use decide::{DecisionInput, assign_targets};
pub use decision::{Decision, DecisionFigures, Placement, PlacementReason, PodLoad};
pub use handover::{DesiredTarget, HandoverInput, Write, current_assignment, plan_writes};
pub use pod::{CandidatePod, PodObservation, PodState, pod_state};
pub use policy::{OverflowPolicy, Percent, SharingPolicy};
pub use target::Target;
