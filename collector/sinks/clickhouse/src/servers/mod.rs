//! Servers of ClickHouse: which one an insert goes to, and when.

pub(crate) mod circuit_breaker;
pub(crate) mod client;
pub(crate) mod reachability;
pub(crate) mod route;
