//! The files and sources that are paused.

use std::collections::{BTreeSet, HashSet};

use crate::scan::inode::InodeId;
use crate::text::FileText;

/// The paused files and sources.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PauseSet {
    /// Files that exist and have no name that is read now.
    pub files: HashSet<InodeId>,
    /// Indices of sources whose first scan is still to come.
    pub sources: BTreeSet<usize>,
}

impl PauseSet {
    /// Whether a text without a file is paused.
    pub(crate) fn has_text(&self, text: &FileText) -> bool {
        self.files.contains(&text.last_file) || self.sources.contains(&text.source)
    }
}
