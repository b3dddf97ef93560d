//! Settings and status that edge and gateway pools share.

pub(super) mod collector;
pub(super) mod nodes;
pub(super) mod own_telemetry;
pub(super) mod pods;
pub(super) mod rollout;
pub(super) mod status;
pub(super) mod tuning;
