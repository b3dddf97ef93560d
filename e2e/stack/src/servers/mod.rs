//! Real servers for tests: ClickHouse's engine, Kafka, ZooKeeper, a registry.

pub mod clickhouse;
pub mod disk;
pub mod http;
mod java;
pub mod kafka;
pub mod registry;
pub mod service;
pub mod zookeeper;
