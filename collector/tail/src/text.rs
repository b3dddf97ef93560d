//! A text: a file's content from its beginning to its end or truncation, and how far it is read.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::fingerprint::Fingerprint;
use crate::inode::{Identity, Seen};
use crate::position::Position;

/// A text's number in this process, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(crate) u64);

/// A range of a text that was sent and isn't acknowledged. Call [`crate::Tail::acknowledge`] with
/// it once its records are safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a range that is never acknowledged is read again after a restart"]
pub struct Ticket {
    pub(crate) file: FileId,
    number: u64,
}

/// No file's identity: that of a file whose inode another one has.
pub(crate) const NOWHERE: Identity = (0, 0);

/// Whether a text is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not open. `taken` is where it continues.
    Closed,
    Open,
    /// It has no file and waits for none, only for acknowledgements.
    Over,
}

#[derive(Debug)]
struct Flight {
    number: u64,
    up_to: Position,
    done: bool,
}

/// A text.
#[derive(Debug)]
pub(crate) struct Text {
    pub(crate) source: usize,
    /// Its file's name when that was judged last.
    pub(crate) path: Arc<Path>,
    /// Its last name that is read. Rotated names derive from it.
    pub(crate) base: Arc<Path>,
    pub(crate) fingerprint: Fingerprint,
    /// Everything before this is acknowledged.
    pub(crate) committed: Position,
    /// Everything before this was read.
    pub(crate) read: u64,
    /// Everything before this is in records. A closed text continues here.
    pub(crate) taken: Position,
    /// Its bytes, by the last look or read.
    pub(crate) size: u64,
    /// Its length, once it was read to its end: of a compressed file, or one that is gone.
    pub(crate) end: Option<u64>,
    pub(crate) state: State,
    /// Its first reading begins at its end.
    pub(crate) at_end: bool,
    /// The file it is read from. For a closed text, a guess until that is judged.
    pub(crate) inode: Option<Identity>,
    /// The file that had it last, to find it again.
    pub(crate) was: Identity,
    /// Size and stamp of its compressed file on record. Unchanged, that isn't opened.
    pub(crate) packed: Option<(u64, u64)>,
    /// Looks left to find a file that has it.
    pub(crate) patience_looks: u32,
    /// Known from disk, and not seen since.
    pub(crate) recalled: bool,
    /// Looks in which the open file had no more.
    pub(crate) looks_at_end: u32,
    flights: VecDeque<Flight>,
    next_number: u64,
}

impl Text {
    pub(crate) fn new(source: usize, path: Arc<Path>, was: Identity, from: Position) -> Self {
        Self {
            source,
            base: Arc::clone(&path),
            path,
            fingerprint: Fingerprint::default(),
            committed: from,
            read: from.offset,
            taken: from,
            size: from.offset,
            end: None,
            state: State::Closed,
            at_end: false,
            inode: None,
            was,
            packed: None,
            patience_looks: 0,
            recalled: false,
            looks_at_end: 0,
            flights: VecDeque::new(),
            next_number: 0,
        }
    }

    /// Its file has this name.
    pub(crate) fn name(&mut self, seen: &Seen) {
        self.path = Arc::clone(&seen.path);
        if seen.inside {
            self.base = Arc::clone(&seen.path);
            self.source = seen.source;
        }
    }

    /// Whether it is open, and read from this file.
    pub(crate) fn is_open_in(&self, file: Identity) -> bool {
        self.state == State::Open && self.inode == Some(file)
    }

    /// Whether nothing of its content is known.
    pub(crate) fn is_blank(&self) -> bool {
        self.fingerprint.covered_bytes() == 0
    }

    /// Whether a file that begins with `head` may have it.
    pub(crate) fn is_like(&self, head: &[u8]) -> bool {
        !self.is_blank() && self.fingerprint.fits(head)
    }

    /// Bytes seen and not read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        if self.is_ended() { 0 } else { self.size.saturating_sub(self.read) }
    }

    /// Bytes seen and not acknowledged.
    pub(crate) fn behind_bytes(&self) -> u64 {
        self.size.saturating_sub(self.committed.offset)
    }

    /// Whether it was read to its end.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some_and(|end| self.taken.offset >= end)
    }

    /// Whether all that is in records is acknowledged.
    pub(crate) fn is_safe(&self) -> bool {
        self.flights.is_empty() && self.committed.offset >= self.taken.offset
    }

    pub(crate) fn send(&mut self, file: FileId, up_to: Position) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        if self.flights.is_empty() {
            // Most texts have one, and thousands may have it at once.
            self.flights.reserve_exact(1);
        }
        self.flights.push_back(Flight { number, up_to, done: false });
        Ticket { file, number }
    }

    /// Takes an acknowledgement. Whether the committed position has moved.
    pub(crate) fn acknowledge(&mut self, ticket: Ticket) -> bool {
        let mut flights = self.flights.iter_mut();
        if let Some(flight) = flights.find(|flight| flight.number == ticket.number) {
            flight.done = true;
        }
        let before = self.committed;
        while self.flights.front().is_some_and(|flight| flight.done) {
            if let Some(flight) = self.flights.pop_front() {
                self.committed = flight.up_to;
            }
        }
        if self.flights.is_empty() {
            self.flights = VecDeque::new();
        }
        self.committed != before
    }
}
