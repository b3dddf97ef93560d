//! Tests of rules as settings.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod settings;
