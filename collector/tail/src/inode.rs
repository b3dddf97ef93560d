//! A file as looks show it: name, size, stamp, and the text it is believed to have.

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
    /// The index of the source that reads its directory.
    pub source: usize,
    /// Whether the source reads files of this name. Others may have their name by rotation.
    pub inside: bool,
    /// The device it is on.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
    /// Its bytes.
    pub size: u64,
    /// A stamp that grows when it is written.
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
    /// Any text may be in it: it must be opened.
    Doubtful,
    /// A compressed file that can't be read until it changes.
    Torn,
    /// Nothing has changed since it was opened.
    Judged,
}

/// A file that has a known text, or one that may have to be read.
#[derive(Debug)]
pub(crate) struct Inode {
    /// As the last look found it.
    pub(crate) seen: Seen,
    /// The name that is read, of which its own derives.
    pub(crate) base: Option<Arc<Path>>,
    /// The text found in it.
    pub(crate) text: Option<FileId>,
    /// Texts it had before it was away, or by the positions on disk.
    pub(crate) claims: Vec<FileId>,
    pub(crate) view: View,
    /// Changed in the last look.
    pub(crate) changed: bool,
    /// Changed in one of the last two looks. Stamps are as coarse as the system's tick: a second
    /// write may not show, so the next look checks again.
    pub(crate) check: bool,
    /// Younger than what is known of its name: read if its text isn't known.
    pub(crate) young: bool,
    /// The source and name under which it was seen and is read, since it was judged: its text must
    /// be read under any other name too.
    pub(crate) called: Option<(usize, Arc<Path>)>,
    /// Open, changed or gone, and not read since: it may have another text.
    pub(crate) unread: bool,
    /// Its text was found since the last look began. That look may have missed older files of the
    /// name: what it listed was rotated before it came to it.
    pub(crate) found_since_look: bool,
    /// It was there at its source's first start and isn't judged yet. Nothing older matters.
    pub(crate) at_first_start: bool,
    /// Its end, if that is where its first reading begins.
    pub(crate) at_end: Option<u64>,
    /// Whether the last look found it. An open one stays without a name.
    pub(crate) present: bool,
}

impl Inode {
    /// Whether it may still have this text.
    pub(crate) fn may_have(&self, id: FileId) -> bool {
        self.text == Some(id) || self.claims.contains(&id)
    }

    /// The names that are read to which its text may belong.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        let called = self.called.as_ref().map(|(_, path)| path);
        self.base.iter().chain(called)
    }

    /// Whether its text isn't known.
    pub(crate) fn is_unsure(&self) -> bool {
        self.view != View::Judged || self.unread || self.called.is_some()
    }
}
