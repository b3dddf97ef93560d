//! The parts of the comparison with Prometheus.

pub(crate) mod answers;
pub(crate) mod compare;
mod native;
pub(crate) mod samples;
pub(crate) mod sides;
pub(crate) mod stored;
pub(crate) mod targets;
mod written;
