//! Views of records over the bytes of a request, signal by signal.

pub(super) mod logs;
pub(super) mod metrics;
pub(super) mod numbers;
pub(super) mod points;
pub(super) mod traces;
