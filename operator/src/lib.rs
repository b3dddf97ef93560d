//! The Millrace operator as a library, so that its tests run the same code as the binary.
//!
//! The modules below are in order: each may use only those above it (`cargo xtask check` enforces
//! it). Nothing here touches the collector's data path.

pub mod error;
pub mod hash;

pub mod ownership;
pub mod telemetry;

pub mod outbound;

pub mod clickhouse;
pub mod coordination;
pub mod kafka;
pub mod pods;

pub mod report;

pub mod cache;

pub mod discovery;

pub mod context;

pub mod cluster;

pub mod holders;

pub mod pool;

pub mod monitors;

pub mod sharing;

pub mod reconcile;

pub mod controllers;

pub mod console;
pub mod lease;

pub mod check;

pub mod args;
pub mod run;
