//! Exporters: Kafka and ClickHouse.

pub mod clickhouse;
pub mod kafka;
