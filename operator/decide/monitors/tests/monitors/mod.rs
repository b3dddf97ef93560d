//! Tests of monitors over a small cluster: the targets with their labels, and the faults.

mod annotated;
mod by_address;
mod by_labels;
mod cluster;
mod documented;
mod properties;
mod refused;
mod secrets;
