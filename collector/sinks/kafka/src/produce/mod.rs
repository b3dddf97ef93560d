//! Messages on their way to a broker.

pub(crate) mod delivery;
pub(crate) mod failure;
pub(crate) mod message;
pub(crate) mod partition_queue;
pub(crate) mod partitions;
pub(crate) mod producer;
pub(crate) mod queue_thread;
