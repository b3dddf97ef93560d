//! How many gateways, how large each, and why: a pure function. No clock, no I/O.
//!
//! [`decide`] takes an observation, the policy and its memory, and returns the size, the reason,
//! the terms of the calculation and the new memory. It sizes for arrivals, for the backlog within a
//! catch-up time, and for the cost of the rebalance itself, by the measured capacity of saturated
//! pods. It grows within minutes, at once when the lag would break its bound, and shrinks only
//! after long calm, sooner when more is idle. A missing signal holds the size and never means zero.
//! Sizes move in steps that lower (or raise) the largest number of partitions a pod reads: with 12
//! partitions 4 and 5 pods are equally fast, so 5 is never chosen.
//!
//! The same observations give the same decisions: nothing else goes in. Time comes in as seconds on
//! the caller's clock. docs/autoscaling.md explains the rule and compares it with others.

mod arrivals;
mod capacity;
mod decide;
mod decision;
mod guard;
mod need;
mod observation;
mod policy;
mod resources;
mod size;
mod state;
mod vertical;

pub use arrivals::Arrivals;
pub use capacity::{Capacities, Capacity};
pub use decide::decide;
pub use decision::{Decision, HotPartition, Reason};
pub use need::Terms;
pub use observation::{Aged, Group, Observation, Partition, Pod, Sink, Transition};
pub use policy::{Mode, Policy, VerticalPolicy};
pub use resources::Resources;
pub use size::{Bounds, next_larger, next_smaller};
pub use state::{Change, Memory, State, Step};
pub use vertical::{VerticalReason, VerticalState};
