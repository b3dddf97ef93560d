//! The ledger of one partition during one assignment.
//!
//! Ranges are kept in offset order in a deque: a batch of 100,000 records is one entry, whatever
//! the number of messages in it. Finished ranges leave from the front; those that finished out of
//! order wait behind an unfinished one, because a restart would read them again.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use crate::intent::{Cut, CutPlan};
use crate::range::{Generation, OffsetRange};

/// Ranges of one partition that may be open at once. Their list must fit into the metadata of a
/// Kafka commit (see [`crate::MAX_METADATA_BYTES`]): each takes at most 34 bytes there (two
/// numbers of 16 hexadecimal digits and two separators), and 100 x 34 + the header is below 4,096.
pub const MAX_OPEN_RANGES: usize = 100;

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
    range: OffsetRange,
    /// Parts not yet answered; 0 = done.
    open_parts: u32,
    /// Whether a commit that names this range was confirmed.
    announced: bool,
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
    /// A part was nacked: nothing of this assignment may finish any more.
    failed: bool,
}

impl PartitionLedger {
    pub(crate) fn new(
        generation: Generation,
        committed: Option<i64>,
        promised: Vec<OffsetRange>,
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
        range: OffsetRange,
        parts: Option<NonZeroU32>,
    ) -> Result<Settled, TrackError> {
        let expected = self.entries.back().map(|e| e.range.next()).or(self.done_to).unwrap_or(0);
        if range.first() < expected {
            return Err(TrackError::OutOfOrder { range, expected });
        }
        if !self.has_room() {
            return Err(TrackError::Full);
        }
        self.promised.forget_before(range.next());
        let open_parts = parts.map_or(0, NonZeroU32::get);
        self.entries.push_back(Entry { range, open_parts, announced: false });
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
        let at = self.entries.binary_search_by_key(&range.first(), |e| e.range.first()).ok()?;
        self.entries.get_mut(at).filter(|e| e.range == range && e.open_parts > 0)
    }

    /// Lets finished ranges leave from the front.
    fn collect(&mut self) -> Settled {
        let before = self.done_to;
        while let Some(entry) = self.entries.front().filter(|e| e.open_parts == 0) {
            self.done_to = Some(entry.range.next());
            self.entries.pop_front();
        }
        if self.done_to == before { Settled::Done } else { Settled::Moved }
    }

    pub(crate) fn commit_point(&self) -> Option<i64> {
        self.entries.front().map(|e| e.range.first()).or(self.done_to)
    }

    /// All ranges a restart would have to cut again, in order.
    pub(crate) fn open_ranges(&self) -> Vec<OffsetRange> {
        self.entries.iter().map(|e| e.range).chain(self.promised.ranges()).collect()
    }

    /// How the message at `offset` may be cut.
    pub(crate) fn cut_at(&self, offset: i64) -> Cut {
        self.promised.at(offset)
    }

    /// The point to commit now, if it is news to the broker; `announce` counts unannounced ranges
    /// as news.
    pub(crate) fn commit_due(&mut self, announce: bool) -> Option<i64> {
        let point = self.commit_point()?;
        let moved = self.has_commit_due();
        let unannounced = announce && self.entries.iter().any(|e| !e.announced);
        if !moved && !unannounced {
            return None;
        }
        self.requested = Some(point);
        Some(point)
    }

    pub(crate) fn has_commit_due(&self) -> bool {
        // Before anything is done there is nothing to say: the group begins where it would anyway.
        self.done_to.is_some()
            && self.commit_point().is_some_and(|point| self.requested.is_none_or(|r| r < point))
    }

    pub(crate) fn commit_answered(&mut self, point: i64, announced: &[OffsetRange], ok: bool) {
        if !ok {
            self.requested = self.committed;
            return;
        }
        self.committed = self.committed.max(Some(point));
        for range in announced {
            let found = self.entries.binary_search_by_key(&range.first(), |e| e.range.first());
            if let Some(entry) = found.ok().and_then(|at| self.entries.get_mut(at)) {
                entry.announced = true;
            }
        }
    }

    pub(crate) fn is_announced(&self, range: OffsetRange) -> bool {
        let found = self.entries.binary_search_by_key(&range.first(), |e| e.range.first());
        found.ok().and_then(|at| self.entries.get(at)).is_some_and(|e| e.announced)
    }

    /// Whether ranges of an earlier try are still to be cut again.
    pub(crate) fn has_promises(&self) -> bool {
        self.promised.len() > 0
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
        let end = self.entries.back().map(|e| e.range.next());
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
