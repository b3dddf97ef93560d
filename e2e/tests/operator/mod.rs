//! The operator's requests to a real broker and engine. No Kubernetes.

mod brokers;
mod holders;
mod kafka;
mod sessions;
mod tokens;
