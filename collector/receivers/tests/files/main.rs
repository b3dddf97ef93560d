//! Reading log files: a real file system, a publisher that does as it is told.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::expect_used,
    clippy::panic,
    missing_docs
)]

mod annotations;
mod docker;
mod encodings;
mod labels;
mod model;
mod namespaces;
mod odd;
#[path = "../publisher/mod.rs"]
mod publisher;
mod rig;
mod rotation;
mod sending;
mod shares;
