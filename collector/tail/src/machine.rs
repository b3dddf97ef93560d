//! The state machine of all files: what was observed comes in, what to do comes out.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::checkpoint::{self, Recalled};
use crate::file::{Acknowledged, File, Former, State, Ticket};
use crate::fingerprint::Fingerprint;
use crate::position::Position;

/// A file's number in this process. Never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u64);

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
    /// Open this path, then say so with [`Tail::opened`] or [`Tail::not_opened`].
    Open {
        /// The file.
        file: FileId,
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
        /// The file.
        file: FileId,
    },
    /// Close the open file, and say from where it is continued with [`Tail::closed`].
    Close {
        /// The file.
        file: FileId,
    },
    /// The open file ends here: take its last, unfinished line as it is, then as [`Action::Close`].
    Finish {
        /// The file.
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

/// What an opened file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opened {
    /// The file that was meant, or what has taken its place: read it from here.
    From(Position),
    /// The same of a file whose first reading begins at its end. If no line begins there, say so
    /// with [`Tail::begins_within_line`].
    FromEnd(Position),
    /// By now another file has this name. Close it; the next look will tell.
    Stale,
}

/// What follows a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There may be more: read on when the others had their turn.
    On,
    /// That was all for now. An [`Action::Read`] follows when there is more.
    AtEnd,
    /// What was read now isn't the text that was begun: leave it out, take the unfinished line
    /// before it as it is, and read from 0.
    BeginAgain,
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

/// All files.
#[derive(Debug)]
pub struct Tail {
    pub(crate) settings: Settings,
    pub(crate) files: HashMap<FileId, File>,
    pub(crate) by_identity: HashMap<(u64, u64), FileId>,
    /// Recalled files by inode and path, until they are seen: a device's number may be another
    /// after the machine has started again.
    pub(crate) recalled: HashMap<(u64, PathBuf), FileId>,
    /// Sources whose files that aren't known have appeared since.
    pub(crate) begun: Vec<bool>,
    /// Files beside those that are read that aren't theirs by rotation.
    pub(crate) passed: HashSet<(u64, u64)>,
    /// Copies of files that have begun again since.
    pub(crate) wanted: HashSet<(u64, u64)>,
    pub(crate) events: Vec<Event>,
    pub(crate) open: usize,
    pub(crate) said_too_many: bool,
    next: u64,
    dirty: bool,
}

impl Tail {
    /// Begins with what is on record.
    #[must_use]
    pub fn new(settings: Settings, recalled: Recalled) -> Self {
        let names: Vec<String> = settings.sources.iter().map(|one| one.name.clone()).collect();
        let begun = names.iter().map(|name| recalled.knows(name)).collect();
        let mut tail = Self {
            settings,
            files: HashMap::new(),
            by_identity: HashMap::new(),
            recalled: HashMap::new(),
            begun,
            passed: HashSet::new(),
            wanted: HashSet::new(),
            events: Vec::new(),
            open: 0,
            said_too_many: false,
            next: 0,
            dirty: false,
        };
        for file in recalled.into_files(|name| names.iter().position(|one| one == name)) {
            let place = (file.inode, file.path.clone());
            let id = tail.insert(file);
            tail.recalled.insert(place, id);
        }
        tail
    }

    pub(crate) fn insert(&mut self, file: File) -> FileId {
        let id = FileId(self.next);
        self.next += 1;
        self.by_identity.insert(file.identity(), id);
        self.files.insert(id, file);
        self.dirty = true;
        id
    }

    pub(crate) fn remove(&mut self, id: FileId) {
        if let Some(mut file) = self.files.remove(&id) {
            self.dirty = true;
            self.events.extend(gone(file.path.clone(), file.take_lost()));
            if self.by_identity.get(&file.identity()) == Some(&id) {
                self.by_identity.remove(&file.identity());
            }
            self.recalled.remove(&(file.inode, file.path));
        }
    }

    /// A file was opened that is `identity` (device and inode), has `size` bytes and begins with
    /// `head`.
    pub fn opened(&mut self, id: FileId, identity: (u64, u64), size: u64, head: &[u8]) -> Opened {
        let Some(file) = self.files.get_mut(&id) else { return Opened::Stale };
        file.state = State::Closed;
        if file.identity() != identity {
            file.suspect = true;
            return Opened::Stale;
        }
        let is_packed = file.packed.is_some();
        let is_ours = match (file.stranger, is_packed) {
            (true, true) => self.meet_packed(id, head),
            (true, false) => self.is_rotated(id, head),
            (false, _) => !self.is_another(id, head),
        };
        if !is_ours {
            return Opened::Stale;
        }
        let Some(file) = self.files.get(&id) else { return Opened::Stale };
        let is_same = size >= file.read && file.fingerprint.fits(head);
        let may_be_it = file.may_have_begun_again();
        // Where nothing is known of what was in it, a name of rotation tells.
        let is_told = || file.fingerprint.covered_bytes() > 0 || !self.is_rotated_path(&file.path);
        if !(is_packed || may_be_it || is_same && is_told()) {
            // Another file's inode by now: that is met at the next look.
            self.part(id);
            self.wanted.insert(identity);
            return Opened::Stale;
        }
        if !is_packed && !is_same {
            self.begin_again(id);
            self.leave_gone(id);
        }
        let Some(file) = self.files.get_mut(&id) else { return Opened::Stale };
        file.before = None;
        if file.is_ended() {
            return Opened::Stale;
        }
        file.state = State::Open;
        self.open += 1;
        file.size = size;
        file.fingerprint.grow(head);
        file.looks_at_end = 0;
        self.dirty = true;
        match std::mem::take(&mut file.at_end) && file.taken.offset > 0 {
            true => Opened::FromEnd(file.taken),
            false => Opened::From(file.taken),
        }
    }

