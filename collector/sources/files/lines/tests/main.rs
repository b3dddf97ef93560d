//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod common;
mod encodings;
mod formats;
mod kernel;
mod model;
mod parse;
mod reform;
mod twin;
