//! Decides when to scan: all directories, by a walk, or single files that were written.
//!
//! Events report which paths changed. A walk of all directories also runs every [`WALK_INTERVAL`]
//! and finds changes without events. In between, files that may change without an event in their
//! directory (followed links, files with several names) and the directories at which sources begin
//! are polled one by one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millrace_tail::{InodeId, Tail};

use super::source::FileSource;
use super::walk::{Capacity, DirectoryScanner, PathFault, ResolvedPath, ScanResult, identity_of};
use super::watch::{DirectoryWatcher, watches_max};
use crate::KNOWN_FILES_MAX;

/// The longest time between two walks, after which changes without events (a network file system, a
/// file that is mounted elsewhere) are found. With 11,000 files in as many pods a walk took 0.3 s:
/// 0.005 core.
pub(super) const WALK_INTERVAL: Duration = Duration::from_secs(60);

/// How often the finder checks that a source's directory is still the one that was walked.
const ROOTS_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum files that a scan lists, twice as many as may be known.
pub(crate) const SCAN_FILES_MAX: usize = 2 * KNOWN_FILES_MAX;

#[derive(Debug, Clone, Copy)]
pub(crate) struct FinderSettings {
    /// The longest time between two walks.
    pub(crate) walk_interval: Duration,
    /// The maximum number of watched directories.
    pub(crate) watches: usize,
    /// The maximum files that a scan lists, excluding known ones.
    pub(crate) files: usize,
}

impl Default for FinderSettings {
    fn default() -> Self {
        Self { walk_interval: WALK_INTERVAL, watches: watches_max(), files: SCAN_FILES_MAX }
    }
}

#[derive(Debug)]
pub(crate) struct Finder {
    walk: DirectoryScanner,
    pub(crate) watch: DirectoryWatcher,
    walk_interval: Duration,
    files_max: usize,
    /// When all directories were last walked regardless of events.
    walked_at: Option<Instant>,
    roots: Vec<ResolvedPath>,
    roots_at: Option<Instant>,
    polled_files: Vec<ResolvedPath>,
}

impl Finder {
    pub(crate) fn new(finding: FinderSettings) -> Self {
        Self {
            walk: DirectoryScanner::default(),
            watch: DirectoryWatcher::new(finding.watches),
            walk_interval: finding.walk_interval,
            files_max: finding.files,
            walked_at: None,
            roots: Vec::new(),
            roots_at: None,
            polled_files: Vec::new(),
        }
    }

    /// Walks all directories. `reserve` reserves memory of the byte budget for a number of files.
    pub(crate) fn walk_all(
        &mut self,
        sources: &[FileSource],
        tail: &Tail,
        mut reserve: impl FnMut(usize) -> bool,
        now: Instant,
    ) -> ScanResult {
        let all = self.is_due(now);
        if all {
            self.walked_at = Some(now);
        }
        self.watch.begin_walk(all);
        let roots = sources.iter().flat_map(|source| &source.roots);
        self.roots = roots.filter_map(|root| checked_root(&root.folder)).collect();
        self.roots_at = Some(now);
        let mut reserve = |files: usize| files <= self.files_max && reserve(files);
        let capacity = Capacity { reserve: &mut reserve, tail, known_files: None };
        let mut result = self.walk.scan_sources(sources, &mut self.watch, capacity);
        self.watch.end_walk(all);
        self.polled_files = std::mem::take(&mut result.polled_files);
        result
    }

    /// Makes the next walk a full one, which also renews the watches.
    pub(crate) fn force_full_walk(&mut self) {
        self.walked_at = None;
    }

    /// Logs once why a path isn't read.
    pub(crate) fn report_unread(&mut self, path: &Path, why: &str) {
        self.walk.report_unread(path, why);
    }

    /// Whether all directories must be walked: an entry appeared, moved or went, may have done so
    /// without an event, or the interval has passed.
    pub(crate) fn needs_walk(&mut self, now: Instant) -> bool {
        self.watch.has_changed()
            || self.watch.unwatched() > 0
            || self.is_due(now)
            || self.has_other_roots(now)
    }

    fn is_due(&self, now: Instant) -> bool {
        self.watch.has_lost()
            || self.walked_at.is_none_or(|at| now.duration_since(at) >= self.walk_interval)
    }

    fn has_other_roots(&mut self, now: Instant) -> bool {
        if self.roots_at.is_some_and(|at| now.duration_since(at) < ROOTS_INTERVAL) {
            return false;
        }
        self.roots_at = Some(now);
        let differs = self.roots.iter().any(|root| file_at(&root.path) != root.file);
        if differs {
            // All paths below it may now lead to other files.
            self.walked_at = None;
        }
        differs
    }

    /// Returns the single files to check: those with write events, and those without events. None
    /// if a walk is needed instead.
    pub(crate) fn files_to_check(&mut self, now: Instant) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
        let is_other = |one: &ResolvedPath| file_at(&one.path) != one.file;
        if self.polled_files.iter().any(is_other) {
            return None;
        }
        let single_files = self.polled_files.iter().filter(|one| one.file.is_some());
        let mut unreported: Vec<PathBuf> = single_files.map(|one| one.path.clone()).collect();
        for folder in self.watch.take_muted(now) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            unreported.extend(entries.map(|entry| entry.path()).take(self.files_max));
            if unreported.len() >= self.files_max {
                return None;
            }
        }
        Some((self.watch.take_written(), unreported))
    }
}

/// Resolves a directory at which a source begins, to be checked between walks. None if a call that
/// names it fails: the next walk tries it again, since polling it could fail or hang each second.
fn checked_root(folder: &Path) -> Option<ResolvedPath> {
    let file = match fs::metadata(folder) {
        Ok(found) => Some(identity_of(&found)),
        Err(error) => match PathFault::from_error(&error, || true) {
            PathFault::Missing | PathFault::LeadsNowhere => None,
            _ => return None,
        },
    };
    Some(ResolvedPath { path: folder.to_owned(), file })
}

/// The file to which a path leads.
fn file_at(path: &Path) -> Option<InodeId> {
    fs::metadata(path).ok().map(|found| identity_of(&found))
}
