//! A pipeline on a real Kubernetes under load, by the second, or with the operator, the broker and the
//! engine struck: tests that disturb others or are disturbed by them, one after the other.

mod faults;
mod pipeline;
mod upkeep;
mod versions;
