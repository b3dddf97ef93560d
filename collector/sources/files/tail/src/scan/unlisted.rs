//! Holds paths that a scan couldn't list: files there may exist, whether they were found or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::text::FileText;

/// The maximum paths of one scan that are remembered, 64 of 100 bytes are 6 KiB. Beyond them their
/// directories are remembered instead.
const PATHS_MAX: usize = 64;

/// Files and directories that could not be read in a scan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnlistedPaths(BTreeSet<PathBuf>);

impl UnlistedPaths {
    /// The state of every file is unknown: the fault was the process's, not a path's.
    #[must_use]
    pub fn with_everything() -> Self {
        // Every path begins with the empty one.
        Self(BTreeSet::from([PathBuf::new()]))
    }

    /// Adds a file, or a directory with everything below it.
    pub fn insert(&mut self, path: &Path) {
        if self.covers_path(path) {
            return;
        }
        self.insert_pruned(path.to_owned());
        while self.0.len() > PATHS_MAX {
            let Some(folder) = self.fullest_folder() else { return };
            self.insert_pruned(folder);
        }
    }

    fn insert_pruned(&mut self, path: PathBuf) {
        self.0.retain(|it| !it.starts_with(&path));
        self.0.insert(path);
    }

    /// The directory that directly contains the most of these paths, the deepest of several.
    fn fullest_folder(&self) -> Option<PathBuf> {
        let mut folders: BTreeMap<&Path, usize> = BTreeMap::new();
        for folder in self.0.iter().filter_map(|path| path.parent()) {
            *folders.entry(folder).or_default() += 1;
        }
        let depth = |folder: &Path| folder.components().count();
        let fullest = folders.into_iter().max_by_key(|(folder, paths)| (*paths, depth(folder)));
        fullest.map(|(folder, _)| folder.to_owned())
    }

    /// Whether the scan was complete.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the state of every file is unknown.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.first().is_some_and(|path| path.as_os_str().is_empty())
    }

    /// Whether a file of this name may exist although it wasn't found.
    pub(crate) fn covers_path(&self, path: &Path) -> bool {
        self.is_everything() || path.ancestors().any(|it| self.0.contains(it))
    }

    /// Whether a file that wasn't found may have this text.
    pub(crate) fn covers_text(&self, text: &FileText) -> bool {
        self.covers_path(&text.path) || self.covers_path(&text.base)
    }

    /// Whether files next to this one may exist that weren't found.
    pub(crate) fn is_near(&self, path: &Path) -> bool {
        self.covers_path(path) || self.0.iter().any(|it| it.parent() == path.parent())
    }
}
