//! Scans the directories for regular files. Each directory is watched before it is read, so that no
//! file that appears during the scan is missed.

use std::collections::HashSet;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use millrace_tail::{FileObservation, InodeId, PauseSet, Tail, UnlistedPaths};
use rustix::io::Errno;

use super::source::{FileSource, Root};
use super::watch::DirectoryWatcher;

/// The maximum unread paths that are remembered, so that each is logged once: 1,024 of 100 bytes
/// are 0.1 MB.
const REPORTED_MAX: usize = 1024;

/// Scans directories, and remembers what it has logged.
#[derive(Debug, Default)]
pub(crate) struct DirectoryScanner {
    reported: HashSet<PathBuf>,
}

#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    pub(crate) files: Vec<FileObservation>,
    /// The paths that could not be read.
    pub(crate) unlisted: UnlistedPaths,
    /// Files that may change without an event in their directory: followed links, and files with
    /// several names.
    pub(super) polled_files: Vec<ResolvedPath>,
    /// Files that exist and aren't read for now.
    pub(crate) paused: PauseSet,
}

/// The bound on a scan's memory.
pub(crate) struct Capacity<'a> {
    /// Reserves memory for a scan of so many files; false if the budget hasn't enough.
    pub(super) reserve: &'a mut dyn FnMut(usize) -> bool,
    /// Knows the tracked files: those are always listed, or they would count as gone.
    pub(crate) tail: &'a Tail,
    /// The tracked files, loaded once the capacity is exhausted.
    pub(crate) known_files: Option<HashSet<InodeId>>,
}

/// A scan in progress.
struct Scan<'w, 'c> {
    watch: &'w mut DirectoryWatcher,
    capacity: Capacity<'c>,
    result: ScanResult,
}

/// A path and the file to which it led, if any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedPath {
    pub(crate) path: PathBuf,
    pub(crate) file: Option<InodeId>,
}

impl Capacity<'_> {
    /// Whether the scan may list one more file: there is capacity, or the file is known or has a
    /// known path, of which there are few.
    fn admits_file(&mut self, result: &ScanResult, path: &Path, file: InodeId) -> bool {
        let files = result.files.len() + result.polled_files.len() + result.paused.files.len();
        (self.reserve)(files + 1)
            || self.tail.knows_name(path)
            || self.known_files.get_or_insert_with(|| self.tail.tracked_files()).contains(&file)
    }
}

impl DirectoryScanner {
    pub(super) fn scan_sources(
        &mut self,
        sources: &[FileSource],
        watch: &mut DirectoryWatcher,
        capacity: Capacity<'_>,
    ) -> ScanResult {
        let mut scan = Scan { watch, capacity, result: ScanResult::default() };
        for (index, source) in sources.iter().enumerate() {
            if !source.is_known() {
                scan.result.paused.sources.insert(index);
                continue;
            }
            for Root { folder, levels } in &source.roots {
                self.scan_folder((index, source), (folder, *levels), &mut scan);
            }
        }
        let mut result = scan.result;
        result.files.sort_by(|one, other| one.path.cmp(&other.path));
        result
    }

    fn scan_folder(
        &mut self,
        (index, source): (usize, &FileSource),
        (folder, levels): (&Path, usize),
        scan: &mut Scan<'_, '_>,
    ) {
        scan.watch.watch_folder(folder);
        for entry in self.read_folder(folder, &mut scan.result) {
            let Some(entry) = self.checked_entry(folder, entry, &mut scan.result) else { continue };
            let path = entry.path();
            let inside = source.reads_file(&path);
            let kind = match entry.file_type() {
                Ok(kind) => kind,
                Err(error) => {
                    let folder = if inside { folder } else { &path };
                    self.record_fault(&path, folder, &error, &mut scan.result);
                    continue;
                }
            };
            if kind.is_dir() {
                if source.excludes_path(&path) {
                    self.record_paused(source, (&path, levels), scan);
                } else if levels > 0 {
                    self.scan_folder((index, source), (&path, levels - 1), scan);
                } else if inside {
                    self.report_unread(&path, "it is a directory");
                }
                continue;
            }
            // Links to directories are never walked, so there are no cycles.
            let followed = kind.is_symlink() && source.links.are_followed() && inside;
            if !kind.is_file() && !followed {
                if inside && kind.is_symlink() {
                    self.report_unread(&path, &source.links.refusal_reason());
                } else if inside {
                    self.report_unread(&path, "it is not a regular file");
                }
                continue;
            }
            self.scan_file((index, source), path, (inside, followed), scan);
        }
    }

