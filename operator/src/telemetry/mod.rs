//! The operator's own telemetry: admin port, metrics, logs, traces; and the listener that the
//! console shares.
//!
//! It must not know a kind or decide anything. Any module may count here; only `run` serves.

pub mod admin;
pub mod export;
pub mod listener;
pub mod metrics;
pub mod token;
