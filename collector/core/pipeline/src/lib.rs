//! Bounded flow between a source and a sink, shared by all data paths: budget, batches, retries,
//! drain.
//!
//! This crate opens no sockets and holds no client: receivers and exporters do, using these types.

mod delivery;
pub mod figures;
mod interfaces;
pub mod kafka_client;
pub mod memory;
mod process;
pub mod record_times;
pub mod telemetry;

pub use delivery::{backoff, batch, body, cancellation, dead_letter, delivery_path};
pub use interfaces::{component, pods, publish, share, sink};
pub use memory::{budget, memory_shares};
pub use process::{clock, drain, failpoint, mutex, random_seed, readiness};
