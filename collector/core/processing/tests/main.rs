//! All integration tests of this crate, in one program.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, missing_docs)]

mod bounds;
mod collector;
mod compile_errors;
mod converters;
mod counts;
mod drops;
mod editors;
mod enrich;
mod explain;
mod language;
mod metrics;
mod paths;
mod properties;
mod redact;
mod redact_steps;
mod requests;
mod routes;
mod sample;
mod sample_steps;
mod step_properties;
mod steps;
mod tree;
