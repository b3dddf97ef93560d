//! What the black-box tests share: real brokers, engines and clusters, and the product's own
//! binaries run as programs. Nothing here links the operator or the collector, and everything
//! started is stopped when its guard drops.

pub mod browser;
pub mod chart;
pub mod cluster;
pub mod http;
pub mod page;
mod programs;
pub mod segment;
pub mod topics;
pub mod wait;

pub use cluster::{console, pipeline, rights};
pub use programs::{binaries, collector, lab, loadgen, memory, process};
