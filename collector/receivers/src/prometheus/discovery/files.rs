//! Lists of targets in files: which files there are, which of them changed, what they say.
//!
//! A file is read when its time, length or inode is another one; a ConfigMap's link to a new folder
//! is seen by that. A file that is gone takes its targets with it. One that is there and can't be
//! read, or whose list is broken, keeps the last good list's: it is tried again when it changes, or
//! at the next look if it couldn't be opened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{TARGET_LIST_BYTES_MAX, TargetGroup};
use millrace_pipeline::scrape_metrics::ScrapeMetrics;
use tokio::sync::mpsc::Sender;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::super::rules::RuledJob;
use super::{FILE_LABEL, Listed, News, ReadError, Update};
use crate::clock::now_unix_nanos;
use crate::prometheus::board::{ListView, shown};

/// Most files of a job. With 2 MiB each, more could not have all their targets scraped.
pub(crate) const FILES_MAX: usize = 256;

/// Most names of a folder that are compared with a pattern.
const NAMES_MAX: usize = 100_000;

/// How often files are looked at: a look takes a call for each file.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

const NANOS_PER_MILLI: u64 = 1_000_000;

/// What changes with a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: (i64, i64),
    bytes: u64,
    inode: (u64, u64),
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Self {
        Self {
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            bytes: metadata.len(),
            inode: (metadata.dev(), metadata.ino()),
        }
    }
}

/// A file, as it was read.
#[derive(Debug, Default)]
struct Known {
    /// None where it couldn't be opened.
    stamp: Option<Stamp>,
    listed: Listed,
    read_unix_millis: u64,
    error: String,
}

/// The files of a job.
#[derive(Debug)]
pub(crate) struct Files {
    job: (usize, Arc<RuledJob>),
    known: BTreeMap<PathBuf, Known>,
    /// Of folders, and of too many files.
    errors: BTreeMap<String, String>,
    metrics: ScrapeMetrics,
}

impl Files {
    pub(crate) fn new(job: (usize, Arc<RuledJob>), metrics: ScrapeMetrics) -> Self {
        Self { job, known: BTreeMap::new(), errors: BTreeMap::new(), metrics }
    }

