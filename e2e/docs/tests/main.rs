//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

mod commands;
mod documents;
mod runs;
#[path = "../../../crds/tests/support/mod.rs"]
mod schemas;
mod settings;
