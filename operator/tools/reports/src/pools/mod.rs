//! Pools: their pods, sources, size, rollouts, and the last day.

pub mod day;
pub(crate) mod pods;
pub(crate) mod producers;
pub(crate) mod rollout;
pub(crate) mod sizing;
pub(crate) mod sources;
