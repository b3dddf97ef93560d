//! The state machine of all files: receives observations, returns actions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::RecordedPositions;
use crate::pause::pause_set::PauseSet;
use crate::scan::inode::{FileId, Identification, Inode, InodeId, PassedFile};
use crate::scan::names::LogNames;
use crate::scan::unlisted::UnlistedPaths;
use crate::text::patience::{SCANS_AT_END, SCANS_FOR_COPY, SCANS_RECORDED};
use crate::text::position::Position;
use crate::text::{FileText, ReadState, Ticket};

/// The settings of files that are read by the same rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailSource {
    /// Its recorded names, such as its patterns. One that isn't on record is new: files that only
    /// it reads are those of a first start.
    pub names: Vec<String>,
    /// Whether files that exist at a first start are read from their end.
    pub from_end: bool,
}

/// The settings of a [`Tail`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TailSettings {
    /// The sources; files refer to them by index.
    pub sources: Vec<TailSource>,
    /// The maximum number of open files.
    pub open_files: usize,
    /// The maximum number of known files. Others aren't read, except the next file of a known name,
    /// of which there may be as many again.
    pub known_files: usize,
}

/// What the caller must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open this path, then call [`Tail::record_opened`], [`Tail::record_open_failure`] or
    /// [`Tail::record_torn`].
    Open {
        /// The file that should be at the path.
        file: InodeId,
        /// The path at which it was observed.
        path: Arc<Path>,
        /// Its source's index.
        source: usize,
        /// Whether it is compressed. Size and head are then those of its text.
        packed: bool,
    },
    /// The open file may have more: read on, and call [`Tail::record_read`] each time, to its end.
    Read {
        /// Its text.
        file: FileId,
    },
    /// Close the open file, and call [`Tail::record_closed`] with the position to continue from.
    Close {
        /// Its text.
        file: FileId,
    },
    /// The open file has ended: accept its unfinished last line, then proceed as for
    /// [`Action::Close`].
    Finish {
        /// Its text.
        file: FileId,
    },
}

impl Action {
    pub(crate) fn read_file(&self) -> Option<FileId> {
        if let Self::Read { file } = self { Some(*file) } else { None }
    }
}

/// An event that users should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TailEvent {
    /// A file begins again at 0: it was truncated, or a new file has the same inode. The former
    /// content may be in a copy; if none appears, [`TailEvent::Lost`] follows.
    Restarted {
        /// The path at which it was observed.
        path: PathBuf,
    },
    /// A file or its content was gone before it was read.
    Lost {
        /// The path at which it was last observed.
        path: PathBuf,
        /// Bytes that were observed and not read.
        lost_bytes: u64,
    },
    /// There are more files than the limit. Reported once until the number falls below it.
    TooMany {
        /// The first file that isn't read.
        path: PathBuf,
    },
}

/// The text of an opened file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenOutcome {
    /// This text, to be read from this position.
    From(FileId, Position),
    /// As `From`, but its first read begins at its end. If no line begins there, call
    /// [`Tail::begins_within_line`].
    FromEnd(FileId, Position),
    /// There is nothing to read now: close the file.
    Unread,
}

/// What follows a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadOutcome {
    /// There may be more: read on after other files.
    On,
    /// There is no more for now. An [`Action::Read`] follows when there is.
    AtEnd,
    /// These bytes belong to this other text. Drop them, accept the former text's unfinished line
    /// as its last one, and read from 0.
    Restart(FileId),
}

/// Sums over all files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileTotals {
    /// The number of known files.
    pub files: u64,
    /// The number of open files.
    pub open: u64,
    /// Bytes that exist and aren't acknowledged.
    pub backlog_bytes: u64,
    /// Bytes accepted into records, since the start. For known files, those that aren't
    /// acknowledged are also in `backlog_bytes`.
    pub accepted_bytes: u64,
    /// Bytes whose records were acknowledged, since the start.
    pub confirmed_bytes: u64,
}

/// A text with bytes that aren't acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BacklogEntry<'a> {
    /// The text.
    pub file: FileId,
    /// Its source's index.
    pub source: usize,
    /// The path at which its file was last observed.
    pub path: &'a Path,
    /// Its length, as far as it is known.
    pub size: u64,
    /// Everything before this offset is acknowledged.
    pub committed: u64,
    /// Whether more than an unfinished line remains.
    pub waits: bool,
}

