//! What the operator says of itself: its admin port, its figures, its logs.
//!
//! It must not know a kind or decide anything. Everybody may count here; only `run` serves.

pub mod admin;
pub mod logs;
pub mod metrics;
