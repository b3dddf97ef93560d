//! Edge and gateway pools: their pods, sizes and changes.

pub(super) mod edge;
mod edge_change;
mod gateway;
mod losses;
mod node_canary;
mod node_logs;
mod pod_template;
mod resources;
mod restarted;
pub(super) mod rollout;
mod scale;
mod secrets;
mod spread;
