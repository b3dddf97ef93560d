//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod documents;
