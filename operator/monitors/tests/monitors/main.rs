//! Monitors over a small cluster: which targets there are, with which labels; and what is said of
//! what can't be used.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod annotated;
mod by_address;
mod by_labels;
mod cluster;
mod documented;
mod properties;
mod refused;
mod secrets;
