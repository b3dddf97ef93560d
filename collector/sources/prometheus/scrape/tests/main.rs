//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

mod common;
mod conversion;
mod expected;
mod families;
mod parse;
mod pieces;
mod protobuf;
mod protobuf_rules;
mod relabel;
mod relabeled;
mod staleness;
mod upstream;
