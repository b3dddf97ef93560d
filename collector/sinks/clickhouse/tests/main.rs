//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_in_result,
    clippy::unwrap_used,
    missing_docs
)]

mod clickhouse_direct;
mod clickhouse_sink;
