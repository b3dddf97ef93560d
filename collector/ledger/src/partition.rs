//! The ledger of one partition during one assignment.
//!
//! Ranges are kept in offset order in a deque: a batch of 100,000 records is one entry, whatever
//! the number of messages in it. Finished ranges leave from the front; those that finished out of
//! order wait behind an unfinished one, because a restart would read them again.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use crate::intent::{Apart, Cut, CutPlan, Intent, MAX_OPEN_RANGES};
use crate::range::{Generation, OffsetRange};

/// Ranges of one partition that may be salvaged at once, beside the first open one, without which
/// none of them could ever leave. How far each is takes at most 52 bytes (a table and a day of 8
/// digits, two numbers of 16, four separators): 13 x 52 = 676.
pub(crate) const MAX_APART: usize = 12;

/// Why a range can't be tracked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackError {
    /// The partition isn't assigned: the caller must drop the batch, its next owner reads it.
    #[error("the partition is not assigned to this worker")]
    NotAssigned,
    /// The range begins before the end of the last one: the source went back without a rewind.
    #[error("range {range} begins before offset {expected}, the end of what is tracked")]
    OutOfOrder {
        /// The range refused.
        range: OffsetRange,
        /// The lowest offset that would have been accepted.
        expected: i64,
    },
    /// Too much is open: wait for answers before cutting another batch.
    #[error("{MAX_OPEN_RANGES} ranges of the partition are open already")]
    Full,
}

/// What an answer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The range waits for more of its parts.
    Waiting,
    /// The range is done; the commit point did not move, an older one is still open.
    Done,
    /// The range is done and the commit point moved.
    Moved,
    /// The range failed: the partition has to be rewound.
    Failed,
    /// The answer belongs to an older assignment, or to nothing that is open. Nothing changed.
    Stale,
}

/// A partition's figures at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The assignment they belong to.
    pub generation: Generation,
    /// Where a restart would begin, when anything is known yet.
    pub commit_point: Option<i64>,
    /// What the broker confirmed last.
    pub committed: Option<i64>,
    /// Ranges that wait for an answer.
    pub open_ranges: usize,
    /// Offsets from the commit point to the end of what was tracked.
    pub open_offsets: i64,
}

#[derive(Debug)]
struct Entry {
    intent: Intent,
    /// Parts not yet answered; 0 = done.
    open_parts: u32,
    /// What a confirmed commit has named of it, if one has.
    announced: Option<Intent>,
}

impl Entry {
    fn range(&self) -> OffsetRange {
        self.intent.range
    }

    fn is_announced(&self) -> bool {
        self.announced == Some(self.intent)
    }
}

#[derive(Debug)]
pub(crate) struct PartitionLedger {
    pub(crate) generation: Generation,
    /// In offset order, without overlap; the front one is never done.
    entries: VecDeque<Entry>,
    /// Ranges cut before this assignment (or before a rewind) and not yet cut again. They stay
    /// named in every commit until they are.
    promised: CutPlan,
    /// The end of what is done or was committed before, when known.
    done_to: Option<i64>,
    /// Confirmed by the broker.
    committed: Option<i64>,
    /// Asked for and not yet answered, or answered well.
    requested: Option<i64>,
    /// A part was given up: nothing of this assignment may finish any more.
    failed: bool,
}

impl PartitionLedger {
    pub(crate) fn new(
        generation: Generation,
        committed: Option<i64>,
        promised: Vec<Intent>,
    ) -> Self {
        Self {
            generation,
            entries: VecDeque::new(),
            promised: CutPlan::new(promised),
            done_to: committed,
            committed,
            requested: committed,
            failed: false,
        }
    }

    pub(crate) fn track(
        &mut self,
        intent: Intent,
        parts: Option<NonZeroU32>,
    ) -> Result<Settled, TrackError> {
        let range = intent.range;
        let expected = self.entries.back().map(|e| e.range().next()).or(self.done_to).unwrap_or(0);
        if range.first() < expected {
            return Err(TrackError::OutOfOrder { range, expected });
        }
        if !self.has_room() {
            return Err(TrackError::Full);
        }
        self.promised.forget_before(range.next());
        let open_parts = parts.map_or(0, NonZeroU32::get);
        self.entries.push_back(Entry { intent, open_parts, announced: None });
        Ok(if open_parts == 0 { self.collect() } else { Settled::Waiting })
    }

    pub(crate) fn ack(&mut self, range: OffsetRange) -> Settled {
        match self.open_entry(range) {
            None => Settled::Stale,
            Some(entry) => {
                entry.open_parts -= 1;
                if entry.open_parts > 0 { Settled::Waiting } else { self.collect() }
            }
        }
    }

    pub(crate) fn nack(&mut self, range: OffsetRange) -> Settled {
        if self.open_entry(range).is_none() {
            return Settled::Stale;
        }
        self.failed = true;
        Settled::Failed
    }

    /// The entry of `range` if it still waits for answers.
    fn open_entry(&mut self, range: OffsetRange) -> Option<&mut Entry> {
        if self.failed {
            return None;
        }
        let at = self.place(range)?;
        self.entries.get_mut(at).filter(|e| e.open_parts > 0)
    }

