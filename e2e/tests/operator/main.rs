//! The operator's requests to a real broker and engine. No Kubernetes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod holders;
mod kafka;
mod sessions;
