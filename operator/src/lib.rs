//! The Millrace operator as a library, so that its tests drive the same code as the binary.
//!
//! The rooms below stand in the order in which they may use each other: each only those above it
//! in this list (`cargo xtask check` holds it). Nothing here touches the collector's data path.

pub mod error;

pub mod ownership;
pub mod telemetry;

pub mod outbound;

pub mod clickhouse;
pub mod kafka;
pub mod pods;

pub mod report;

pub mod cache;

pub mod context;

pub mod cluster;

pub mod holders;

pub mod pool;

pub mod reconcile;

pub mod controllers;

pub mod lease;

pub mod args;
pub mod run;
