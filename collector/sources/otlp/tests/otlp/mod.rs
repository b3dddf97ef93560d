//! The OTLP receiver over real sockets on loopback, with real clients and misbehaving sockets.
//!
//! A scripted publisher replaces Kafka. These tests don't prove that published records are safe;
//! the exporter's tests and the end-to-end tests do that.

mod deadlines;
mod grpc;
mod hostile;
mod http;
mod json;
mod least_budget;
mod limits;
mod rig;
mod tls;
