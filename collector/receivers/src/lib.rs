//! Where records come in: OTLP, Kafka and files.

pub mod files;
pub mod kafka;
pub mod listen;
pub mod otlp;

/// For tests by seed.
#[cfg(test)]
#[path = "../tests/by_seed/mod.rs"]
mod by_seed;
