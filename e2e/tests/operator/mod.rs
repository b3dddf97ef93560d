//! The operator's requests to a real broker and engine. No Kubernetes.

mod holders;
mod kafka;
mod sessions;
mod tokens;
