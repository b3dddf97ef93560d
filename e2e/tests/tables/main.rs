//! Columns and tables on a real engine: what the encoder writes, what is migrated, and what the load
//! generator's check finds. No broker, no collector.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs
)]

mod columns_conformance;
mod columns_engine;
mod columns_odd;
mod columns_tables;
mod columns_typed;
mod ddl_client;
mod ddl_engine;
mod ddl_foreign;
mod ddl_holders;
mod ddl_migrations;
mod ddl_options;
mod loadgen_engine;
mod migrating;
mod readers;

/// Where the shared oracle looks for it.
use columns_tables::native;
