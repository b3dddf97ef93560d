//! What the reconcilers do, against an API server in memory: one file per kind.

mod claims;
mod deletion;
mod holders;
mod kafka;
mod observing;
mod outside;
mod pipeline;
mod pools;
mod process;
mod production_sample;
mod released;
mod routes;
mod rules;
pub(crate) mod support;
mod tables;
mod targets;
mod trouble;
