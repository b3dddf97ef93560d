//! The local stack: Kubernetes, Kafka and the ClickHouse engine from package registries alone.

pub mod kafka;
pub mod service;
