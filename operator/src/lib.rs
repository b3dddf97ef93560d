//! The Millrace operator as a library, so that its tests drive the same code as the binary.
//!
//! `run` starts everything; `controller` is the frame each kind's five steps run in; one folder per
//! kind holds those steps. Nothing here touches the collector's data path.

pub mod admin;
pub mod apply;
pub mod args;
pub mod backoff;
pub mod claims;
pub mod conditions;
pub mod context;
pub mod controller;
pub mod credentials;
pub mod edge;
pub mod error;
pub mod events;
pub mod external;
pub mod finalizer;
pub mod gateway;
pub mod inserts;
pub mod kafka;
pub mod kept;
pub mod lag;
pub mod lease;
pub mod metrics;
pub mod migrations;
pub mod outbound;
pub mod outside;
pub mod packed;
pub mod pages;
pub mod pipeline;
pub mod plaintext;
pub mod pool;
pub mod references;
pub mod run;
pub mod schema;
pub mod scrape;
pub mod seen;
pub mod sizing;
pub mod spread;
pub mod stores;
pub mod telemetry;
pub mod topic;
pub mod trials;
pub mod wakes;
pub mod watch;
