//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    clippy::unwrap_used,
    missing_docs
)]

mod accounting;
mod enrich;
mod memory;
mod rig;
mod routes;
mod settings;
