//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

mod against_null;
mod against_zookeeper;
mod mix_at_the_server;
mod program;
mod real_inserts;
mod suite_command;
mod suite_stored;
mod tap;
mod transactions;