    fn place(&self, range: OffsetRange) -> Option<usize> {
        let found = self.entries.binary_search_by_key(&range.first(), |e| e.range().first());
        found.ok().filter(|at| self.entries.get(*at).is_some_and(|e| e.range() == range))
    }

    /// Lets finished ranges leave from the front.
    fn collect(&mut self) -> Settled {
        let before = self.done_to;
        while let Some(entry) = self.entries.front().filter(|e| e.open_parts == 0) {
            self.done_to = Some(entry.range().next());
            self.entries.pop_front();
        }
        if self.done_to == before { Settled::Done } else { Settled::Moved }
    }

    pub(crate) fn commit_point(&self) -> Option<i64> {
        self.entries.front().map(|e| e.range().first()).or(self.done_to)
    }

    /// All batches a restart would have to cut again, in order.
    pub(crate) fn open_batches(&self) -> Vec<Intent> {
        self.entries.iter().map(|e| e.intent).chain(self.promised.batches()).collect()
    }

    /// How the message at `offset` may be cut.
    pub(crate) fn cut_at(&self, offset: i64) -> Cut {
        self.promised.at(offset)
    }

    /// The point to commit now, if the broker lacks it; `announce` counts unannounced ranges
    /// as a change.
    pub(crate) fn commit_due(&mut self, announce: bool) -> Option<i64> {
        let point = self.commit_point()?;
        let moved = self.has_commit_due();
        let unannounced = announce && self.entries.iter().any(|e| !e.is_announced());
        if !moved && !unannounced {
            return None;
        }
        self.requested = Some(point);
        Some(point)
    }

    pub(crate) fn has_commit_due(&self) -> bool {
        // Before anything is done there is nothing to commit.
        self.done_to.is_some()
            && self.commit_point().is_some_and(|point| self.requested.is_none_or(|r| r < point))
    }

    pub(crate) fn commit_answered(&mut self, point: i64, announced: &[Intent], ok: bool) {
        if !ok {
            self.requested = self.committed;
            return;
        }
        self.committed = self.committed.max(Some(point));
        for intent in announced {
            let place = self.place(intent.range);
            if let Some(entry) = place.and_then(|at| self.entries.get_mut(at)) {
                entry.announced = Some(*intent);
            }
        }
    }

    /// Whether a confirmed commit names the range as it is now, with how far it is salvaged.
    pub(crate) fn is_announced(&self, range: OffsetRange) -> bool {
        let entry = self.place(range).and_then(|at| self.entries.get(at));
        entry.is_some_and(Entry::is_announced)
    }

    /// Parts of a range that aren't answered; none when the range is done, or nothing of it counts
    /// any more.
    pub(crate) fn open_parts(&self, range: OffsetRange) -> Option<u32> {
        let entry = self.place(range).and_then(|at| self.entries.get(at))?;
        (!self.failed && entry.open_parts > 0).then_some(entry.open_parts)
    }

    pub(crate) fn apart(&self, range: OffsetRange) -> Option<Apart> {
        self.place(range).and_then(|at| self.entries.get(at))?.intent.apart
    }

    /// Records how far a range is salvaged. False when there is no room to name it: then some other
    /// has to be committed first.
    pub(crate) fn tell_apart(&mut self, range: OffsetRange, apart: Apart) -> bool {
        let Some(at) = self.place(range) else { return false };
        let named = self.open_batches().iter().filter(|batch| batch.apart.is_some()).count();
        let Some(entry) = self.entries.get_mut(at) else { return false };
        if entry.intent.apart.is_none() && named >= MAX_APART && at > 0 {
            return false;
        }
        entry.intent.apart = Some(apart);
        true
    }

    /// Whether ranges of an earlier try are still to be cut again.
    pub(crate) fn has_promises(&self) -> bool {
        self.promised.len() > 0
    }

    /// Notes promised batches that end at `low` or before as done: their messages are deleted, so
    /// nobody can cut them again. Where the last of them ended.
    pub(crate) fn pass_deleted(&mut self, low: i64) -> Option<i64> {
        let mut end = None;
        let first = |plan: &CutPlan| plan.batches().next().filter(|b| b.range.next() <= low);
        while let Some(batch) = first(&self.promised) {
            if self.track(batch, None).is_err() {
                break;
            }
            end = Some(batch.range.next());
        }
        end
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// A promised range takes the place it already has; the last place is kept for the case that
    /// a batch falls between two promised ones.
    pub(crate) fn has_room(&self) -> bool {
        self.entries.len() < MAX_OPEN_RANGES
            && self.entries.len() + self.promised.len() <= MAX_OPEN_RANGES
    }

    pub(crate) fn committed(&self) -> Option<i64> {
        self.committed
    }

    /// Sets what the broker has confirmed, which may lie behind the point this ledger begins at.
    pub(crate) fn restore_committed(&mut self, committed: Option<i64>) {
        self.committed = committed;
        self.requested = committed;
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let end = self.entries.back().map(|e| e.range().next());
        let open_offsets = match (self.commit_point(), end) {
            (Some(point), Some(end)) => end - point,
            _ => 0,
        };
        Snapshot {
            generation: self.generation,
            commit_point: self.commit_point(),
            committed: self.committed,
            open_ranges: self.entries.iter().filter(|e| e.open_parts > 0).count(),
            open_offsets,
        }
    }
}
