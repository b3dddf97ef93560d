//! A file as looks show it: names, size, stamp, and which text is believed to be in it.

use std::path::Path;
use std::sync::Arc;

use crate::names::is_packed;
use crate::text::FileId;

/// Device and inode.
pub type Identity = (u64, u64);

/// A regular file that a look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub path: Arc<Path>,
    /// The index of the source that reads this directory.
    pub source: usize,
    /// Whether the source reads files of this name. The others are told since a file may have got
    /// such a name by rotation.
    pub inside: bool,
    /// The device it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its bytes.
    pub size: u64,
    /// A stamp that changes when it is written, and grows.
    pub modified: u64,
}

impl Seen {
    pub(crate) fn identity(&self) -> Identity {
        (self.device, self.inode)
    }

    /// Whether it is read as a compressed file.
    pub(crate) fn is_packed(&self) -> bool {
        !self.inside && is_packed(&self.path)
    }

    pub(crate) fn stamps(&self) -> (u64, u64) {
        (self.size, self.modified)
    }
}

/// What is known of the text in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Any text may be in it: it is to be opened.
    Doubtful,
    /// A compressed file whose text can't be read before it changes.
    Torn,
    /// Since it was opened nothing speaks against what was found.
    Judged,
}

/// A file that has a known text, or may have one that is to be read.
#[derive(Debug)]
pub(crate) struct Inode {
    /// As the last look found it.
    pub(crate) seen: Seen,
    /// The name that is read and from which its own is made.
    pub(crate) base: Option<Arc<Path>>,
    /// The text that was found in it.
    pub(crate) text: Option<FileId>,
    /// Texts that it had before it was away, or by the record.
    pub(crate) claims: Vec<FileId>,
    pub(crate) view: View,
    /// The last look found it changed.
    pub(crate) changed: bool,
    /// That, or the one before: stamps have the coarse grain of the system's tick, so that a second
    /// write may not show, and it is checked again at the next look.
    pub(crate) check: bool,
    /// It is read if it has no known text.
    pub(crate) young: bool,
    /// The name that is read under which it was seen since it was judged, with the source: what it
    /// has is to be read under any other name as well.
    pub(crate) called: Option<(usize, Arc<Path>)>,
    /// It is open, has changed or gone, and wasn't read since: another text may be in it.
    pub(crate) unread: bool,
    /// Where the first reading of it begins, if that is its end.
    pub(crate) at_end: Option<u64>,
    /// Whether the last look found it. One that is open lasts without a name.
    pub(crate) present: bool,
}

impl Inode {
    /// Whether it may still have a text that it had.
    pub(crate) fn may_have(&self, id: FileId) -> bool {
        self.text == Some(id) || self.claims.contains(&id)
    }

    /// The names that are read and that its text may be of.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        let called = self.called.as_ref().map(|(_, path)| path);
        self.base.iter().chain(called)
    }

    /// Whether the text in it isn't known.
    pub(crate) fn is_unsure(&self) -> bool {
        self.view != View::Judged || self.unread || self.called.is_some()
    }
}
