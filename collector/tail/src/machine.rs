//! The state machine of all files: what was observed comes in, what to do comes out.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::checkpoint::{self, Recalled};
use crate::inode::{Identity, Inode, View};
use crate::judge::LOOKS_AT_END;
use crate::look::LOOKS_RECALLED;
use crate::names::Names;
use crate::position::Position;
use crate::text::{FileId, State, Text, Ticket};

/// Some files that are read by the same rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// What it is called on record: a source of another name is new, and its files unknown.
    pub name: String,
    /// Whether files that are there at its first start are read from their end.
    pub from_end: bool,
}

/// What a [`Tail`] goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The sources; files name them by index.
    pub sources: Vec<Source>,
    /// The most files that are open at once.
    pub open_files: usize,
    /// The most files that are known at once; the others aren't read.
    pub known_files: usize,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Open this path, then say so with [`Tail::opened`], [`Tail::not_opened`] or [`Tail::torn`].
    Open {
        /// The file that is meant.
        file: Identity,
        /// Where it was seen.
        path: PathBuf,
        /// Its source's index.
        source: usize,
        /// Whether it is compressed: size and head are then those of its text.
        packed: bool,
    },
    /// The open file may have more: read from where it was left, and say what came of it with
    /// [`Tail::has_read`], until that is its end.
    Read {
        /// Its text.
        file: FileId,
    },
    /// Close the open file, and say from where it is continued with [`Tail::closed`].
    Close {
        /// Its text.
        file: FileId,
    },
    /// The open file ends here: take its last, unfinished line as it is, then as [`Action::Close`].
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

/// Something that users want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A file begins again at 0: it was truncated, or its inode is another file's now. What was
    /// there before may be in a copy; if none is found, [`Event::Gone`] follows.
    BeganAgain {
        /// Where it was seen.
        path: PathBuf,
    },
    /// A file went, or what was in it, before it was read.
    Gone {
        /// Where it was seen last.
        path: PathBuf,
        /// What was known to be in it and wasn't read.
        lost_bytes: u64,
    },
    /// More files are there than may be known. Said once until there is room again.
    TooMany {
        /// The first that isn't read.
        path: PathBuf,
    },
}

/// What an opened file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// This text: read it from here.
    From(FileId, Position),
    /// The same of a text whose first reading begins at its end. If no line begins there, say so
    /// with [`Tail::begins_within_line`].
    FromEnd(FileId, Position),
    /// Nothing to be read now: close it.
    Unread,
}

/// What follows a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more: read on when the others had their turn.
    On,
    /// That was all for now. An [`Action::Read`] follows when there is more.
    AtEnd,
    /// What was read now isn't the text that was begun, but this one: leave it out, take the
    /// unfinished line before it as it is, as the last of the former, and read from 0.
    BeginAgain(FileId),
}

/// Sums over all files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Files that are known.
    pub files: u64,
    /// Files that are open.
    pub open: u64,
    /// Bytes that are there and aren't acknowledged.
    pub behind_bytes: u64,
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
    pub(crate) texts: HashMap<FileId, Text>,
    pub(crate) inodes: HashMap<Identity, Inode>,
    pub(crate) names: Names,
    /// Files beside those that are read that are of no concern until they change, with size and
    /// stamp.
    pub(crate) passed: HashMap<Identity, (u64, u64)>,
    /// Sources whose files that aren't known have appeared since.
    pub(crate) begun: Vec<bool>,
    pub(crate) events: Vec<Event>,
    /// Texts that are open.
    pub(crate) open: usize,
    pub(crate) said_too_many: bool,
    /// Looks that were left out since the last one that counted.
    pub(crate) skipped_looks: u32,
    pub(crate) dirty: bool,
    next: u64,
}

impl Tail {
    /// Begins with what is on record.
    #[must_use]
    pub fn new(settings: Settings, recalled: Recalled) -> Self {
        let sources: Vec<String> = settings.sources.iter().map(|one| one.name.clone()).collect();
        let begun = sources.iter().map(|name| recalled.knows(name)).collect();
        let mut tail = Self {
            settings,
            texts: HashMap::new(),
            inodes: HashMap::new(),
            names: Names::default(),
            passed: HashMap::new(),
            begun,
            events: Vec::new(),
            open: 0,
            said_too_many: false,
            skipped_looks: 0,
            dirty: true,
            next: 0,
        };
        let index = |name: &str| sources.iter().position(|one| one == name);
        for text in recalled.into_texts(index, &mut tail.names) {
            let id = tail.next_id();
            tail.texts.insert(id, text);
        }
        tail
    }

