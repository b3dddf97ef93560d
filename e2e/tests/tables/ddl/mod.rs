//! Tables that are declared, planned and migrated on the engine.

pub(crate) mod client;
mod distributed;
mod engine;
pub(super) mod foreign;
mod holders;
mod migrations;
mod options;
