//! Columns and tables on a real engine: what the encoder writes, what is migrated, and what the load
//! generator's check finds. No broker, no collector.

mod columns_conformance;
mod columns_engine;
mod columns_odd;
mod columns_tables;
mod columns_typed;
pub(crate) mod ddl_client;
mod ddl_distributed;
mod ddl_engine;
mod ddl_foreign;
mod ddl_holders;
mod ddl_migrations;
mod ddl_options;
mod loadgen_engine;
mod migrating;
mod readers;
