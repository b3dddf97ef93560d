//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod by_trace;
mod json;
mod json_print;
mod json_text;
mod otlp;
mod requests;
mod time_range;
mod views;
