//! The commit that a partition's ledger wants.

use crate::intent::Promises;
use crate::range::Generation;

/// A commit to request from the broker. The caller reports its result to
/// [`crate::Ledger::commit_answered`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit<K> {
    /// The partition.
    pub key: K,
    /// The assignment it belongs to.
    pub generation: Generation,
    /// The offset from which a restart would read.
    pub offset: i64,
    /// What was already cut or divided from there on. [`crate::encode`] writes it into the commit's
    /// metadata.
    pub promises: Promises,
}
