//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod allocations;
mod bombs;
mod bounds;
mod checked;
mod heap;
mod native;
mod oracle;
mod refusals;
#[path = "../../wire/tests/requests/mod.rs"]
mod requests;
mod rows;