/// All files.
#[derive(Debug)]
pub struct Tail {
    pub(crate) settings: TailSettings,
    /// Boxed, since a table has half as many slots again.
    pub(crate) texts: HashMap<FileId, Box<FileText>>,
    pub(crate) inodes: HashMap<InodeId, Inode>,
    /// The files that have a text: an index of `Inode::text`.
    pub(crate) carriers: BTreeSet<(FileId, InodeId)>,
    pub(crate) names: LogNames,
    /// Files under other names that are irrelevant until they change or get another name.
    pub(crate) passed: HashMap<InodeId, PassedFile>,
    /// Names of sources whose first scan is over: their unknown files are new.
    pub(crate) begun: BTreeSet<String>,
    /// The youngest modification time in the last complete scan, or else in the first one or on
    /// record; 0 if there were no files.
    pub(crate) newest: Option<u64>,
    /// No positions could be read: until a scan is complete, rotated files of all names are new.
    pub(crate) reads_rotated: bool,
    pub(crate) events: Vec<TailEvent>,
    /// The paused files of the last scan.
    pub(crate) paused: PauseSet,
    /// The paths that the last scan couldn't list.
    pub(crate) unlisted: UnlistedPaths,
    /// The number of open texts.
    pub(crate) open: usize,
    pub(crate) has_reported_full: bool,
    /// Scans skipped since texts without a file were last aged.
    pub(crate) skipped_scans: u32,
    pub(crate) dirty: bool,
    accepted_bytes: u64,
    confirmed_bytes: u64,
    next: u64,
}

impl Tail {
    /// Starts with the recorded positions. `source_of` finds the source that reads a name.
    #[must_use]
    pub fn new(
        settings: TailSettings,
        recalled: RecordedPositions,
        source_of: impl Fn(&Path) -> Option<usize>,
    ) -> Self {
        let names = settings.sources.iter().flat_map(|one| &one.names);
        let begun = names.filter(|name| recalled.knows_source(name)).cloned().collect();
        let reads_rotated = recalled.is_lost();
        let mut tail = Self {
            settings,
            texts: HashMap::new(),
            inodes: HashMap::new(),
            carriers: BTreeSet::new(),
            names: LogNames::default(),
            passed: HashMap::new(),
            begun,
            newest: None,
            reads_rotated,
            events: Vec::new(),
            paused: PauseSet::default(),
            unlisted: UnlistedPaths::default(),
            open: 0,
            has_reported_full: false,
            skipped_scans: 0,
            dirty: true,
            accepted_bytes: 0,
            confirmed_bytes: 0,
            next: 0,
        };
        for text in recalled.into_texts(source_of, &mut tail.names) {
            let id = tail.next_id();
            tail.texts.insert(id, Box::new(text));
        }
        tail.newest = tail.names.iter().map(|(_, name)| name.stamp).max();
        tail
    }

