//! One file: where it was seen, how far it is read, and what of that is acknowledged.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use crate::fingerprint::Fingerprint;
use crate::machine::FileId;
use crate::packed::{Packed, is_kin};
use crate::position::Position;

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

impl Place {
    pub(crate) fn is_unseen(self) -> bool {
        matches!(self, Self::Unseen(_))
    }
}

/// The identity of a file that is gone and whose inode another file has: no file's.
const NOWHERE: (u64, u64) = (0, 0);

/// How a file was called.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) path: PathBuf,
    pub(crate) base: PathBuf,
    pub(crate) source: usize,
}

#[derive(Debug)]
struct Flight {
    number: u64,
    up_to: Position,
    done: bool,
}

/// What was sent of one text and isn't acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    queue: VecDeque<Flight>,
    next_number: u64,
}

impl Flights {
    fn send(&mut self, up_to: Position) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        self.queue.push_back(Flight { number, up_to, done: false });
        number
    }

    /// The new committed position, if it has moved.
    fn acknowledge(&mut self, number: u64) -> Option<Position> {
        let found = self.queue.iter_mut().find(|flight| flight.number == number);
        if let Some(flight) = found {
            flight.done = true;
        }
        let mut committed = None;
        while self.queue.front().is_some_and(|flight| flight.done) {
            committed = self.queue.pop_front().map(|flight| flight.up_to);
        }
        committed
    }
}

/// Where a text was left.
#[derive(Debug)]
pub(crate) struct Left {
    taken: Position,
    committed: Position,
    flights: Flights,
}

/// What a file was before it began again: a copy of it is read on from where it was left.
#[derive(Debug)]
pub(crate) struct Former {
    pub(crate) fingerprint: Fingerprint,
    taken: Position,
    committed: Position,
    generation: u64,
    flights: Flights,
    /// Its copy, once that is found: what was sent of the text counts for it.
    heir: Option<FileId>,
    /// What was known to be in it and isn't in records: lost, if no copy is found.
    missing_bytes: u64,
}

impl Former {
    pub(crate) fn has_heir(&self) -> bool {
        self.heir.is_some()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }
}

/// A file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) source: usize,
    pub(crate) path: PathBuf,
    /// The last name of it that is read: what rotated names are derived from.
    pub(crate) base: PathBuf,
    /// Where it was before it was seen under another name while it wasn't open: until that is
    /// opened, it may be another file that has its inode now.
    pub(crate) before: Option<Names>,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) fingerprint: Fingerprint,
    /// Grows each time the file begins again at 0.
    pub(crate) generation: u64,
    /// Everything before it is acknowledged.
    pub(crate) committed: Position,
    /// Everything before it was read.
    pub(crate) read: u64,
    /// Everything before it is in records. A closed file is read on from here.
    pub(crate) taken: Position,
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
    /// Not opened yet, and to be read from its end.
    pub(crate) at_end: bool,
    /// Looks in which the open file had nothing more.
    pub(crate) looks_at_end: u32,
    /// Taken for a rotated file of its base, by its name and its time alone.
    pub(crate) stranger: bool,
    /// Of a stranger: it is younger than all that was known of its base when it was met.
    pub(crate) is_young: bool,
    /// What it was before it began again: the last few times.
    pub(crate) formers: VecDeque<Former>,
    /// The stamp of what is known to be in it. Rotated files and copies that are younger aren't
    /// read.
    pub(crate) verified: u64,
    /// Looks until the stamp may be verified again: a copy is looked for first.
    pub(crate) unsettled: u8,
    /// What is known of it if it is compressed. Its sizes and positions are of the text.
    pub(crate) packed: Option<Packed>,
    /// A file beside it that begins like it: a copy, made to truncate this one.
    pub(crate) copy: Option<(u64, u64)>,
    flights: Flights,
}

impl File {
    pub(crate) fn new(source: usize, path: PathBuf, identity: (u64, u64), from: Position) -> Self {
        Self {
            source,
            base: path.clone(),
            path,
            before: None,
            device: identity.0,
            inode: identity.1,
            fingerprint: Fingerprint::default(),
            generation: 0,
            committed: from,
            read: from.offset,
            taken: from,
            size: from.offset,
            modified: 0,
            state: State::Closed,
            place: Place::Inside,
            recalled: false,
            suspect: false,
            at_end: false,
            looks_at_end: 0,
            stranger: false,
            is_young: false,
            formers: VecDeque::new(),
            verified: 0,
            unsettled: 0,
            packed: None,
            copy: None,
            flights: Flights::default(),
        }
    }

    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// The names that it surely had last.
    pub(crate) fn sure_path(&self) -> &Path {
        self.before.as_ref().map_or(&self.path, |names| &names.path)
    }

    pub(crate) fn sure_base(&self) -> &Path {
        self.before.as_ref().map_or(&self.base, |names| &names.base)
    }

    /// Whether another text in it may be its own: it has the name that it had, or one of rotation
    /// of that.
    pub(crate) fn may_have_begun_again(&self) -> bool {
        let was_inside = self.sure_path() == self.sure_base();
        self.before.is_none() || was_inside && is_kin(self.sure_base(), &self.path)
    }

