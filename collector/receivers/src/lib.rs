//! Where records come in: OTLP and Kafka.

pub mod kafka;
pub mod listen;
pub mod otlp;
