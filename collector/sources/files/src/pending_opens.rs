//! Files that should be open and aren't.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millrace_tail::InodeId;

/// A file to open. A rotated file waits if it may be a copy of a file that was written since it was
/// last read: reading that file shows which text the copy has. If waiting files were opened only at
/// scans, a log that is always written would delay them forever.
pub(super) struct PendingOpen {
    pub(super) file: InodeId,
    pub(super) path: Arc<Path>,
    pub(super) source: usize,
    pub(super) packed: bool,
}

/// Files that should be open and aren't, since the last walk.
pub(super) struct PendingOpens {
    /// Files to open once others are read.
    pub(super) waiting: Vec<PendingOpen>,
    pub(super) waited_at: Instant,
    /// Files that can't be opened.
    pub(super) denied: HashSet<InodeId>,
}

impl PendingOpens {
    pub(super) fn new(now: Instant) -> Self {
        Self { waiting: Vec::new(), waited_at: now, denied: HashSet::new() }
    }

    pub(super) fn denied(&self) -> &HashSet<InodeId> {
        &self.denied
    }

    /// Clears the failed files as a walk begins, which tries them again.
    pub(super) fn clear_denied(&mut self) {
        self.denied.clear();
    }

    /// Clears the waiting files as a walk ends, which lists again what to open.
    pub(super) fn clear_waiting(&mut self) {
        self.waiting.clear();
    }
}
