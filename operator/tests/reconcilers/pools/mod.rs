//! Edge and gateway pools: their pods, sizes and changes.

pub(super) mod edge;
mod gateway;
mod losses;
mod pod_template;
mod resources;
mod restarted;
pub(super) mod rollout;
mod scale;
mod secrets;
mod spread;
