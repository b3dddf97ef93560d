//! Targets: from a discovered address and a job's rules to what is scraped, and when.

pub(crate) mod resolve;
pub(crate) mod schedule;
pub(crate) mod target;
