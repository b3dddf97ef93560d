//! Where records go out: Kafka and ClickHouse.