    /// A file's first reading begins within a line: what is left of that isn't read. From where to
    /// read.
    pub fn begins_within_line(&mut self, id: FileId) -> Position {
        let Some(file) = self.files.get_mut(&id) else { return Position::default() };
        file.taken = Position::within_line(file.taken.offset);
        file.committed = file.taken;
        file.taken
    }

    /// A file could not be opened: it is tried again at the next look that sees it.
    pub fn not_opened(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(&id) {
            file.state = State::Closed;
            file.suspect = true;
        }
    }

    /// Whether a stranger is a rotated file of its base, and not a copy of one that is known. Sets
    /// where a copy is continued whose original has begun again.
    fn is_rotated(&mut self, id: FileId, head: &[u8]) -> bool {
        let Some(stranger) = self.files.get(&id) else { return false };
        let (base, identity) = (stranger.base.clone(), stranger.identity());
        let is_young = stranger.is_young;
        let begins_like = |print: &Fingerprint| print.covered_bytes() > 0 && print.fits(head);
        let (mut original, mut gone) = (None, None);
        let mut is_copy = head.is_empty();
        for (other, file) in &mut self.files {
            if *other == id || file.stranger || file.sure_base() != base {
                continue;
            }
            let is_left = |former: &&Former| begins_like(&former.fingerprint);
            if let Some(former) = file.formers.iter().find(is_left) {
                if former.has_heir() {
                    is_copy = true;
                } else {
                    original = Some((*other, former.generation()));
                }
            } else if begins_like(&file.fingerprint) {
                file.copy = Some(identity);
                is_copy = true;
                if file.is_gone() {
                    gone = gone.max(Some((file.fingerprint.covered_bytes(), *other)));
                }
            }
        }
        if let (Some((_, gone)), None) = (gone, original) {
            // Only the copy is left.
            self.replace(gone, id);
            return false;
        }
        if (is_copy || !is_young) && original.is_none() {
            self.remove(id);
            if !head.is_empty() {
                self.passed.insert(identity);
            }
            return false;
        }
        if let Some((original, generation)) = original {
            self.inherit(id, original, generation);
        }
        if let Some(file) = self.files.get_mut(&id) {
            file.stranger = false;
            file.fingerprint = Fingerprint::of(head);
        }
        true
    }

    /// A copy goes on where its original was left, whose text it was in that generation.
    pub(crate) fn inherit(&mut self, id: FileId, original: FileId, generation: u64) {
        let former = self.files.get_mut(&original);
        let Some(left) = former.and_then(|file| file.leave(generation, id)) else { return };
        if let Some(file) = self.files.get_mut(&id) {
            file.inherit(left);
        }
    }

    fn begin_again(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        file.begin_again();
        self.events.push(Event::BeganAgain { path: file.path.clone() });
        self.want_copy(id);
        self.dirty = true;
    }

    /// A file has lost its text: the copy of it is wanted.
    fn want_copy(&mut self, id: FileId) {
        if let Some(copy) = self.files.get_mut(&id).and_then(|file| file.copy.take()) {
            self.passed.remove(&copy);
            self.wanted.insert(copy);
        }
    }

    /// A file that wasn't open has begun again: what it was before is a file that is gone, so that
    /// a copy of it, or the rest of it compressed, is known also after a restart.
    fn leave_gone(&mut self, id: FileId) {
        let Some(file) = self.files.get(&id) else { return };
        let Some(former) = file.formers.front() else { return };
        if former.fingerprint.covered_bytes() == 0 {
            return;
        }
        let generation = former.generation();
        let gone = self.insert(file.gone(former));
        self.inherit(gone, id, generation);
    }

    /// What has a file's inode isn't that file, which is gone.
    pub(crate) fn part(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(&id) else { return };
        if self.by_identity.get(&file.identity()) == Some(&id) {
            self.by_identity.remove(&file.identity());
        }
        self.recalled.remove(&(file.inode, file.path.clone()));
        file.part();
        // What was passed by may be a copy of it, or the rest of it, compressed.
        self.passed.clear();
        self.want_copy(id);
        self.dirty = true;
    }

