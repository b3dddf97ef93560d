//! What the reconcilers do, against an API server in memory: one file per kind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod brokers;
mod check;
mod claims;
mod console;
mod coordination;
mod deduplication;
mod deletion;
mod edge;
mod edge_change;
mod gateway;
mod holders;
mod kafka_records;
mod lease;
mod losses;
mod monitors;
mod node_canary;
mod node_logs;
mod observing;
mod outside;
mod pipeline;
mod pod_template;
mod released;
mod resources;
mod rollout;
mod scale;
mod scraped;
mod sharing;
mod spread;
mod standby;
mod support;
mod traced;
mod trouble;
mod watches;