    pub(crate) fn next_id(&mut self) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        id
    }

    /// A text's first reading begins within a line: what is left of that isn't read. From where to
    /// read.
    pub fn begins_within_line(&mut self, id: FileId) -> Position {
        let Some(text) = self.texts.get_mut(&id) else { return Position::default() };
        text.taken = Position::within_line(text.taken.offset);
        text.committed = text.taken;
        text.taken
    }

    /// A file could not be opened: it is tried again at the next look that sees it.
    pub fn not_opened(&mut self, file: Identity) {
        if let Some(inode) = self.inodes.get_mut(&file) {
            inode.view = View::Doubtful;
        }
    }

    /// Nothing can be read of a compressed file: it is torn, damaged, or not whole yet. It is tried
    /// again when it has changed.
    pub fn torn(&mut self, file: Identity) {
        let Some(inode) = self.inodes.get_mut(&file) else { return };
        inode.view = View::Torn;
        // What it was believed to have may be in another.
        let had = std::mem::take(&mut inode.claims).into_iter().chain(inode.text.take());
        for id in had.collect::<Vec<_>>() {
            let text = self.texts.get(&id).filter(|text| text.inode == Some(file));
            if let Some(recalled) = text.map(|text| text.recalled) {
                self.release(id, if recalled { LOOKS_RECALLED } else { LOOKS_AT_END });
            }
        }
    }

    /// A compressed file, which was closed, can't be read further: it is tried again when it has
    /// changed, if no other has the text.
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
            text.taken = position;
            if text.state != State::Open {
                text.read = position.offset;
            }
        }
    }

    /// A request was closed that has all records of this text before `position`. Positions of one
    /// text grow.
    pub fn sent(&mut self, id: FileId, position: Position) -> Option<Ticket> {
        self.texts.get_mut(&id).map(|text| text.send(id, position))
    }

    /// The records up to a ticket's position are safe.
    pub fn acknowledge(&mut self, ticket: Ticket) {
        let Some(text) = self.texts.get_mut(&ticket.file) else { return };
        self.dirty |= text.acknowledge(ticket);
        self.forget_if_over(ticket.file);
    }

    /// The text of a compressed file was read to its end, which is whole. It is to be closed.
    pub fn ended(&mut self, id: FileId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        let inode = text.inode.and_then(|identity| self.inodes.get(&identity));
        if inode.is_some_and(|inode| inode.seen.is_packed()) {
            text.end = Some(text.read);
            self.dirty = true;
        }
    }

    /// A text was closed; all its records before `position` are in requests.
    pub fn closed(&mut self, id: FileId, position: Position) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        if text.state == State::Open {
            self.open -= 1;
        }
        text.state = State::Closed;
        (text.read, text.taken) = (position.offset, position);
        let Some(identity) = text.inode else { return };
        let Some(inode) = self.inodes.get(&identity).filter(|inode| !inode.present) else { return };
        if !inode.seen.is_packed() {
            text.end = Some(position.offset);
        }
        self.inodes.remove(&identity);
        self.release(id, LOOKS_AT_END);
        if let Some(text) = self.texts.get_mut(&id).filter(|text| text.inode.is_none()) {
            text.state = State::Over;
            self.say_lost(id);
            self.forget_if_over(id);
        }
    }

    /// Says what is lost of a text that is over. Once.
    pub(crate) fn say_lost(&mut self, id: FileId) {
        let Some(text) = self.texts.get_mut(&id) else { return };
        let lost_bytes = text.unread_bytes();
        if lost_bytes > 0 || text.recalled && !text.is_ended() {
            self.events.push(Event::Gone { path: text.path.clone(), lost_bytes });
        }
        text.size = text.read;
    }

    pub(crate) fn forget_if_over(&mut self, id: FileId) {
        let is_done = |text: &Text| text.state == State::Over && text.is_safe();
        if self.texts.get(&id).is_some_and(is_done) {
            self.texts.remove(&id);
            self.dirty = true;
        }
    }

    /// Where a text's file was seen last.
    #[must_use]
    pub fn path(&self, id: FileId) -> Option<&Path> {
        self.texts.get(&id).map(|text| text.path.as_path())
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Sums over all files.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals =
            Totals { files: self.texts.len() as u64, open: self.open as u64, behind_bytes: 0 };
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

    /// The committed offset of each text that is known, by path.
    #[must_use]
    pub fn positions(&self) -> Vec<(&Path, u64)> {
        let mut positions: Vec<_> =
            self.texts.values().map(|text| (text.path.as_path(), text.committed.offset)).collect();
        positions.sort_unstable();
        positions
    }

    /// The document to keep if it is another than the last one asked for.
    pub fn changed_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.verify(&self.held());
        std::mem::take(&mut self.dirty).then(|| checkpoint::write(self))
    }

    /// The last document couldn't be kept: asks for it again.
    pub fn checkpoint_failed(&mut self) {
        self.dirty = true;
    }
}
