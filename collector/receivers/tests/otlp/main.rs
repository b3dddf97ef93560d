//! The OTLP receiver over real sockets on loopback: real clients, and sockets that misbehave.
//!
//! What stands in for Kafka is a publisher that does as it is told. Not proven here: that published
//! records are safe; the exporter's tests and the end-to-end tests do that.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

mod grpc;
mod hostile;
mod http;
mod json;
mod limits;
mod rig;
mod tls;