    pub(crate) fn next_id(&mut self) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        id
    }

    /// Records that a text's first read begins within a line, whose remainder isn't read. Returns
    /// the position to read from.
    pub fn begins_within_line(&mut self, id: FileId) -> Position {
        let Some(text) = self.texts.get_mut(&id) else { return Position::default() };
        text.accepted = Position::within_line(text.accepted.offset);
        text.committed = text.accepted;
        text.accepted
    }

    /// Records that a file could not be opened. The next scan that finds it tries again.
    pub fn record_open_failure(&mut self, file: InodeId) {
        if let Some(inode) = self.inodes.get_mut(&file) {
            inode.view = Identification::Doubtful;
        }
    }

    /// Records that nothing can be read of a compressed file: it is torn, damaged, or not complete
    /// yet. It is tried again when it has changed.
    pub fn record_torn(&mut self, file: InodeId) {
        let Some(inode) = self.inodes.get_mut(&file) else { return };
        inode.view = Identification::Torn;
        // Another file may have its text.
        let text = inode.text.take();
        let had = std::mem::take(&mut inode.claims).into_iter().chain(text);
        if let Some(id) = text {
            self.carriers.remove(&(id, file));
        }
        for id in had.collect::<Vec<_>>() {
            let text = self.texts.get(&id).filter(|text| text.inode == Some(file));
            if let Some(recalled) = text.map(|text| text.recalled) {
                self.release_text(id, if recalled { SCANS_RECORDED } else { SCANS_AT_END });
            }
        }
    }

    /// Records that a compressed file, now closed, can't be read further. It is tried again when it
    /// has changed, unless another file has the text.
    pub fn record_damaged(&mut self, id: FileId) {
        let file = self.texts.get(&id).and_then(|text| text.inode);
        let Some(inode) = file.and_then(|file| self.inodes.get_mut(&file)) else { return };
        inode.view = Identification::Torn;
        if self.other_carrier(id).is_some() {
            self.release_text(id, 0);
        }
    }

    /// Records that all records of this text before `position` are in a request, sent or not.
    pub fn record_accepted(&mut self, id: FileId, position: Position) {
        if let Some(text) = self.texts.get_mut(&id) {
            self.accepted_bytes += position.offset.saturating_sub(text.accepted.offset);
            text.accepted = position;
            if text.state != ReadState::Open {
                text.read = position.offset;
            }
        }
    }

    /// Records that a request with all records of this text before `position` was closed. Positions
    /// of a text grow.
    pub fn record_sent(&mut self, id: FileId, position: Position) -> Option<Ticket> {
        self.texts.get_mut(&id).map(|text| text.track_sent(id, position))
    }

    /// Records that the records up to this ticket's position are safe.
    pub fn acknowledge(&mut self, ticket: Ticket) {
        let Some(text) = self.texts.get_mut(&ticket.file) else { return };
        let before = text.committed.offset;
        self.dirty |= text.acknowledge(ticket);
        self.confirmed_bytes += text.committed.offset.saturating_sub(before);
        self.remove_if_finished(ticket.file);
    }

    /// Records that a compressed file's text was read to its end. The caller closes it next.
    pub fn record_end(&mut self, id: FileId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        let inode = text.inode.and_then(|identity| self.inodes.get(&identity));
        if inode.is_some_and(|inode| inode.observed.is_packed()) {
            text.end = Some(text.read);
            self.dirty = true;
        }
    }

    /// Records that a text was closed. All its records before `position` are in requests.
    pub fn record_closed(&mut self, id: FileId, position: Position) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        if text.state == ReadState::Open {
            self.open -= 1;
        }
        text.state = ReadState::Closed;
        self.accepted_bytes += position.offset.saturating_sub(text.accepted.offset);
        (text.read, text.accepted) = (position.offset, position);
        let Some(identity) = text.inode else { return };
        let Some(inode) = self.inodes.get(&identity).filter(|inode| !inode.present) else { return };
        if !inode.observed.is_packed() {
            text.end = Some(position.offset);
        }
        self.forget_file(identity);
        // Its compressed form may be in the same scan, and is opened later.
        self.release_text(id, SCANS_FOR_COPY);
    }

    /// Closes an open file that can't be read. If it has a name, it is returned and opened again at
    /// the next scan. The remainder of a file without a name is lost.
    pub fn record_unreadable(&mut self, id: FileId, position: Position) -> Option<InodeId> {
        self.record_closed(id, position);
        let text = self.texts.get_mut(&id)?;
        text.end = None;
        let file = text.inode?;
        self.inodes.get_mut(&file)?.view = Identification::Doubtful;
        Some(file)
    }

    /// Removes a file that is gone or irrelevant.
    pub(crate) fn forget_file(&mut self, identity: InodeId) -> Option<Inode> {
        let inode = self.inodes.remove(&identity)?;
        if let Some(id) = inode.text {
            self.carriers.remove(&(id, identity));
        }
        Some(inode)
    }

    /// Reports the lost bytes of a finished text, once.
    pub(crate) fn report_lost(&mut self, id: FileId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        let lost_bytes = text.unread_bytes();
        if lost_bytes > 0 || text.recalled && !text.is_ended() {
            self.events.push(TailEvent::Lost { path: text.path.to_path_buf(), lost_bytes });
        }
        text.size = text.read;
    }

    pub(crate) fn remove_if_finished(&mut self, id: FileId) {
        let text = self.texts.get(&id);
        if text.is_some_and(|text| text.state == ReadState::Finished && text.is_safe()) {
            self.texts.remove(&id);
            self.dirty = true;
        }
    }

    /// All known files, and the last files of texts that no file has now.
    #[must_use]
    pub fn tracked_files(&self) -> HashSet<InodeId> {
        let had = self.texts.values().map(|text| text.last_file);
        self.inodes.keys().copied().chain(had).collect()
    }

    /// Whether a file or a text had this name, which is read, at the last scan.
    #[must_use]
    pub fn knows_name(&self, path: &Path) -> bool {
        self.names.is_used(path)
    }

    /// The path at which a text's file was last observed.
    #[must_use]
    pub fn path_of(&self, id: FileId) -> Option<&Path> {
        self.texts.get(&id).map(|text| &*text.path)
    }

    /// Returns the events since the last call.
    pub fn take_events(&mut self) -> Vec<TailEvent> {
        std::mem::take(&mut self.events)
    }

    /// Sums over all files.
    #[must_use]
    pub fn totals(&self) -> FileTotals {
        let mut totals = FileTotals {
            files: self.texts.len() as u64,
            open: self.open as u64,
            backlog_bytes: 0,
            accepted_bytes: self.accepted_bytes,
            confirmed_bytes: self.confirmed_bytes,
        };
        for text in self.texts.values() {
            totals.backlog_bytes += text.backlog_bytes();
        }
        totals
    }

    /// The texts with bytes that aren't acknowledged.
    pub fn backlog_entries(&self) -> impl Iterator<Item = BacklogEntry<'_>> {
        let behind = self.texts.iter().filter(|(_, text)| text.backlog_bytes() > 0);
        behind.map(|(file, text)| BacklogEntry {
            file: *file,
            source: text.source,
            path: &text.path,
            size: text.size,
            committed: text.committed.offset,
            waits: text.unread_bytes() > 0 || text.committed.offset < text.accepted.offset,
        })
    }

    /// The committed offset of each known text, by path.
    #[must_use]
    pub fn committed_offsets(&self) -> Vec<(&Path, u64)> {
        let mut positions: Vec<_> =
            self.texts.values().map(|text| (&*text.path, text.committed.offset)).collect();
        positions.sort_unstable();
        positions
    }

    /// The source of a text: that of its name, even while its file has another name, which every
    /// source of the directory may observe.
    #[must_use]
    pub fn source(&self, file: FileId) -> Option<usize> {
        self.texts.get(&file).map(|text| text.source)
    }
}
