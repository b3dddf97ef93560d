//! Reads lists of targets from files: finds the files, detects changes, and parses them.
//!
//! A file is read when its time, length or inode differs; this also detects a ConfigMap's link to a
//! new folder. Removing a file removes its targets. A file that can't be read, or whose list is
//! invalid, leaves the last good list in use: it is read again when it changes, or at the next
//! check if it couldn't be opened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::metrics::ScrapeMetrics;
use millrace_config::{TARGET_LIST_BYTES_MAX, TargetGroup};
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::super::rules::RuledJob;
use super::{FILE_LABEL, ReadError, SourceUpdate, TargetList, TargetUpdate};
use crate::target_status::{ListView, truncate_error};
use millrace_pipeline::clock::now_unix_nanos;

/// The most files of a job. With 2 MiB each, the targets of more could not all be scraped.
pub(crate) const FILES_MAX: usize = 256;

/// The most names of a folder that are compared with a pattern.
const NAMES_MAX: usize = 100_000;

/// The time between two checks: a check takes a system call per file.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The metadata that changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    bytes: u64,
    inode: (u64, u64),
}

impl Stamp {
    fn from_metadata(metadata: &fs::Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

/// A file's list and the state of its last read.
#[derive(Debug, Default)]
struct KnownFile {
    /// `None` if the file couldn't be opened.
    stamp: Option<Stamp>,
    listed: TargetList,
    read_unix_millis: u64,
    error: String,
}

/// The files of a job.
#[derive(Debug)]
pub(crate) struct TargetFiles {
    job: (usize, Arc<RuledJob>),
    known: BTreeMap<PathBuf, KnownFile>,
    /// Faults of folders and of the number of files, by pattern.
    errors: BTreeMap<String, String>,
    metrics: ScrapeMetrics,
}

impl TargetFiles {
    pub(crate) fn new(job: (usize, Arc<RuledJob>), metrics: ScrapeMetrics) -> Self {
        Self { job, known: BTreeMap::new(), errors: BTreeMap::new(), metrics }
    }

    /// Checks the files repeatedly, and sends changed targets.
    pub(crate) async fn run(mut self, source: usize, updates: Sender<TargetUpdate>) {
        loop {
            let read = spawn_blocking(move || {
                let has_changed = self.check_files();
                (self, has_changed)
            });
            let Ok((this, has_changed)) = read.await else { return };
            self = this;
            if has_changed {
                let (listed, lists) = self.all_targets();
                if updates
                    .send(TargetUpdate::Targets(SourceUpdate { source, listed, lists }))
                    .await
                    .is_err()
                {
                    return;
                }
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Checks all files once. Returns whether the targets or a fault changed.
    pub(crate) fn check_files(&mut self) -> bool {
        let mut has_changed = false;
        let mut found = Vec::new();
        let job = Arc::clone(&self.job.1);
        for pattern in &job.files {
            let error = match find_matching(pattern, &mut found) {
                Ok(()) => String::new(),
                Err(error) => {
                    // The files that this pattern matched before remain.
                    let retained = self.known.keys().filter(|path| matches_pattern(pattern, path));
                    found.extend(retained.cloned());
                    truncate_error(error)
                }
            };
            has_changed |= self.record_error(pattern, error);
        }
        found.sort();
        found.dedup();
        let count = found.len();
        found.truncate(FILES_MAX);
        let error = match count > FILES_MAX {
            true => ReadError::TooMany(FILES_MAX).to_string(),
            false => String::new(),
        };
        has_changed |= self.record_error("files", error);
        let before = self.known.len();
        self.known.retain(|path, _| found.binary_search(path).is_ok());
        has_changed |= self.known.len() < before;
        for path in found {
            has_changed |= self.update_file(path);
        }
        has_changed
    }

    /// Records a pattern's fault, or its end. Returns whether the fault changed.
    fn record_error(&mut self, pattern: &str, error: String) -> bool {
        if error.is_empty() {
            return self.errors.remove(pattern).is_some();
        }
        self.metrics.list_failures.inc();
        if self.errors.get(pattern) == Some(&error) {
            return false;
        }
        tracing::warn!(
            pattern,
            error,
            "cannot search for target files; the last lists stay in use"
        );
        self.errors.insert(pattern.to_owned(), error);
        true
    }

    /// Reads a file if it has changed. Returns whether its targets or its fault changed.
    fn update_file(&mut self, path: PathBuf) -> bool {
        let stamp = fs::metadata(&path).map(|metadata| Stamp::from_metadata(&metadata));
        let known = self.known.get(&path);
        match (&stamp, known) {
            (Ok(stamp), Some(known)) if known.stamp == Some(*stamp) => return false,
            // The file was removed after its folder was listed.
            (Err(error), _) if error.kind() == ErrorKind::NotFound => {
                return self.known.remove(&path).is_some();
            }
            _ => {}
        }
        let name = path.to_string_lossy().into_owned();
        let read = read(&path).map(|(stamp, groups)| {
            let job = (self.job.0, &*self.job.1);
            (
                stamp,
                groups.map(|groups| {
                    TargetList::new(job, &BTreeMap::new(), &groups, (FILE_LABEL, &name))
                }),
            )
        });
        let known = self.known.entry(path).or_default();
        let error = match read {
            Ok((stamp, Ok(listed))) => {
                self.metrics.list_reads.inc();
                if !known.error.is_empty() {
                    tracing::info!(file = name, "a target list is readable again");
                }
                let read_unix_millis = now_unix_nanos() / NANOS_PER_MILLI;
                let stamp = Some(stamp);
                *known = KnownFile { stamp, listed, read_unix_millis, error: String::new() };
                return true;
            }
            Ok((stamp, Err(error))) => {
                known.stamp = Some(stamp);
                error
            }
            Err(error) => {
                known.stamp = None;
                error
            }
        };
        self.metrics.list_failures.inc();
        let error = truncate_error(error);
        if known.error == error {
            return false;
        }
        tracing::warn!(
            file = name,
            error,
            "cannot read a target list; its last version stays in use"
        );
        known.error = error;
        true
    }

    /// Returns all targets, and the view of each file.
    pub(crate) fn all_targets(&self) -> (TargetList, Vec<ListView>) {
        let (mut all, mut lists) = (TargetList::default(), Vec::new());
        let job = &self.job.1.name;
        let of = |source: String, error: &String| ListView {
            job: job.clone(),
            source,
            error: error.clone(),
            ..ListView::default()
        };
        lists.extend(self.errors.iter().map(|(pattern, error)| of(pattern.clone(), error)));
        for (path, known) in &self.known {
            all.add_list(&known.listed);
            let view = of(path.to_string_lossy().into_owned(), &known.error);
            let targets = known.listed.targets.len() as u64;
            lists.push(ListView { read_unix_millis: known.read_unix_millis, targets, ..view });
        }
        (all, lists)
    }
}

/// Adds the files that a pattern matches. No match and a missing folder are no faults.
fn find_matching(pattern: &str, found: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    if !pattern.contains('*') {
        match fs::metadata(pattern) {
            Ok(_) => found.push(pattern.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
        return Ok(());
    }
    let folder = Path::new(pattern).parent().unwrap_or(Path::new("/"));
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for entry in entries.take(NAMES_MAX) {
        let path = entry?.path();
        if matches_pattern(pattern, &path) && found.len() <= FILES_MAX {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a pattern matches a path. A pattern has one `*` at most, after the last `/`.
fn matches_pattern(pattern: &str, path: &Path) -> bool {
    let pattern = Path::new(pattern);
    let names = (pattern.file_name().and_then(|it| it.to_str()), path.file_name());
    let (Some(expected), Some(name)) = (names.0, names.1.and_then(|it| it.to_str())) else {
        return false;
    };
    let is_name = match expected.split_once('*') {
        Some((start, end)) => {
            // As in a shell, a star doesn't match the dot of a hidden file.
            let is_hidden = name.starts_with('.') && !start.starts_with('.');
            let is_long = name.len() >= start.len() + end.len();
            is_long && !is_hidden && name.starts_with(start) && name.ends_with(end)
        }
        None => expected == name,
    };
    is_name && pattern.parent() == path.parent()
}

type FileRead = (Stamp, Result<Vec<TargetGroup>, ReadError>);

/// Reads a file's list, and returns it or its fault with the metadata of the file that was read.
fn read(path: &Path) -> Result<FileRead, ReadError> {
    // Checked before opening: opening a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::from(ErrorKind::InvalidInput).into());
    }
    let file = File::open(path)?;
    let stamp = Stamp::from_metadata(&file.metadata()?);
    let mut bytes = Vec::new();
    file.take(TARGET_LIST_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > TARGET_LIST_BYTES_MAX {
        return Ok((stamp, Err(ReadError::TooLong(TARGET_LIST_BYTES_MAX))));
    }
    let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
    let groups = match is_json {
        true => TargetGroup::of_json(&bytes),
        false => TargetGroup::of_yaml(&bytes),
    };
    Ok((stamp, groups.map_err(Into::into)))
}

#[cfg(test)]
mod tests;
