//! One file: where it was seen, how far it is read, and what of that is acknowledged.

use std::collections::VecDeque;
use std::path::PathBuf;

use crate::fingerprint::Fingerprint;
use crate::machine::FileId;

/// A range of a file that was sent and isn't acknowledged. Give it back with
/// [`crate::Tail::acknowledge`] once the records in it are safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a range that is never acknowledged is read again after a restart"]
pub struct Ticket {
    pub(crate) file: FileId,
    pub(crate) generation: u64,
    pub(crate) number: u64,
}

/// Times that a file began again whose copies are still told apart: 8 in the quarter of a second
/// between two looks are more than any rotation makes.
const FORMERS_MAX: usize = 8;

/// Looks in which a copy of a file that began again is found and opened: the next one, and one more
/// for a head that wasn't written yet.
const UNSETTLED_LOOKS: u8 = 2;

/// Whether the file is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Not open; `read` is where it is continued.
    Closed,
    /// Asked to be opened.
    Opening,
    /// Open.
    Open,
    /// Read to its end and closed, and not there any more: it waits for acknowledgements.
    Finished,
}

/// Where the last look found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under a name that is read.
    Inside,
    /// Under another name in a directory that was looked at.
    Outside,
    /// Not at all, for so many looks.
    Unseen(u32),
}

#[derive(Debug)]
struct Flight {
    number: u64,
    up_to: u64,
    done: bool,
}

/// A file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) source: usize,
    pub(crate) path: PathBuf,
    /// The last name of it that is read: what rotated names are derived from.
    pub(crate) base: PathBuf,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) fingerprint: Fingerprint,
    /// Grows each time the file begins again at 0.
    pub(crate) generation: u64,
    /// Everything before it is acknowledged.
    pub(crate) committed: u64,
    /// Everything before it was read.
    pub(crate) read: u64,
    /// Everything before it is in records.
    pub(crate) taken: u64,
    /// As the last look or read found it.
    pub(crate) size: u64,
    /// Changes when the file is written, as the last look found it.
    pub(crate) modified: u64,
    pub(crate) state: State,
    pub(crate) place: Place,
    /// Known from a checkpoint, and not seen since.
    pub(crate) recalled: bool,
    /// The head is compared at the next look whatever that shows: a stamp has the coarse grain of
    /// the system's tick, so a second write may not change it; or it could not be opened.
    pub(crate) suspect: bool,
    /// Looks in which the open file had nothing more.
    pub(crate) looks_at_end: u32,
    /// Taken for a rotated file of its base, by its name and its time alone.
    pub(crate) stranger: bool,
    /// How it began before it began again, and how far it was read: the last few times.
    pub(crate) formers: VecDeque<(Fingerprint, u64)>,
    /// The stamp of what is known to be in it. Rotated files and copies that are younger aren't
    /// read.
    pub(crate) verified: u64,
    /// Looks until the stamp may be verified again: a copy is looked for first.
    pub(crate) unsettled: u8,
    /// A file beside it that begins like it: a copy, made to truncate this one.
    pub(crate) copy: Option<(u64, u64)>,
    flights: VecDeque<Flight>,
    next_number: u64,
}

impl File {
    pub(crate) fn new(source: usize, path: PathBuf, identity: (u64, u64), offset: u64) -> Self {
        Self {
            source,
            base: path.clone(),
            path,
            device: identity.0,
            inode: identity.1,
            fingerprint: Fingerprint::default(),
            generation: 0,
            committed: offset,
            read: offset,
            taken: offset,
            size: offset,
            modified: 0,
            state: State::Closed,
            place: Place::Inside,
            recalled: false,
            suspect: false,
            looks_at_end: 0,
            stranger: false,
            formers: VecDeque::new(),
            verified: 0,
            unsettled: 0,
            copy: None,
            flights: VecDeque::new(),
            next_number: 0,
        }
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// What is known to be there and wasn't read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.size.saturating_sub(self.read)
    }

    /// What is known to be there and isn't acknowledged.
    pub(crate) fn behind_bytes(&self) -> u64 {
        self.size.saturating_sub(self.committed)
    }

    /// What is in it is another text now: begins again at 0. How many bytes were never read.
    pub(crate) fn begin_again(&mut self) -> u64 {
        let lost = self.size.saturating_sub(self.taken);
        self.formers.push_front((self.fingerprint, self.taken));
        self.formers.truncate(FORMERS_MAX);
        self.unsettled = UNSETTLED_LOOKS;
        self.generation += 1;
        self.committed = 0;
        self.read = 0;
        self.taken = 0;
        self.size = 0;
        self.fingerprint = Fingerprint::default();
        self.flights.clear();
        self.looks_at_end = 0;
        lost
    }

    /// All that the last look saw of it was read, and was what it should be.
    pub(crate) fn settle(&mut self) {
        if self.unsettled == 0 && self.unread_bytes() == 0 {
            self.verified = self.modified;
        }
    }

    pub(crate) fn send(&mut self, file: FileId, up_to: u64) -> Ticket {
        let number = self.next_number;
        self.next_number += 1;
        self.flights.push_back(Flight { number, up_to, done: false });
        Ticket { file, generation: self.generation, number }
    }

    /// Whether the committed position has moved.
    pub(crate) fn acknowledge(&mut self, ticket: Ticket) -> bool {
        if ticket.generation != self.generation {
            return false;
        }
        let found = self.flights.iter_mut().find(|flight| flight.number == ticket.number);
        if let Some(flight) = found {
            flight.done = true;
        }
        let before = self.committed;
        while self.flights.front().is_some_and(|flight| flight.done) {
            let up_to = self.flights.pop_front().map_or(0, |flight| flight.up_to);
            self.committed = self.committed.max(up_to);
        }
        self.committed != before
    }

    pub(crate) fn is_all_acknowledged(&self) -> bool {
        self.flights.is_empty()
    }
}
