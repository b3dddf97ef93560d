//! Faults against a real ensemble of three ZooKeepers, with several sessions at work; what they saw
//! is judged by `millrace-keeper-histories`.
//!
//! All sessions share one thread, so that what a connection delivers is recorded in the order in
//! which it came. It links no product.

pub mod clients;
pub mod network;
pub mod recorder;
pub mod round;
pub mod say;
pub mod strikes;
