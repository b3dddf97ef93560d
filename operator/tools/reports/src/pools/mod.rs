//! Pools: their pods, sources, size, rollouts, newest dead letters, and the last day.

pub mod day;
pub(crate) mod dead_letters;
pub(crate) mod pods;
pub(crate) mod producers;
pub(crate) mod rollout;
pub(crate) mod sizing;
pub(crate) mod sources;
