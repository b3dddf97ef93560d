//! Blocks of the column encoder, inserted into the engine.

mod conformance;
mod engine;
mod odd;
mod profile;
pub(super) mod tables;
mod typed;