    /// `bytes` were read at `from`, and after that the file began with `head` and had `size` bytes.
    /// The order matters: a head that fits after the read proves what was read. An unfinished line
    /// may be read again with more behind it.
    pub fn has_read(&mut self, id: FileId, from: u64, bytes: u64, size: u64, head: &[u8]) -> Step {
        let Some(file) = self.files.get_mut(&id) else { return Step::AtEnd };
        let end = file.read.max(from + bytes);
        if size < end || !file.fingerprint.fits(head) {
            self.begin_again(id);
            if let Some(file) = self.files.get_mut(&id) {
                file.size = size;
            }
            return Step::BeginAgain;
        }
        file.fingerprint.grow(head);
        if end > file.read {
            file.looks_at_end = 0;
        }
        file.read = end;
        file.size = size;
        self.dirty |= file.settle();
        if from + bytes < size { Step::On } else { Step::AtEnd }
    }

    /// All records of this file before `position` are in a request, sent or not. Where a copy is
    /// continued if the file begins again.
    pub fn taken(&mut self, id: FileId, position: Position) {
        if let Some(file) = self.files.get_mut(&id) {
            file.taken = position;
        }
    }

    /// A request was closed that has all records of this file before `position`. Positions of one
    /// file grow.
    pub fn sent(&mut self, id: FileId, position: Position) -> Option<Ticket> {
        self.files.get_mut(&id).map(|file| file.send(id, position))
    }

    /// The records up to a ticket's position are safe.
    pub fn acknowledge(&mut self, ticket: Ticket) {
        let mut id = ticket.file;
        let Some(mut file) = self.files.get_mut(&id) else { return };
        let mut done = file.acknowledge(ticket);
        if let Acknowledged::ForHeir(heir) = done {
            let Some(heirs) = self.files.get_mut(&heir) else { return };
            done = heirs.acknowledge_inherited(ticket.number);
            (id, file) = (heir, heirs);
        }
        self.dirty |= done == Acknowledged::Moved;
        if file.state == State::Finished && file.is_all_acknowledged() {
            self.remove(id);
        }
    }

    /// A file was closed; all its records before `position` were sent.
    pub fn closed(&mut self, id: FileId, position: Position) {
        let Some(file) = self.files.get_mut(&id) else { return };
        if matches!(file.state, State::Open) {
            self.open -= 1;
        }
        file.state = State::Closed;
        file.read = position.offset;
        file.taken = position;
        if file.place.is_unseen() {
            if file.packed.is_some() && !file.is_ended() {
                let (path, lost_bytes) = (file.path.clone(), file.unread_bytes());
                self.events.push(Event::Gone { path, lost_bytes });
            }
            file.state = State::Finished;
            if file.is_all_acknowledged() {
                self.remove(id);
            }
        }
    }

    /// Where a file was seen last.
    #[must_use]
    pub fn path(&self, id: FileId) -> Option<&Path> {
        self.files.get(&id).map(|file| file.path.as_path())
    }

    /// What happened since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Sums over all files.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals =
            Totals { files: self.files.len() as u64, open: self.open as u64, behind_bytes: 0 };
        for file in self.files.values() {
            totals.behind_bytes += file.behind_bytes();
        }
        totals
    }

    /// The committed offset of each file that is known, by path.
    #[must_use]
    pub fn positions(&self) -> Vec<(&Path, u64)> {
        let mut positions: Vec<_> =
            self.files.values().map(|file| (file.path.as_path(), file.committed.offset)).collect();
        positions.sort_unstable();
        positions
    }

    /// The document to keep if it is another than the last one asked for.
    pub fn changed_checkpoint(&mut self) -> Option<Vec<u8>> {
        if !std::mem::take(&mut self.dirty) {
            return None;
        }
        let sources = self.settings.sources.iter().zip(&self.begun);
        let sources = sources.map(|(source, begun)| (source.name.as_str(), *begun));
        // A stranger is on record once it proved to be no copy.
        let known = self.files.values().filter(|file| !file.stranger);
        // Copies of files that have just begun again, and strangers, stay younger than what is on
        // record of their name until they are found and opened.
        let mut stamps: HashMap<&Path, u64> = HashMap::new();
        for file in self.files.values().filter(|file| file.is_unsettled()) {
            let stamp = stamps.entry(file.sure_base()).or_insert(file.verified);
            *stamp = file.verified.min(*stamp);
        }
        let stamp = |file: &File| {
            let unsettled = stamps.get(file.sure_base()).copied().unwrap_or(u64::MAX);
            file.verified.min(unsettled)
        };
        Some(checkpoint::write(sources, known.map(|file| (file, stamp(file)))))
    }

    /// The last document couldn't be kept: asks for it again.
    pub fn checkpoint_failed(&mut self) {
        self.dirty = true;
    }

    pub(crate) fn has_changed(&mut self) {
        self.dirty = true;
    }
}

/// What is to be said of bytes that are lost, if there are any.
pub(crate) fn gone(path: PathBuf, lost_bytes: u64) -> Option<Event> {
    (lost_bytes > 0).then_some(Event::Gone { path, lost_bytes })
}
