//! Where records come in: OTLP, Kafka, files, the kernel's log and scraped targets.

mod clock;
pub mod files;
pub mod kafka;
pub mod kernel;
pub mod listen;
pub mod otlp;
pub mod prometheus;
mod way;

/// For tests by seed.
#[cfg(test)]
#[path = "../tests/by_seed/mod.rs"]
mod by_seed;
