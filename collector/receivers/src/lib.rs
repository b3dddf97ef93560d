//! Where records come in: OTLP, Kafka and files.

pub mod files;
pub mod kafka;
pub mod listen;
pub mod otlp;
