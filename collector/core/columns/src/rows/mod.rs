//! Records as rows of their tables, signal by signal.

pub(crate) mod append;
mod group;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod traces;
