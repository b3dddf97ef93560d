//! Bounded flow between a source and a sink: budget, batches, retries, drain.
//!
//! What all data paths share. This crate opens no sockets and holds no
//! client: receivers and exporters do, against the types here.

pub mod backoff;
pub mod batch;
pub mod body;
pub mod budget;
pub mod dead_letter;
pub mod drain;
pub mod failpoint;
pub mod figures;
pub mod file_metrics;
pub mod kafka_client;
pub mod kernel_metrics;
pub mod memory;
pub mod pods;
pub mod publish;
pub mod readiness;
pub mod scrape_metrics;
pub mod share;
pub mod sink;
pub mod telemetry;
