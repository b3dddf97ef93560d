//! A worker's session in the consumer group: membership, assigned partitions, which of them are
//! read, and the end.

pub(crate) mod context;
pub(crate) mod finish;
pub(crate) mod limits;
pub(crate) mod member;
pub(crate) mod membership;
pub(crate) mod partition;
pub(crate) mod partition_key;
pub(crate) mod session;
pub(crate) mod session_loop;
pub(crate) mod status;
