//! Describes a file as observed by scans: name, size, modification time, and the text that it is
//! believed to have.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use crate::scan::names::is_packed;

/// A text's number in this process, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u64);

/// Device and inode.
pub type InodeId = (u64, u64);

/// A regular file that a scan found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileObservation {
    /// Its name.
    pub path: Arc<Path>,
    /// The index of the source that reads its directory.
    pub source: usize,
    /// Whether the source reads files of this name. Other names may come from rotation.
    pub inside: bool,
    /// Whether a name of the source that reads this file was on record at the start: if the file
    /// isn't known, it is new.
    pub is_begun: bool,
    /// The device that contains it.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its size in bytes.
    pub size: u64,
    /// The modification time in nanoseconds, which grows when it is written.
    pub modified: u64,
}

impl FileObservation {
    pub(crate) fn file_identity(&self) -> InodeId {
        (self.device, self.inode)
    }

    /// Whether it is read as a compressed file.
    pub(crate) fn is_packed(&self) -> bool {
        !self.inside && is_packed(&self.path)
    }

    pub(crate) fn size_and_stamp(&self) -> (u64, u64) {
        (self.size, self.modified)
    }
}

/// What a scan showed of a file that is irrelevant: one with the same is irrelevant still. Its name
/// counts, since compression writes a file under a name that isn't read and renames it once it is
/// complete, which changes neither its size nor its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PassedFile {
    /// Size and modification time.
    pub(crate) stamps: (u64, u64),
    /// A hash of the name: thousands of these are retained.
    name: u64,
}

impl PassedFile {
    pub(crate) fn of_observation(observation: &FileObservation) -> Self {
        let mut hasher = DefaultHasher::new();
        observation.path.hash(&mut hasher);
        Self { stamps: observation.size_and_stamp(), name: hasher.finish() }
    }
}

/// Whether a file's text is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Identification {
    /// Any text may be in it: it must be opened.
    Doubtful,
    /// A compressed file that can't be read until it changes.
    Torn,
    /// Nothing has changed since it was opened.
    Identified,
}

/// A file with a known text, or one that may have to be read.
#[derive(Debug)]
pub(crate) struct Inode {
    pub(crate) observed: FileObservation,
    /// The name that is read from which its own name derives.
    pub(crate) base: Option<Arc<Path>>,
    /// The text found in it.
    pub(crate) text: Option<FileId>,
    /// Texts that it had before it was gone, or by the recorded positions.
    pub(crate) claims: Vec<FileId>,
    pub(crate) view: Identification,
    /// It changed in the last scan.
    pub(crate) changed: bool,
    /// It changed in one of the last two scans. Modification times are as coarse as the system's
    /// tick: a further write may not show, so the next scan checks again.
    pub(crate) check: bool,
    /// It is younger than the stamp of its name: it is read if its text isn't known.
    pub(crate) young: bool,
    /// The source and name under which it was observed and is read, since it was identified: its
    /// text must be read under any other name too.
    pub(crate) called: Option<(usize, Arc<Path>)>,
    /// It is open, changed or gone, and not read since: it may have another text.
    pub(crate) unread: bool,
    /// Its text was found since the last scan began. That scan may have missed older files of the
    /// name, if a listed file was rotated before the scan reached it.
    pub(crate) found_since_scan: bool,
    /// It existed at its source's first start and isn't identified yet. Older files are irrelevant.
    pub(crate) at_first_start: bool,
    /// Its end, if its first read begins there.
    pub(crate) at_end: Option<u64>,
    /// Whether the last scan found it. An open file without a name is retained.
    pub(crate) present: bool,
    /// Whether the last scan listed it. A file that couldn't be listed remains present, and isn't
    /// opened.
    pub(crate) listed: bool,
}

impl Inode {
    /// Whether it may still have this text.
    pub(crate) fn may_have(&self, id: FileId) -> bool {
        self.text == Some(id) || self.claims.contains(&id)
    }

    /// The names that are read to which its text may belong.
    pub(crate) fn base_names(&self) -> impl Iterator<Item = &Arc<Path>> {
        let called = self.called.as_ref().map(|(_, path)| path);
        self.base.iter().chain(called)
    }

    /// Whether its text is uncertain.
    pub(crate) fn is_unsure(&self) -> bool {
        self.view != Identification::Identified || self.unread || self.called.is_some()
    }
}