    /// Whether a copy of what it was, or its own place, is still looked for.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.unsettled > 0 || self.stranger && self.packed.is_none_or(|it| it.twin.is_none())
    }

    /// What it was before it began again, as a file that is gone.
    pub(crate) fn gone(&self, former: &Former) -> Self {
        let path = self.sure_path().to_owned();
        let source = self.before.as_ref().map_or(self.source, |names| names.source);
        let mut gone = Self::new(source, path, NOWHERE, Position::default());
        self.sure_base().clone_into(&mut gone.base);
        gone.fingerprint = former.fingerprint;
        gone.size = former.taken.offset + former.missing_bytes;
        gone.verified = self.verified;
        gone.place = Place::Unseen(0);
        gone
    }

    /// Another file has its inode now: it is gone.
    pub(crate) fn part(&mut self) {
        if let Some(Names { path, base, source }) = self.before.take() {
            (self.path, self.base, self.source) = (path, base, source);
        }
        (self.device, self.inode) = NOWHERE;
        self.place = Place::Unseen(0);
        self.unsettled = UNSETTLED_LOOKS;
    }

    /// What is known to be there and wasn't read.
    pub(crate) fn unread_bytes(&self) -> u64 {
        self.size.saturating_sub(self.read)
    }

    /// What is known to be there and isn't acknowledged.
    pub(crate) fn behind_bytes(&self) -> u64 {
        self.size.saturating_sub(self.committed.offset)
    }

    /// What is in it is another text now: begins again at 0.
    pub(crate) fn begin_again(&mut self) {
        self.formers.push_front(Former {
            fingerprint: self.fingerprint,
            taken: self.taken,
            committed: self.committed,
            generation: self.generation,
            flights: std::mem::take(&mut self.flights),
            heir: None,
            missing_bytes: self.size.saturating_sub(self.taken.offset),
        });
        self.formers.truncate(FORMERS_MAX);
        self.unsettled = UNSETTLED_LOOKS;
        self.generation += 1;
        self.committed = Position::default();
        self.read = 0;
        self.taken = Position::default();
        self.size = 0;
        self.fingerprint = Fingerprint::default();
        self.looks_at_end = 0;
    }

    /// What is missing of texts before this one of which no copy was found. Told once.
    pub(crate) fn take_lost(&mut self) -> u64 {
        let missing = self.formers.iter_mut().filter(|former| former.heir.is_none());
        missing.map(|former| std::mem::take(&mut former.missing_bytes)).sum()
    }

    /// All that the last look saw of it was read, and was what it should be. Whether that is news.
    pub(crate) fn settle(&mut self) -> bool {
        let is_news =
            self.unsettled == 0 && self.unread_bytes() == 0 && self.verified != self.modified;
        if is_news {
            self.verified = self.modified;
        }
        is_news
    }

    /// Where the text of a generation was left, for a copy of it.
    pub(crate) fn leave(&mut self, generation: u64, heir: FileId) -> Option<Left> {
        let former = self.formers.iter_mut().find(|former| former.generation == generation)?;
        former.heir = Some(heir);
        let flights = std::mem::take(&mut former.flights);
        Some(Left { taken: former.taken, committed: former.committed, flights })
    }

    /// The copy that has the text of a generation.
    pub(crate) fn heir(&self, generation: u64) -> Option<FileId> {
        self.formers.iter().find(|former| former.generation == generation)?.heir
    }

    /// Goes on where a text was left of which this is a copy.
    pub(crate) fn inherit(&mut self, left: Left) {
        self.taken = left.taken;
        self.read = left.taken.offset;
        self.committed = left.committed;
        self.flights = left.flights;
    }

    pub(crate) fn send(&mut self, file: FileId, up_to: Position) -> Ticket {
        Ticket { file, generation: self.generation, number: self.flights.send(up_to) }
    }

    /// Takes an acknowledgement. Who is meant if it is a copy.
    pub(crate) fn acknowledge(&mut self, ticket: Ticket) -> Acknowledged {
        if ticket.generation == self.generation {
            return self.acknowledge_number(ticket.number);
        }
        let mut formers = self.formers.iter_mut();
        let Some(former) = formers.find(|former| former.generation == ticket.generation) else {
            return Acknowledged::Same;
        };
        if let Some(heir) = former.heir {
            return Acknowledged::ForHeir(heir);
        }
        if let Some(committed) = former.flights.acknowledge(ticket.number) {
            former.committed = committed;
        }
        Acknowledged::Same
    }

    /// The same for what was sent of the text before this was its copy.
    pub(crate) fn acknowledge_inherited(&mut self, number: u64) -> Acknowledged {
        // Its own text is another by now, if it began again as well.
        if self.generation == 0 { self.acknowledge_number(number) } else { Acknowledged::Same }
    }

    fn acknowledge_number(&mut self, number: u64) -> Acknowledged {
        let Some(committed) = self.flights.acknowledge(number) else { return Acknowledged::Same };
        let moved = self.committed != committed;
        self.committed = committed;
        if moved { Acknowledged::Moved } else { Acknowledged::Same }
    }

    /// Whether it isn't there any more, nor open.
    pub(crate) fn is_gone(&self) -> bool {
        self.place.is_unseen() && self.state == State::Closed
    }

    pub(crate) fn is_all_acknowledged(&self) -> bool {
        self.flights.queue.is_empty()
    }
}

/// What an acknowledgement did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// The committed position is as before.
    Same,
    /// It has moved.
    Moved,
    /// The text is a copy's by now.
    ForHeir(FileId),
}
