//! How long a watch's notification takes: from the sending of the change to its arrival. Changes
//! are noted by all threads in a table of fixed size, without locks.
//!
//! Limit: a node's latest change counts. Where several changes of one node are under way at once,
//! the time of an earlier one's notification comes out too short.

use std::sync::atomic::{AtomicU64, Ordering};

/// Nodes that can be told apart; two of one slot count as one node. 512 KiB.
const SLOTS: usize = 1 << 16;

/// When each node was last changed, in nanoseconds since the run's start.
#[derive(Debug)]
pub(crate) struct Changes(Box<[AtomicU64]>);

impl Changes {
    pub(crate) fn new() -> Self {
        Self((0..SLOTS).map(|_| AtomicU64::new(0)).collect())
    }

    /// A write to the node is about to be sent.
    pub(crate) fn note(&self, path: &str, now: u64) {
        self.slot(path).store(now, Ordering::Relaxed);
    }

    /// The same of a node that comes or goes, which its parent's watchers hear of too.
    pub(crate) fn note_with_parent(&self, path: &str, now: u64) {
        self.note(path, now);
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.note(parent, now);
        }
    }

    /// How long ago the node was last changed; nothing if this run never did.
    pub(crate) fn age(&self, path: &str, now: u64) -> Option<u64> {
        match self.slot(path).load(Ordering::Relaxed) {
            0 => None,
            at => Some(now.saturating_sub(at)),
        }
    }

    fn slot(&self, path: &str) -> &AtomicU64 {
        // FNV-1a: the paths are the workload's own.
        let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        &self.0[(hash ^ (hash >> 32)) as usize % SLOTS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a node set, a node made, one never touched. Guarantee: the age of the first and of
    /// the second and its parent; none.
    #[test]
    fn a_notification_is_as_old_as_its_change() {
        let changes = Changes::new();
        changes.note("/a/b", 100);
        changes.note_with_parent("/c/d", 200);
        assert_eq!(changes.age("/a/b", 150), Some(50));
        assert_eq!(changes.age("/c/d", 210), Some(10));
        assert_eq!(changes.age("/c", 210), Some(10));
        assert_eq!(changes.age("/a", 210), None);
    }
}
