//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod command;
mod dead_letters;
mod enrich;
mod files;
mod gateway;
mod hostile;
mod kafka_tls;
mod own;
mod rules;
