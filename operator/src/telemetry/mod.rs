//! The operator's own telemetry: admin port, metrics, logs, traces.
//!
//! It must not know a kind or decide anything. Any module may count here; only `run` serves.

pub mod admin;
pub mod export;
pub mod metrics;
pub mod token;
