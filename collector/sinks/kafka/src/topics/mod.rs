//! Topics: where requests go, and whether Kafka takes them.

pub(crate) mod destination;
pub(crate) mod join_limit;
pub(crate) mod monitor;
pub(crate) mod topic;
