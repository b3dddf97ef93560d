//! The state machine of all files: observations in, actions out.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::checkpoint::{self, Recalled};
use crate::inode::{Identity, Inode, View};
use crate::judge::{LOOKS_AT_END, LOOKS_FOR_COPY};
use crate::look::LOOKS_RECALLED;
use crate::names::Names;
use crate::pause::Paused;
use crate::position::Position;
use crate::text::{FileId, State, Text, Ticket};

/// Files that are read by the same rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// Its name on record. A source with another name is new, and its files are unknown.
    pub name: String,
    /// Whether files that exist at its first start are read from their end.
    pub from_end: bool,
}

/// The settings of a [`Tail`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The sources; files name them by index.
    pub sources: Vec<Source>,
    /// The most files that are open at once.
    pub open_files: usize,
    /// The most files that are known at once. Others aren't read.
    pub known_files: usize,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open this path, then call [`Tail::opened`], [`Tail::not_opened`] or [`Tail::torn`].
    Open {
        /// The file that should be there.
        file: Identity,
        /// Where it was seen.
        path: Arc<Path>,
        /// Its source's index.
        source: usize,
        /// Whether it is compressed. Size and head are then those of its text.
        packed: bool,
    },
    /// The open file may have more: read on, and call [`Tail::has_read`] each time, to its end.
    Read {
        /// Its text.
        file: FileId,
    },
    /// Close the open file, and call [`Tail::closed`] with where to continue.
    Close {
        /// Its text.
        file: FileId,
    },
    /// The open file has ended: take its unfinished last line as it is, then as [`Action::Close`].
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

/// What users should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file begins again at 0: truncated, or a new file with the same inode. The former content
    /// may be in a copy; if none appears, [`Event::Gone`] follows.
    BeganAgain {
        /// Where it was seen.
        path: PathBuf,
    },
    /// A file or its content went before it was read.
    Gone {
        /// Where it was seen last.
        path: PathBuf,
        /// Bytes that were seen and not read.
        lost_bytes: u64,
    },
    /// There are more files than may be known. Told once until there is room again.
    TooMany {
        /// The first that isn't read.
        path: PathBuf,
    },
}

/// What an opened file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// This text, to be read from here.
    From(FileId, Position),
    /// The same, but its first reading begins at its end. If no line begins there, call
    /// [`Tail::begins_within_line`].
    FromEnd(FileId, Position),
    /// Nothing to read now: close it.
    Unread,
}

/// What follows a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more: read on after the others' turn.
    On,
    /// That was all for now. An [`Action::Read`] follows when there is more.
    AtEnd,
    /// These bytes belong to another text, this one. Drop them, take the former's unfinished line
    /// as its last one, and read from 0.
    BeginAgain(FileId),
}

/// Sums over all files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files that are known.
    pub files: u64,
    /// Files that are open.
    pub open: u64,
    /// Bytes that are there and not acknowledged.
    pub behind_bytes: u64,
    /// Bytes that came into records, since the start. Of files that are known, those of them that
    /// are not acknowledged are among `behind_bytes`.
    pub taken_bytes: u64,
    /// Those whose records were acknowledged, since the start.
    pub confirmed_bytes: u64,
}

/// A text of which something isn't acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind<'a> {
    /// The text.
    pub file: FileId,
    /// Its source's index.
    pub source: usize,
    /// Where its file was seen last.
    pub path: &'a Path,
    /// How long it is, as far as is known.
    pub size: u64,
    /// Everything before it is acknowledged.
    pub committed: u64,
    /// Whether more than an unfinished line is left.
    pub waits: bool,
}

