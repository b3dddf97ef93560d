//! Files that should be open and aren't.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millrace_tail::InodeId;

/// A file to open. A rotated file waits if it may be a copy of a file that was written since it was
/// last read: reading that file shows which text the copy has. If waiting files were opened only at
/// scans, a log that is always written would delay them forever.
pub(crate) struct PendingOpen {
    pub(crate) file: InodeId,
    pub(crate) path: Arc<Path>,
    pub(crate) source: usize,
    pub(crate) packed: bool,
}

/// Files that should be open and aren't, since the last walk.
pub(crate) struct PendingOpens {
    /// Files to open once others are read.
    pub(crate) waiting: Vec<PendingOpen>,
    pub(super) waited_at: Instant,
    /// Files that can't be opened.
    pub(crate) denied: HashSet<InodeId>,
}

impl PendingOpens {
    pub(crate) fn new(now: Instant) -> Self {
        Self { waiting: Vec::new(), waited_at: now, denied: HashSet::new() }
    }

    pub(crate) fn denied(&self) -> &HashSet<InodeId> {
        &self.denied
    }

    /// Clears the failed files as a walk begins, which tries them again.
    pub(crate) fn clear_denied(&mut self) {
        self.denied.clear();
    }

    /// Clears the waiting files as a walk ends, which lists again what to open.
    pub(crate) fn clear_waiting(&mut self) {
        self.waiting.clear();
    }
}
