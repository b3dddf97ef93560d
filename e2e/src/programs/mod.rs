//! The product's programs, as tests start and judge them.

pub mod binaries;
pub mod collector;
pub mod lab;
pub mod loadgen;
pub mod memory;
pub mod process;
