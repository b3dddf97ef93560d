//! Where records come in: OTLP, Kafka, files and the kernel's log.

pub mod files;
pub mod kafka;
pub mod kernel;
pub mod listen;
pub mod otlp;

/// For tests by seed.
#[cfg(test)]
#[path = "../tests/by_seed/mod.rs"]
mod by_seed;
