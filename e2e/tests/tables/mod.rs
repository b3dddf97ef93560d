//! Columns and tables on a real engine: what the encoder writes, what is migrated, and what the load
//! generator's check finds. No broker, no collector.

mod columns;
pub(crate) mod ddl;
mod loadgen_engine;
mod migrating;
mod readers;
