//! Translates a pool's spec to its collectors' settings. Pure.

pub mod attributes;
pub mod connection;
pub mod discover;
pub mod memory;
pub mod overrides;
pub mod processing;
pub mod scrape;
pub(crate) mod variants;
