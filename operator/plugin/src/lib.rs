//! `kubectl millrace`: asks a cluster how its pipelines are, why, and what to do next.
//!
//! It works with the user's own kubeconfig and rights, and names the right that is missing. It
//! never reads a Secret, and changes nothing but the rollout annotations that it is told to write.
//! What `send` and `verify` add are test records, which go the way of all others.
//!
//! Rooms, each using those before it: `facts` (what was read, as data: of `millrace-reports`, like
//! the reports that the operator's console shows too), `report` (pure: facts to findings), `load`
//! (pure: test records), `render` (pure: reports to text), `gather` (the one room with a client),
//! `command` (one file for each command).
//!
//! Limits: those of `gather`: 10,000 objects of a kind, the metrics of 100 pods, 4 MiB each.

pub mod args;
pub mod command;
pub mod error;
pub mod gather;
pub mod load;
pub mod render;
pub mod report;

pub use millrace_reports::facts;