/// All files.
#[derive(Debug)]
pub struct Tail {
    pub(crate) settings: Settings,
    /// Boxed, as a table has half as many places again.
    pub(crate) texts: HashMap<FileId, Box<Text>>,
    pub(crate) inodes: HashMap<Identity, Inode>,
    /// Which files have a text: an index of their `text`.
    pub(crate) carriers: BTreeSet<(FileId, Identity)>,
    pub(crate) names: Names,
    /// Files under other names that don't matter until they change, with size and stamp.
    pub(crate) passed: HashMap<Identity, (u64, u64)>,
    /// Sources whose first look is over: their unknown files are new.
    pub(crate) begun: Vec<bool>,
    /// The youngest stamp of the files of the last complete look, or of those on record; 0 if there
    /// were no files.
    pub(crate) newest: Option<u64>,
    /// No positions could be read: until a look is complete, rotated files of all names are new.
    pub(crate) reads_rotated: bool,
    pub(crate) events: Vec<Event>,
    /// As the last look showed it.
    pub(crate) paused: Paused,
    /// Texts that are open.
    pub(crate) open: usize,
    pub(crate) said_too_many: bool,
    /// Looks skipped since the last one that counted.
    pub(crate) skipped_looks: u32,
    pub(crate) dirty: bool,
    taken_bytes: u64,
    confirmed_bytes: u64,
    next: u64,
}