    /// Records a file, or a link that is followed.
    fn scan_file(
        &mut self,
        (index, source): (usize, &FileSource),
        path: PathBuf,
        (inside, followed): (bool, bool),
        scan: &mut Scan<'_, '_>,
    ) {
        let Scan { result, capacity, .. } = scan;
        let found = match followed.then(|| source.links.resolve_link(&path)) {
            None => fs::metadata(&path),
            Some(Ok(Some(target))) => fs::metadata(target),
            Some(Ok(None)) => return self.report_unread(&path, &source.links.refusal_reason()),
            Some(Err(error)) => Err(error),
        };
        let folder = path.parent().unwrap_or(&path);
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                // This comes before the capacity check: a known file that can't be read isn't gone.
                self.record_fault(&path, folder, &error, result);
                if followed && capacity.admits_file(result, &path, InodeId::default()) {
                    result.polled_files.push(ResolvedPath { path, file: None });
                }
                return;
            }
        };
        if !capacity.admits_file(result, &path, identity_of(&found)) {
            return self
                .report_unread(folder, "it has more files below it than a scan has memory for");
        }
        if followed || inside && found.nlink() > 1 {
            result
                .polled_files
                .push(ResolvedPath { path: path.clone(), file: Some(identity_of(&found)) });
        }
        if found.is_file() {
            let is_begun = inside && source.is_recorded(&path);
            result.files.push(observe_file(path, (index, inside, is_begun), &found));
        } else {
            self.report_unread(&path, "it links to something that is not a regular file");
        }
    }

    /// Records why a path can't be read, unless nothing exists there. `folder` is the directory
    /// that contains it, or the path itself if that is a directory.
    fn record_fault(
        &mut self,
        path: &Path,
        folder: &Path,
        error: &io::Error,
        result: &mut ScanResult,
    ) {
        match PathFault::from_error(error, || folder == path || is_stale(folder)) {
            PathFault::Missing => return,
            PathFault::LeadsNowhere | PathFault::Denied => {}
            PathFault::Unreadable => result.unlisted.insert(path),
            PathFault::ProcessLimit => result.unlisted = UnlistedPaths::with_everything(),
        }
        self.report_unread(path, &error.to_string());
    }

    /// Iterates over a directory's entries: it may have a million files. Empty if the directory
    /// doesn't exist.
    fn read_folder(
        &mut self,
        folder: &Path,
        result: &mut ScanResult,
    ) -> impl Iterator<Item = io::Result<DirEntry>> + use<> {
        let entries = fs::read_dir(folder).map_err(|error| {
            self.record_fault(folder, folder, &error, result);
        });
        entries.into_iter().flatten()
    }

    fn checked_entry(
        &mut self,
        folder: &Path,
        entry: io::Result<DirEntry>,
        result: &mut ScanResult,
    ) -> Option<DirEntry> {
        entry.map_err(|error| self.record_fault(folder, folder, &error, result)).ok()
    }

    /// Records the files of a pod that isn't read for now as existing. Its directories aren't
    /// watched.
    fn record_paused(
        &mut self,
        source: &FileSource,
        (folder, levels): (&Path, usize),
        scan: &mut Scan<'_, '_>,
    ) {
        for entry in self.read_folder(folder, &mut scan.result) {
            let Some(entry) = self.checked_entry(folder, entry, &mut scan.result) else { continue };
            let found = match entry.metadata() {
                Ok(found) if found.is_symlink() && source.links.are_followed() => {
                    match source.links.resolve_link(&entry.path()) {
                        Ok(Some(target)) => fs::metadata(target),
                        Ok(None) => continue,
                        Err(error) => Err(error),
                    }
                }
                found => found,
            };
            let Scan { result, capacity, .. } = scan;
            match found {
                Ok(found) if found.is_file() => {
                    if capacity.admits_file(result, &entry.path(), identity_of(&found)) {
                        result.paused.files.insert(identity_of(&found));
                    }
                }
                Ok(found) if found.is_dir() && levels > 1 => {
                    self.record_paused(source, (&entry.path(), levels - 1), scan);
                }
                Ok(_) => {}
                Err(error) => self.record_fault(&entry.path(), folder, &error, result),
            }
        }
    }

    /// Logs once why a path isn't read.
    pub(crate) fn report_unread(&mut self, path: &Path, why: &str) {
        if self.reported.len() < REPORTED_MAX && self.reported.insert(path.to_owned()) {
            tracing::warn!(path = %path.display(), why, "a path is not read");
        }
    }
}

/// What an error of a call that names a path means for that path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathFault {
    /// The path does not exist.
    Missing,
    /// A link to itself, a file where a directory should be, a file that its server no longer has.
    /// It is reported, and no file exists there.
    LeadsNowhere,
    /// The process lacks permission. This doesn't change, and hides no file that is read.
    Denied,
    /// Files may exist there.
    Unreadable,
    /// The process lacks a resource that the call needs: the state of every path is unknown.
    ProcessLimit,
}

impl PathFault {
    /// `is_stale_folder` returns whether the server lost the directory, not the file alone: then
    /// its files may exist, and are found once it is mounted again.
    pub(super) fn from_error(error: &io::Error, is_stale_folder: impl FnOnce() -> bool) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::NOENT) => Self::Missing,
            Some(Errno::STALE) if is_stale_folder() => Self::Unreadable,
            Some(Errno::LOOP | Errno::NOTDIR | Errno::STALE) => Self::LeadsNowhere,
            Some(Errno::ACCESS | Errno::PERM) => Self::Denied,
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::INTR | Errno::AGAIN) => {
                Self::ProcessLimit
            }
            _ => Self::Unreadable,
        }
    }
}

/// Whether a directory's server no longer knows it.
fn is_stale(folder: &Path) -> bool {
    let error = fs::metadata(folder).err();
    error.is_some_and(|error| Errno::from_io_error(&error) == Some(Errno::STALE))
}

/// Returns the device and inode.
pub(crate) fn identity_of(found: &Metadata) -> InodeId {
    (found.dev(), found.ino())
}

/// Returns the size and the modification time in nanoseconds.
pub(crate) fn stamps_of(found: &Metadata) -> (u64, u64) {
    let seconds = u64::try_from(found.mtime()).unwrap_or_default();
    let nanos = u64::try_from(found.mtime_nsec()).unwrap_or_default();
    (found.size(), seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}

fn observe_file(
    path: PathBuf,
    (source, inside, is_begun): (usize, bool, bool),
    found: &Metadata,
) -> FileObservation {
    let ((device, inode), (size, modified)) = (identity_of(found), stamps_of(found));
    FileObservation { path: path.into(), source, inside, is_begun, device, inode, size, modified }
}

#[cfg(test)]
mod tests;