    /// Looks at the files again and again, and tells what changed.
    pub(crate) async fn run(mut self, source: usize, updates: Sender<News>) {
        loop {
            let looked = spawn_blocking(move || {
                let has_changed = self.look();
                (self, has_changed)
            });
            let Ok((this, has_changed)) = looked.await else { return };
            self = this;
            if has_changed {
                let (listed, lists) = self.all();
                if updates.send(News::Listed(Update { source, listed, lists })).await.is_err() {
                    return;
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Looks at all files once. Whether anything is to be told.
    pub(crate) fn look(&mut self) -> bool {
        let mut has_changed = false;
        let mut found = Vec::new();
        let job = Arc::clone(&self.job.1);
        for pattern in &job.files {
            let error = match matching(pattern, &mut found) {
                Ok(()) => String::new(),
                Err(error) => {
                    // What was known of its files stays.
                    let kept = self.known.keys().filter(|path| fits(pattern, path));
                    found.extend(kept.cloned());
                    shown(error)
                }
            };
            has_changed |= self.note(pattern, error);
        }
        found.sort();
        found.dedup();
        let count = found.len();
        found.truncate(FILES_MAX);
        let error = match count > FILES_MAX {
            true => ReadError::TooMany(FILES_MAX).to_string(),
            false => String::new(),
        };
        has_changed |= self.note("files", error);
        let before = self.known.len();
        self.known.retain(|path, _| found.binary_search(path).is_ok());
        has_changed |= self.known.len() < before;
        for path in found {
            has_changed |= self.see(path);
        }
        has_changed
    }

    /// Notes what is wrong with a pattern. Whether that is another thing than before.
    fn note(&mut self, pattern: &str, error: String) -> bool {
        if error.is_empty() {
            return self.errors.remove(pattern).is_some();
        }
        self.metrics.list_failures.inc();
        if self.errors.get(pattern) == Some(&error) {
            return false;
        }
        tracing::warn!(pattern, error, "files of targets can't be looked for; the last ones stay");
        self.errors.insert(pattern.to_owned(), error);
        true
    }

    /// Reads a file if it has changed. Whether it has, or can't be read any more.
    fn see(&mut self, path: PathBuf) -> bool {
        let stamp = fs::metadata(&path).map(|metadata| Stamp::of(&metadata));
        let known = self.known.get(&path);
        match (&stamp, known) {
            (Ok(stamp), Some(known)) if known.stamp == Some(*stamp) => return false,
            // It went between the look into its folder and now.
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
                groups
                    .map(|groups| Listed::new(job, &BTreeMap::new(), &groups, (FILE_LABEL, &name))),
            )
        });
        let known = self.known.entry(path).or_default();
        let error = match read {
            Ok((stamp, Ok(listed))) => {
                self.metrics.list_reads.inc();
                if !known.error.is_empty() {
                    tracing::info!(file = name, "a list of targets is read again");
                }
                let read_unix_millis = now_unix_nanos() / NANOS_PER_MILLI;
                let stamp = Some(stamp);
                *known = Known { stamp, listed, read_unix_millis, error: String::new() };
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
        let error = shown(error);
        if known.error == error {
            return false;
        }
        tracing::warn!(file = name, error, "a list of targets can't be read; the last one stays");
        known.error = error;
        true
    }

    /// All targets, and what is to be shown of each file.
    pub(crate) fn all(&self) -> (Listed, Vec<ListView>) {
        let (mut all, mut lists) = (Listed::default(), Vec::new());
        let job = &self.job.1.name;
        let of = |source: String, error: &String| ListView {
            job: job.clone(),
            source,
            error: error.clone(),
            ..ListView::default()
        };
        lists.extend(self.errors.iter().map(|(pattern, error)| of(pattern.clone(), error)));
        for (path, known) in &self.known {
            all.add(&known.listed);
            let view = of(path.to_string_lossy().into_owned(), &known.error);
            let targets = known.listed.targets.len() as u64;
            lists.push(ListView { read_unix_millis: known.read_unix_millis, targets, ..view });
        }
        (all, lists)
    }
}

/// Adds the files that a pattern matches. None is no fault, nor a folder that isn't there.
fn matching(pattern: &str, found: &mut Vec<PathBuf>) -> Result<(), ReadError> {
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
        if fits(pattern, &path) && found.len() <= FILES_MAX {
            found.push(path);
        }
    }
    Ok(())
}

/// Whether a path is one that a pattern means: it has one `*` at most, behind the last `/`.
fn fits(pattern: &str, path: &Path) -> bool {
    let pattern = Path::new(pattern);
    let names = (pattern.file_name().and_then(|it| it.to_str()), path.file_name());
    let (Some(wanted), Some(name)) = (names.0, names.1.and_then(|it| it.to_str())) else {
        return false;
    };
    let is_name = match wanted.split_once('*') {
        Some((start, end)) => {
            // As a shell has it, a star doesn't stand for the dot of a hidden file.
            let is_hidden = name.starts_with('.') && !start.starts_with('.');
            let is_long = name.len() >= start.len() + end.len();
            is_long && !is_hidden && name.starts_with(start) && name.ends_with(end)
        }
        None => wanted == name,
    };
    is_name && pattern.parent() == path.parent()
}

type Found = (Stamp, Result<Vec<TargetGroup>, ReadError>);

/// A file's list, or what is wrong with it, with what the file was when that was read.
fn read(path: &Path) -> Result<Found, ReadError> {
    // Before it is opened: a pipe would wait for its writer.
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::from(ErrorKind::InvalidInput).into());
    }
    let file = File::open(path)?;
    let stamp = Stamp::of(&file.metadata()?);
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
#[path = "../../../tests/unit/prometheus/files.rs"]
mod tests;
