//! What is asked of the servers: a workload as written (`settings`), as checked (`plan`), the ones
//! that come with the program (`ready`), and the requests that follow from it (`generator`). It
//! opens no connection.

mod generator;
mod kind;
mod paths;
mod plan;
mod ready;
mod settings;

pub(crate) use generator::{Data, Generator, Made};
pub(crate) use kind::{KINDS, Kind};
pub(crate) use paths::{Paths, each_node};
pub(crate) use plan::{Bounds, DATA_BYTES_MAX, Pace, Plan, PlanError, Terms, WatchPlan};
pub(crate) use ready::{NAMES, text};
pub(crate) use settings::{Arrivals, Overrides, Workload};
