//! Where records go out: Kafka and ClickHouse.

pub mod clickhouse;
pub mod kafka;
