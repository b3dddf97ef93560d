//! `kubectl millrace`: shows the state of a cluster's pipelines, the causes, and the next steps.
//!
//! It uses the user's own kubeconfig and rights, and names a missing right. It never reads a
//! Secret, and changes only the rollout actions that the user requests. `send` and `verify` add
//! test records, which take the path of all others.
//!
//! Modules, each using those before it: `facts` (facts as data: of `millrace-reports`, like the
//! reports that the operator's console shows too), `report` (pure: facts to findings), `load`
//! (pure: test records), `render` (pure: reports to text), `gather` (the only module with a
//! client), `command` (one file for each command).
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
