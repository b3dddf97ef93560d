//! The files that are open: whose turn it is, which hold an unfinished record, and what they take
//! of the byte budget. It neither opens nor reads.

use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

use millrace_pipeline::budget::Reservation;
use millrace_tail::{FileId, Turns};

use super::open::Open;
use super::source::Source;

/// All open files.
pub(super) struct Table {
    open: HashMap<FileId, Box<Open>>,
    turns: Turns<FileId>,
    /// Files whose reader may hold a record that waits for a further line.
    unfinished: BTreeSet<FileId>,
    /// For the reader's buffer, and for what open files hold.
    held: Reservation,
}

impl Table {
    /// `held` is for the buffer so far.
    pub(super) fn new(sources: &[Source], held: Reservation) -> Self {
        let weights = sources.iter().flat_map(|source| source.weights.clone()).collect();
        Self { open: HashMap::new(), turns: Turns::new(weights), unfinished: BTreeSet::new(), held }
    }

    pub(super) fn get(&self, file: FileId) -> Option<&Open> {
        self.open.get(&file).map(|open| &**open)
    }

    pub(super) fn get_mut(&mut self, file: FileId) -> Option<&mut Open> {
        self.open.get_mut(&file).map(|open| &mut **open)
    }

    /// Those of which this holds.
    pub(super) fn those(&self, holds: impl Fn(&Open) -> bool) -> Vec<FileId> {
        self.open.iter().filter(|(_, open)| holds(open)).map(|(file, _)| *file).collect()
    }

    #[cfg(test)]
    pub(super) fn inodes(&self) -> std::collections::HashSet<u64> {
        self.open.values().filter_map(|open| open.inode()).collect()
    }

    /// A file was opened.
    pub(super) fn insert(&mut self, file: FileId, open: Open) {
        self.open.insert(file, Box::new(open));
    }

    /// A file is to be closed: what it holds is given back.
    pub(super) fn remove(&mut self, file: FileId) -> Option<Box<Open>> {
        let open = self.open.remove(&file)?;
        self.give_back(open.held_bytes);
        Some(open)
    }

    /// An open file has another text now.
    pub(super) fn rename(&mut self, file: FileId, next: FileId) -> Option<&mut Open> {
        let open = self.open.remove(&file)?;
        Some(&mut **self.open.entry(next).insert_entry(open).into_mut())
    }

    /// Compressed files among them.
    pub(super) fn unpacked(&self) -> usize {
        self.open.values().filter(|open| open.is_packed()).count()
    }

    /// Takes bytes of the budget; false if there are none.
    pub(super) fn take_bytes(&mut self, bytes: u64) -> bool {
        self.held.try_resize(self.held.bytes() + bytes)
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        let _ = self.held.try_resize(self.held.bytes().saturating_sub(bytes));
    }

    /// Covers what a reader holds of unfinished records. False if the budget has no room for that.
    pub(super) fn cover(&mut self, file: FileId) -> bool {
        let Some(open) = self.open.get_mut(&file) else { return true };
        let held_bytes = open.needed_bytes();
        let sum = self.held.bytes() - open.held_bytes.min(self.held.bytes()) + held_bytes;
        let covered = self.held.try_resize(sum);
        if covered {
            open.held_bytes = held_bytes;
        }
        covered
    }

    pub(super) fn is_queued(&self, file: FileId) -> bool {
        self.get(file).is_some_and(|open| open.queued)
    }

    /// A file is to be read, when its turn comes.
    pub(super) fn queue(&mut self, file: FileId, sources: &[Source]) {
        if let Some(open) = self.get_mut(file)
            && !std::mem::replace(&mut open.queued, true)
        {
            self.line_up(file, sources);
        }
    }

    /// A queued file waits for nothing but its turn.
    pub(super) fn line_up(&mut self, file: FileId, sources: &[Source]) {
        if let Some(open) = self.open.get(&file)
            && let Some(source) = sources.get(open.source)
        {
            self.turns.push(source.share(open.label.path()), file);
        }
    }

    /// Whether none waits for its turn.
    pub(super) fn is_quiet(&self) -> bool {
        self.turns.is_empty()
    }

    /// The file whose turn it is.
    pub(super) fn next(&mut self) -> Option<FileId> {
        self.turns.pop()
    }

    /// So many bytes were taken in that turn.
    pub(super) fn spent(&mut self, bytes: u64) {
        self.turns.spent(bytes);
    }

    /// A file's reader may hold a record that waits for a further line.
    pub(super) fn is_unfinished(&mut self, file: FileId) {
        self.unfinished.insert(file);
    }

    /// Files with a record that has waited too long, and that aren't to be read now.
    pub(super) fn waited(&mut self, sources: &[Source], now: Instant) -> Vec<FileId> {
        let Self { open, unfinished, .. } = self;
        let holds = |file: &FileId| open.get(file).is_some_and(|open| open.reader.holds_open());
        unfinished.retain(holds);
        let timeout =
            |open: &Open| sources.get(open.source).map_or(Duration::ZERO, |source| source.timeout);
        let is_over = |file: &FileId| {
            let waited = |open: &Open| now.duration_since(open.taken_at) >= timeout(open);
            open.get(file).is_some_and(|open| !open.queued && waited(open))
        };
        unfinished.iter().copied().filter(is_over).collect()
    }
}
