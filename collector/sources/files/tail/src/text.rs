//! Tracks a text: a file's content from its beginning to its end or truncation, and how far it is
//! read.

pub(crate) mod fingerprint;
mod identify;
pub(crate) mod patience;
pub(crate) mod position;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::scan::inode::{FileId, FileObservation, InodeId};
use crate::text::fingerprint::Fingerprint;
use crate::text::position::Position;

/// A range of a text that was sent and isn't acknowledged. Call [`crate::Tail::acknowledge`] with
/// it once its records are safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a range that is never acknowledged is read again after a restart"]
pub struct Ticket {
    pub(crate) file: FileId,
    number: u64,
}

/// The identity of no file, for a text whose file's inode is reused.
pub(crate) const NOWHERE: InodeId = (0, 0);

/// Whether a text is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadState {
    /// Not open. `accepted` is the position at which it continues.
    Closed,
    Open,
    /// It has no file and waits only for acknowledgements.
    Finished,
}

#[derive(Debug)]
struct InFlightRange {
    number: u64,
    up_to: Position,
    done: bool,
}

/// A text.
#[derive(Debug)]
pub(crate) struct FileText {
    pub(crate) source: usize,
    /// Its file's name when that was last identified.
    pub(crate) path: Arc<Path>,
    /// Its last name that is read. Rotated names derive from it.
    pub(crate) base: Arc<Path>,
    pub(crate) fingerprint: Fingerprint,
    /// Everything before this is acknowledged.
    pub(crate) committed: Position,
    /// Everything before this was read.
    pub(crate) read: u64,
    /// Everything before this is in records. A closed text continues here.
    pub(crate) accepted: Position,
    /// Its bytes at the last scan or read.
    pub(crate) size: u64,
    /// Its length, once it was read to its end: of a compressed file, or one that is gone.
    pub(crate) end: Option<u64>,
    pub(crate) state: ReadState,
    /// Its first read begins at its end.
    pub(crate) at_end: bool,
    /// The file it is read from. For a closed text, a guess until that file is identified.
    pub(crate) inode: Option<InodeId>,
    /// The last file that had it, by which it is found again.
    pub(crate) last_file: InodeId,
    /// Recorded size and modification time of its compressed file. Unchanged, the file isn't
    /// opened.
    pub(crate) packed: Option<(u64, u64)>,
    /// Scans left to find a file that has it.
    pub(crate) patience_scans: u32,
    /// Restored from disk, and not observed since.
    pub(crate) recalled: bool,
    /// Scans in which the open file had no more.
    pub(crate) scans_at_end: u32,
    in_flight: VecDeque<InFlightRange>,
    next_number: u64,
}

impl FileText {
    pub(crate) fn new(source: usize, path: Arc<Path>, was: InodeId, from: Position) -> Self {
        Self {
            source,
            base: Arc::clone(&path),
            path,
            fingerprint: Fingerprint::default(),
            committed: from,
            read: from.offset,
            accepted: from,
            size: from.offset,
            end: None,
            state: ReadState::Closed,
            at_end: false,
            inode: None,
            last_file: was,
            packed: None,
            patience_scans: 0,
            recalled: false,
            scans_at_end: 0,
            in_flight: VecDeque::new(),
            next_number: 0,
        }
    }

    /// Updates its name from its file.
    pub(crate) fn set_name(&mut self, observation: &FileObservation) {
        self.path = Arc::clone(&observation.path);
        if observation.inside {
            self.base = Arc::clone(&observation.path);
            self.source = observation.source;
        }
    }

    /// Whether it is open, and read from this file.
    pub(crate) fn is_open_in(&self, file: InodeId) -> bool {
        self.state == ReadState::Open && self.inode == Some(file)
    }

    /// Whether none of its content is known.
    pub(crate) fn is_blank(&self) -> bool {
        self.fingerprint.covered_bytes() == 0
    }

    /// Whether a file that begins with `head` may have it.
    pub(crate) fn is_like(&self, head: &[u8]) -> bool {
        !self.is_blank() && self.fingerprint.matches_head(head)
    }

    /// Bytes that were observed and not read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        if self.is_ended() { 0 } else { self.size.saturating_sub(self.read) }
    }

    /// Bytes that were observed and aren't acknowledged.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.size.saturating_sub(self.committed.offset)
    }

    /// Whether it was read to its end.
    pub(crate) fn is_ended(&self) -> bool {
        self.end.is_some_and(|end| self.accepted.offset >= end)
    }

    /// Whether all records are acknowledged.
    pub(crate) fn is_safe(&self) -> bool {
        self.in_flight.is_empty() && self.committed.offset >= self.accepted.offset
    }

    pub(crate) fn track_sent(&mut self, file: FileId, up_to: Position) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        if self.in_flight.is_empty() {
            // Most texts have one range, and thousands may have it at once.
            self.in_flight.reserve_exact(1);
        }
        self.in_flight.push_back(InFlightRange { number, up_to, done: false });
        Ticket { file, number }
    }

    /// Applies an acknowledgement. Returns whether the committed position has moved.
    pub(crate) fn acknowledge(&mut self, ticket: Ticket) -> bool {
        let mut flights = self.in_flight.iter_mut();
        if let Some(flight) = flights.find(|flight| flight.number == ticket.number) {
            flight.done = true;
        }
        let before = self.committed;
        while self.in_flight.front().is_some_and(|flight| flight.done) {
            if let Some(flight) = self.in_flight.pop_front() {
                self.committed = flight.up_to;
            }
        }
        if self.in_flight.is_empty() {
            self.in_flight = VecDeque::new();
        }
        self.committed != before
    }
}