impl Tail {
    /// Starts with what is on record.
    #[must_use]
    pub fn new(settings: Settings, recalled: Recalled) -> Self {
        let sources: Vec<String> = settings.sources.iter().map(|one| one.name.clone()).collect();
        let begun = sources.iter().map(|name| recalled.knows(name)).collect();
        let reads_rotated = recalled.is_lost();
        let mut tail = Self {
            settings,
            texts: HashMap::new(),
            inodes: HashMap::new(),
            carriers: BTreeSet::new(),
            names: Names::default(),
            passed: HashMap::new(),
            begun,
            newest: None,
            reads_rotated,
            events: Vec::new(),
            paused: Paused::default(),
            open: 0,
            said_too_many: false,
            skipped_looks: 0,
            dirty: true,
            taken_bytes: 0,
            confirmed_bytes: 0,
            next: 0,
        };
        let index = |name: &str| sources.iter().position(|one| one == name);
        for text in recalled.into_texts(index, &mut tail.names) {
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

    /// A text's first reading begins within a line, whose rest isn't read. Returns from where to
    /// read.
    pub fn begins_within_line(&mut self, id: FileId) -> Position {
        let Some(text) = self.texts.get_mut(&id) else { return Position::default() };
        text.taken = Position::within_line(text.taken.offset);
        text.committed = text.taken;
        text.taken
    }

    /// A file could not be opened. The next look that sees it tries again.
    pub fn not_opened(&mut self, file: Identity) {
        if let Some(inode) = self.inodes.get_mut(&file) {
            inode.view = View::Doubtful;
        }
    }

    /// Nothing can be read of a compressed file: torn, damaged, or not complete yet. It is tried
    /// again when it has changed.
    pub fn torn(&mut self, file: Identity) {
        let Some(inode) = self.inodes.get_mut(&file) else { return };
        inode.view = View::Torn;
        // Another file may have its text.
        let text = inode.text.take();
        let had = std::mem::take(&mut inode.claims).into_iter().chain(text);
        if let Some(id) = text {
            self.carriers.remove(&(id, file));
        }
        for id in had.collect::<Vec<_>>() {
            let text = self.texts.get(&id).filter(|text| text.inode == Some(file));
            if let Some(recalled) = text.map(|text| text.recalled) {
                self.release(id, if recalled { LOOKS_RECALLED } else { LOOKS_AT_END });
            }
        }
    }

    /// A compressed file, now closed, can't be read further. It is tried again when it has changed,
    /// unless another file has the text.
    pub fn damaged(&mut self, id: FileId) {
        let file = self.texts.get(&id).and_then(|text| text.inode);
        let Some(inode) = file.and_then(|file| self.inodes.get_mut(&file)) else { return };
        inode.view = View::Torn;
        if self.twin(id).is_some() {
            self.release(id, 0);
        }
    }

    /// All records of this text before `position` are in a request, sent or not.
    pub fn taken(&mut self, id: FileId, position: Position) {
        if let Some(text) = self.texts.get_mut(&id) {
            self.taken_bytes += position.offset.saturating_sub(text.taken.offset);
            text.taken = position;
            if text.state != State::Open {
                text.read = position.offset;
            }
        }
    }

    /// A request with all records of this text before `position` was closed. Positions of a text
    /// grow.
    pub fn sent(&mut self, id: FileId, position: Position) -> Option<Ticket> {
        self.texts.get_mut(&id).map(|text| text.send(id, position))
    }

    /// The records up to this ticket's position are safe.
    pub fn acknowledge(&mut self, ticket: Ticket) {
        let Some(text) = self.texts.get_mut(&ticket.file) else { return };
        let before = text.committed.offset;
        self.dirty |= text.acknowledge(ticket);
        self.confirmed_bytes += text.committed.offset.saturating_sub(before);
        self.forget_if_over(ticket.file);
    }

    /// The text of a compressed file was read to its end. It will be closed.
    pub fn ended(&mut self, id: FileId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        let inode = text.inode.and_then(|identity| self.inodes.get(&identity));
        if inode.is_some_and(|inode| inode.seen.is_packed()) {
            text.end = Some(text.read);
            self.dirty = true;
        }
    }

    /// A text was closed. All its records before `position` are in requests.
    pub fn closed(&mut self, id: FileId, position: Position) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        if text.state == State::Open {
            self.open -= 1;
        }
        text.state = State::Closed;
        self.taken_bytes += position.offset.saturating_sub(text.taken.offset);
        (text.read, text.taken) = (position.offset, position);
        let Some(identity) = text.inode else { return };
        let Some(inode) = self.inodes.get(&identity).filter(|inode| !inode.present) else { return };
        if !inode.seen.is_packed() {
            text.end = Some(position.offset);
        }
        self.forget_file(identity);
        // A compressed form of it may have come with the same look, and is opened later.
        self.release(id, LOOKS_FOR_COPY);
    }

    /// A file is gone, or doesn't matter.
    pub(crate) fn forget_file(&mut self, identity: Identity) -> Option<Inode> {
        let inode = self.inodes.remove(&identity)?;
        if let Some(id) = inode.text {
            self.carriers.remove(&(id, identity));
        }
        Some(inode)
    }

    /// Reports what is lost of a text that is over, once.
    pub(crate) fn say_lost(&mut self, id: FileId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        let lost_bytes = text.unread_bytes();
        if lost_bytes > 0 || text.recalled && !text.is_ended() {
            self.events.push(Event::Gone { path: text.path.to_path_buf(), lost_bytes });
        }
        text.size = text.read;
    }

    pub(crate) fn forget_if_over(&mut self, id: FileId) {
        let text = self.texts.get(&id);
        if text.is_some_and(|text| text.state == State::Over && text.is_safe()) {
            self.texts.remove(&id);
            self.dirty = true;
        }
    }

    /// Where a text's file was seen last.
    #[must_use]
    pub fn path(&self, id: FileId) -> Option<&Path> {
        self.texts.get(&id).map(|text| &*text.path)
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Sums over all files.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = Totals {
            files: self.texts.len() as u64,
            open: self.open as u64,
            behind_bytes: 0,
            taken_bytes: self.taken_bytes,
            confirmed_bytes: self.confirmed_bytes,
        };
        for text in self.texts.values() {
            totals.behind_bytes += text.behind_bytes();
        }
        totals
    }

    /// The texts of which something isn't acknowledged.
    pub fn behind(&self) -> impl Iterator<Item = Behind<'_>> {
        let behind = self.texts.iter().filter(|(_, text)| text.behind_bytes() > 0);
        behind.map(|(file, text)| Behind {
            file: *file,
            source: text.source,
            path: &text.path,
            size: text.size,
            committed: text.committed.offset,
            waits: text.unread_bytes() > 0 || text.committed.offset < text.taken.offset,
        })
    }

    /// The committed offset of each known text, by path.
    #[must_use]
    pub fn positions(&self) -> Vec<(&Path, u64)> {
        let mut positions: Vec<_> =
            self.texts.values().map(|text| (&*text.path, text.committed.offset)).collect();
        positions.sort_unstable();
        positions
    }

    /// The source that a text is of: that of its name, also while its file has another one, which
    /// every source of the directory may see.
    #[must_use]
    pub fn source(&self, file: FileId) -> Option<usize> {
        self.texts.get(&file).map(|text| text.source)
    }

    /// The document to write, if it changed since the last call.
    pub fn changed_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.verify(&self.held());
        std::mem::take(&mut self.dirty).then(|| checkpoint::write(self))
    }

    /// The last document couldn't be written: the next call returns one.
    pub fn checkpoint_failed(&mut self) {
        self.dirty = true;
    }
}
