//! How many gateways, how large each, and why: a pure function. No clock, no I/O.
//!
//! [`decide`] takes what was observed, the policy and what it remembered, and gives the size, the
//! reason, the terms it rests on and what to remember. It sizes for what arrives, for the backlog
//! within a catch-up time, and for the cost of the rebalance itself, by the capacity that saturated
//! pods were seen to have. It grows within minutes, at once when the lag would break its bound, and
//! shrinks only after long calm, the sooner the more is idle. A missing signal holds the size and
//! never means zero. Sizes move in steps that lower (or raise) the largest number of partitions a
//! pod reads: with 12 partitions 4 and 5 pods are as fast as each other, so 5 is never chosen.
//!
//! The same observations give the same decisions: nothing else goes in. Time is handed in as
//! seconds on the caller's clock. docs/autoscaling.md explains the rule and holds it against
//! others.

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
