//! Connections to Kafka, ClickHouse and Keeper: addresses, TLS, log-ins, and references to the
//! Secrets that hold them.

pub(super) mod authentication;
pub(super) mod connection;
pub(super) mod coordination;
pub(super) mod secrets;
