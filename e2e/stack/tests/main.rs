//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

mod clickhouse_front;
mod kafka_broker;
mod lifecycle;
mod zookeeper_ensemble;
