//! All integration tests of this crate, in one program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs
)]

mod alerting;
mod chart;
mod cluster;
mod cluster_alone;
mod cluster_last;
mod cluster_nightly;
mod conformance;
mod coordination;
mod gitops;
mod ingest;
mod operator;
mod pages;
mod pages_cluster;
mod replicated;
mod rights;
mod tables;
mod upgrades;
