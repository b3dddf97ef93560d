//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod bounds;
mod collector;
mod explain;
mod language;
mod metrics;
mod properties;
mod redact;
mod requests;
mod sample;
mod steps;
mod tree;
