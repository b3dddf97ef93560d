//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod client;
mod command;
mod coordination;
mod migrating;
mod preflight;
mod rendered;
mod scripted;
mod tls;
