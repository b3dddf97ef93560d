//! The key of a partition.

/// A partition's key inside a worker: the topic's index in the settings, and its number. It is
/// small, because it is compared and copied for every message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartitionKey {
    pub(crate) topic: u16,
    pub(crate) partition: i32,
}
