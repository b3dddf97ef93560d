//! What the black-box tests share: real brokers, engines and clusters, and the product's own
//! binaries run as programs. Nothing here links the operator or the collector, and everything
//! started is stopped when its guard drops.

pub mod binaries;
pub mod browser;
pub mod chart;
pub mod cluster;
pub mod collector;
pub mod console;
pub mod http;
pub mod lab;
pub mod loadgen;
pub mod memory;
pub mod page;
pub mod pipeline;
pub mod process;
pub mod rights;
pub mod segment;
pub mod topics;
pub mod wait;
