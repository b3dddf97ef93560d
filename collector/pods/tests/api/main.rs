//! The watches against a server that answers as it is told.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

mod namespaces;
mod server;
mod share;
mod watch;
