//! Decides how many gateways run, how large each is, and why: a pure function. No clock, no I/O.
//!
//! [`decide_size`] takes an observation, the policy and its state, and returns the size, the
//! reason, the terms of the calculation and the new state. It sizes for arrivals, for the backlog
//! within a catch-up time, and for the cost of the rebalance itself, by the measured capacity of
//! saturated pods. It grows within minutes, at once when the lag would exceed its bound, and
//! shrinks only after long calm, sooner when more is idle. A missing signal holds the size and
//! never means zero. Sizes move in steps that lower (or raise) the largest number of partitions a
//! pod reads: with 12 partitions 4 and 5 pods are equally fast, so 5 is never chosen.
//!
//! The same observations give the same decisions: the rule has no other input. Times are seconds on
//! the caller's clock. docs/internals/autoscaling/rule.md explains the rule and compares it with
//! others.

mod arrivals;
mod capacity;
mod decide;
mod decision;
mod observation;
mod policy;
mod resources;
mod state;
mod vertical;

pub use arrivals::Arrivals;
pub use capacity::{Capacities, Capacity};
pub use decide::decide_size;
pub use decide::need::Terms;
pub use decide::size::{Bounds, next_larger, next_smaller};
pub use decision::{Decision, HotPartition, ScalingReason};
pub use observation::{
    Aged, ConsumerGroup, Observation, PartitionLoad, PodReport, SinkReport, Transition,
};
pub use policy::{ScalingMode, ScalingPolicy, VerticalPolicy};
pub use resources::Resources;
pub use state::{GrowthStep, ScalingMemory, ScalingState, SizeChange};
pub use vertical::{VerticalReason, VerticalState};
