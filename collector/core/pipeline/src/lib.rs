//! Bounded flow between a source and a sink, shared by all data paths: budget, batches, retries,
//! drain.
//!
//! This crate opens no sockets and holds no client: receivers and exporters do, using these types.

pub mod backoff;
pub mod batch;
pub mod body;
pub mod budget;
pub mod cancellation;
pub mod clock;
pub mod component;
pub mod dead_letter;
mod dedup_token;
pub mod delivery_path;
pub mod drain;
pub mod failpoint;
pub mod figures;
pub mod kafka_client;
pub mod listen;
pub mod memory;
pub mod memory_shares;
pub mod mutex;
pub mod pods;
pub mod publish;
pub mod random_seed;
pub mod readiness;
pub mod record_times;
pub mod share;
pub mod sink;
pub mod telemetry;
