//! When to look: at the directories, by a walk, or at single files that were written.
//!
//! Events say where something is new; a walk of all directories, which finds what no event told,
//! comes every [`WALK_INTERVAL`] besides. Files that may change without an event in their directory
//! (links that are followed, files with several names) and directories at which sources begin are
//! looked at one by one meanwhile.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use millrace_tail::Identity;

use super::source::Source;
use super::walk::{Apart, Look, Walk, identity};
use super::watch::{Watch, watches_max};

/// The longest time between two walks: what raises no event (a network file system, a file that is
/// mounted elsewhere) is found after it. With 11,000 files in as many pods a walk took 0.3 s: 0.005
/// core.
pub(super) const WALK_INTERVAL: Duration = Duration::from_secs(60);

/// How often it is looked whether a source's directory is still the one that was walked.
const ROOTS_INTERVAL: Duration = Duration::from_secs(1);

/// How files are found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finding {
    /// The longest time between two walks.
    pub(super) walk_interval: Duration,
    /// The most directories that are watched.
    pub(super) watches: usize,
}

impl Default for Finding {
    fn default() -> Self {
        Self { walk_interval: WALK_INTERVAL, watches: watches_max() }
    }
}

/// Finds files.
#[derive(Debug)]
pub(super) struct Finder {
    walk: Walk,
    pub(super) watch: Watch,
    walk_interval: Duration,
    /// When all was walked last, whatever was told.
    walked_at: Option<Instant>,
    roots: Vec<Apart>,
    roots_at: Option<Instant>,
    apart: Vec<Apart>,
    /// Whether the last walk could read every directory.
    is_complete: bool,
}

impl Finder {
    pub(super) fn new(finding: Finding) -> Self {
        Self {
            walk: Walk::default(),
            watch: Watch::new(finding.watches),
            walk_interval: finding.walk_interval,
            walked_at: None,
            roots: Vec::new(),
            roots_at: None,
            apart: Vec::new(),
            is_complete: false,
        }
    }

    /// Walks all directories.
    pub(super) fn walk(&mut self, sources: &[Source], now: Instant) -> Look {
        let all = self.is_due(now);
        if all {
            self.walked_at = Some(now);
        }
        self.watch.begin(all);
        let roots = sources.iter().flat_map(|source| &source.roots);
        let roots = roots.map(|root| apart(root.folder.clone()));
        self.roots = roots.collect();
        self.roots_at = Some(now);
        let mut look = self.walk.look(sources, &mut self.watch);
        self.watch.end(all);
        self.is_complete = look.complete;
        self.apart = std::mem::take(&mut look.apart);
        look
    }

    /// The next walk is of all directories, and finds out which of them are to be watched.
    pub(super) fn begin_anew(&mut self) {
        self.walked_at = None;
    }

    /// Says once why something isn't read.
    pub(super) fn name(&mut self, path: &Path, why: &str) {
        self.walk.name(path, why);
    }

    /// Whether all directories are to be walked: something has come, moved or gone; it may have and
    /// nobody would tell; or it is time.
    pub(super) fn needs_walk(&mut self, now: Instant) -> bool {
        self.watch.has_changed()
            || !self.is_complete
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
        let differs = self.roots.iter().any(|root| found(&root.path) != root.file);
        if differs {
            // Below it all may be others under the same names.
            self.walked_at = None;
        }
        differs
    }

    /// Single files to look at: those that were written, and those of which nobody would tell.
    /// None if that takes a walk.
    pub(super) fn files(&mut self, now: Instant) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
        let is_other = |one: &Apart| found(&one.path) != one.file;
        if self.apart.iter().any(is_other) {
            return None;
        }
        let apart = self.apart.iter().filter(|one| one.file.is_some());
        let mut untold: Vec<PathBuf> = apart.map(|one| one.path.clone()).collect();
        for folder in self.watch.take_muted(now) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            untold.extend(entries.map(|entry| entry.path()));
        }
        Some((self.watch.take_written(), untold))
    }
}

fn apart(path: PathBuf) -> Apart {
    Apart { file: found(&path), path }
}

/// The file that a name leads to.
fn found(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|found| identity(&found))
}
