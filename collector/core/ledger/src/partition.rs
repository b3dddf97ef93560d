//! The ledger of one partition during one assignment.
//!
//! A deque holds the ranges in offset order: a batch of 100,000 records is one entry, whatever its
//! number of messages. Finished ranges leave from the front. A range that finishes out of order
//! waits behind the unfinished one, because a restart would read both again.

use std::collections::VecDeque;
use std::num::NonZeroU32;

use crate::commit::Commit;
use crate::division::{Divisions, MAX_LATER_BYTES, PartName, RefusedParts};
use crate::intent::{Cut, CutPlan, Intent, MAX_OPEN_RANGES, Promises};
use crate::range::{Generation, OffsetRange};

/// The reason why a range can't be tracked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackError {
    /// The partition isn't assigned. The caller must drop the batch; the next owner reads it.
    #[error("the partition is not assigned to this worker")]
    NotAssigned,
    /// The range begins before the end of the last one: the source went back without a rewind.
    #[error("range {range} begins before offset {expected}, the end of what is tracked")]
    OutOfOrder {
        /// The refused range.
        range: OffsetRange,
        /// The lowest offset that would have been accepted.
        expected: i64,
    },
    /// Too many ranges are open. The caller must wait for answers before it cuts another batch.
    #[error("{MAX_OPEN_RANGES} ranges of the partition are open already")]
    Full,
}

/// The effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckOutcome {
    /// Parts of the range are still unanswered.
    Waiting,
    /// The range is done; an older one is still open, so the commit point did not move.
    Done,
    /// The range is done and the commit point moved.
    Moved,
    /// All parts of the range are answered and some were refused: it is divided, at the latest once
    /// no older range is open.
    Refused,
    /// The range failed: the caller must rewind the partition.
    Failed,
    /// The answer belongs to an older assignment or to no open range. Nothing changed.
    Stale,
}

#[derive(Debug)]
struct InFlightRange {
    intent: Intent,
    parts: u32,
    /// Unanswered parts.
    open_parts: u32,
    /// The parts that were refused for their rows.
    refused: RefusedParts,
    /// The refused parts are among the divisions: the partition has to be read again from here.
    is_divided: bool,
}

impl InFlightRange {
    fn range(&self) -> OffsetRange {
        self.intent.range
    }

    fn is_done(&self) -> bool {
        self.open_parts == 0 && self.refused.is_empty()
    }

    fn is_refused(&self) -> bool {
        self.open_parts == 0 && !self.refused.is_empty()
    }
}

#[derive(Debug)]
pub(crate) struct PartitionLedger {
    pub(crate) generation: Generation,
    /// In offset order, without overlap; the front one is never done.
    entries: VecDeque<InFlightRange>,
    /// Ranges cut before this assignment (or before a rewind) and not yet cut again. Every commit
    /// names them until they are.
    promised: CutPlan,
    /// Ranges that are read again in pieces. Every commit names them until they are committed.
    divisions: Divisions,
    /// The divisions as a confirmed commit names them.
    announced_divisions: Divisions,
    /// The end of the offsets that are done or were committed before, if known.
    done_to: Option<i64>,
    /// The offset that the broker confirmed.
    committed: Option<i64>,
    /// The offset that was requested and is unanswered or confirmed.
    requested: Option<i64>,
    /// The end of the ranges that were tracked when the last commit was requested, and when the
    /// last confirmed one was. What earlier commits name doesn't count: the messages that were read
    /// since may be those of another topic.
    requested_to: i64,
    confirmed_to: i64,
    /// The end of the ranges that were cut before, in an earlier assignment or before a rewind.
    repeated_to: i64,
    /// A part failed: no range of this assignment may finish any more.
    failed: bool,
}

impl PartitionLedger {
    pub(crate) fn new(generation: Generation, committed: Option<i64>, promises: Promises) -> Self {
        let divisions = Divisions::new(promises.divisions);
        Self {
            generation,
            entries: VecDeque::new(),
            requested_to: 0,
            confirmed_to: 0,
            repeated_to: promises.ranges.last().map_or(0, |last| last.range.next()),
            promised: CutPlan::new(promises.ranges),
            announced_divisions: divisions.clone(),
            divisions,
            done_to: committed,
            committed,
            requested: committed,
            failed: false,
        }
    }

    pub(crate) fn track_batch(
        &mut self,
        intent: Intent,
        parts: Option<NonZeroU32>,
    ) -> Result<AckOutcome, TrackError> {
        let range = intent.range;
        let expected = self.end();
        if range.first() < expected {
            return Err(TrackError::OutOfOrder { range, expected });
        }
        if !self.has_capacity() {
            return Err(TrackError::Full);
        }
        self.promised.forget_before(range.next());
        let open_parts = parts.map_or(0, NonZeroU32::get);
        self.entries.push_back(InFlightRange {
            intent,
            parts: open_parts,
            open_parts,
            refused: RefusedParts::default(),
            is_divided: false,
        });
        // The commit point passes divided ranges whose messages are deleted.
        self.divisions.forget_before(self.commit_point().unwrap_or(0));
        Ok(if open_parts == 0 { self.pop_finished() } else { AckOutcome::Waiting })
    }

    pub(crate) fn ack_part(&mut self, range: OffsetRange) -> AckOutcome {
        self.answer(range, None)
    }

    pub(crate) fn refuse_part(&mut self, range: OffsetRange, part: PartName) -> AckOutcome {
        self.answer(range, Some(part))
    }

    fn answer(&mut self, range: OffsetRange, refused: Option<PartName>) -> AckOutcome {
        let Some(entry) = self.open_entry(range) else { return AckOutcome::Stale };
        entry.open_parts -= 1;
        refused.into_iter().for_each(|part| entry.refused.insert(part));
        if entry.open_parts > 0 {
            AckOutcome::Waiting
        } else if entry.is_refused() {
            self.divide_refused();
            AckOutcome::Refused
        } else {
            self.pop_finished()
        }
    }

    /// Divides the refused ranges that the metadata of a commit can name. The first open one always
    /// fits: no other one could be committed before it.
    fn divide_refused(&mut self) {
        let point = self.commit_point().unwrap_or(0);
        for (at, entry) in self.entries.iter_mut().enumerate() {
            if !entry.is_refused() || entry.is_divided {
                continue;
            }
            let mut divisions = self.divisions.clone();
            divisions.divide(entry.intent.range, &entry.refused);
            if at == 0 || divisions.text_bytes(point) <= MAX_LATER_BYTES {
                entry.is_divided = true;
                self.divisions = divisions;
            }
        }
    }

    pub(crate) fn nack_part(&mut self, range: OffsetRange) -> AckOutcome {
        if self.open_entry(range).is_none() {
            return AckOutcome::Stale;
        }
        self.failed = true;
        AckOutcome::Failed
    }

    /// Returns the last ranges to the promised ones, as long as all their parts are unanswered and
    /// `unsent_parts` returns that as many wait. Returns where the first one begins.
    pub(crate) fn withdraw_unsent(
        &mut self,
        unsent_parts: impl Fn(OffsetRange) -> u32,
    ) -> Option<i64> {
        let mut first = None;
        while let Some(entry) = self.entries.back()
            && entry.open_parts == entry.parts
            && unsent_parts(entry.range()) == entry.parts
        {
            first = Some(entry.range().first());
            self.promised.push_front(entry.intent);
            self.entries.pop_back();
        }
        self.requested_to = self.requested_to.min(self.end());
        self.confirmed_to = self.confirmed_to.min(self.end());
        first
    }

    /// Returns the entry of `range` if it still waits for answers.
    fn open_entry(&mut self, range: OffsetRange) -> Option<&mut InFlightRange> {
        if self.failed {
            return None;
        }
        let at = self.entry_index(range)?;
        self.entries.get_mut(at).filter(|e| e.open_parts > 0)
    }

    fn entry_index(&self, range: OffsetRange) -> Option<usize> {
        let found = self.entries.binary_search_by_key(&range.first(), |e| e.range().first());
        found.ok().filter(|at| self.entries.get(*at).is_some_and(|e| e.range() == range))
    }

    /// Removes finished ranges from the front.
    fn pop_finished(&mut self) -> AckOutcome {
        let before = self.done_to;
        while let Some(entry) = self.entries.front().filter(|e| e.is_done()) {
            self.done_to = Some(entry.range().next());
            self.entries.pop_front();
        }
        if self.done_to != before {
            self.divisions.forget_before(self.commit_point().unwrap_or(0));
            self.divide_refused();
        }
        if self.done_to == before { AckOutcome::Done } else { AckOutcome::Moved }
    }

    /// Returns the end of what is tracked.
    fn end(&self) -> i64 {
        self.entries.back().map(|entry| entry.range().next()).or(self.done_to).unwrap_or(0)
    }

    pub(crate) fn commit_point(&self) -> Option<i64> {
        self.entries.front().map(|e| e.range().first()).or(self.done_to)
    }

    /// Returns everything that a restart would have to cut again, in order.
    pub(crate) fn promises(&self) -> Promises {
        let undivided = self.entries.iter().filter(|e| !e.is_divided).map(|e| e.intent);
        Promises {
            topic: None,
            ranges: undivided.chain(self.promised.batches()).collect(),
            divisions: self.divisions.list().to_vec(),
        }
    }

    /// Returns a commit of `offset`; with `announce` it names the promises.
    pub(crate) fn commit<K>(&self, key: K, offset: i64, announce: bool) -> Commit<K> {
        let promises = if announce { self.promises() } else { Promises::default() };
        Commit { key, generation: self.generation, offset, promises }
    }

    /// Returns how the message at `offset` may be cut.
    pub(crate) fn cut_at(&self, offset: i64) -> Cut {
        let cut = self.promised.cut_at(offset);
        match (cut, self.divisions.piece_at(offset)) {
            (Cut::Exactly(_), _) => cut,
            (_, Some(piece)) => Cut::Piece(piece),
            (_, None) => {
                let divided = self.divisions.first_after(offset);
                divided.map_or(cut, |first| cut.before(first))
            }
        }
    }

    /// Returns the parts to send again of the piece at `offset`, if it is in a division.
    pub(crate) fn refused_parts(&self, offset: i64) -> Option<RefusedParts> {
        self.divisions.refused_at(offset)
    }

    /// Whether the partition has to be read again for a divided range.
    pub(crate) fn has_divided(&self) -> bool {
        self.entries.iter().any(|entry| entry.is_divided)
    }

    /// Whether parts of the partition are unanswered.
    pub(crate) fn has_unanswered(&self) -> bool {
        self.entries.iter().any(|entry| entry.open_parts > 0)
    }

    /// Returns the point to commit now if the broker doesn't have it, or a range waits for a
    /// commit; with `announce` each range and division does, otherwise only repeated ones do.
    pub(crate) fn commit_due(&mut self, announce: bool) -> Option<i64> {
        let point = self.commit_point()?;
        let waits =
            |entry: &InFlightRange| !entry.is_divided && !self.may_send(entry.range(), announce);
        let is_waiting = self.entries.iter().any(waits)
            || announce && self.divisions != self.announced_divisions;
        if !is_waiting && !self.has_commit_due() {
            return None;
        }
        self.requested = Some(point);
        self.requested_to = self.end();
        Some(point)
    }

    pub(crate) fn has_commit_due(&self) -> bool {
        // Until an offset is done there is nothing to commit.
        self.done_to.is_some()
            && self.commit_point().is_some_and(|point| self.requested.is_none_or(|r| r < point))
    }

    pub(crate) fn commit_answered(&mut self, point: i64, announced: &Promises, ok: bool) {
        if !ok {
            self.requested = self.committed;
            return;
        }
        self.committed = self.committed.max(Some(point));
        self.confirmed_to = self.requested_to;
        self.announced_divisions = Divisions::new(announced.divisions.clone());
    }

    /// Whether inserts of the range may be sent.
    pub(crate) fn may_send(&self, range: OffsetRange, announce: bool) -> bool {
        let must_wait = announce || range.next() <= self.repeated_to;
        !must_wait || range.next() <= self.confirmed_to
    }

    /// Returns the number of unanswered parts of a range; `None` if the range is done or its
    /// answers no longer count.
    pub(crate) fn open_parts(&self, range: OffsetRange) -> Option<u32> {
        let entry = self.entry_index(range).and_then(|at| self.entries.get(at))?;
        (!self.failed && entry.open_parts > 0).then_some(entry.open_parts)
    }

    /// Whether ranges of an earlier attempt have yet to be cut again.
    pub(crate) fn has_promises(&self) -> bool {
        self.promised.len() > 0 || !self.divisions.is_empty()
    }

    /// Records promised batches that end at `low` or before as done, and forgets such divisions:
    /// their messages are deleted, so no worker can cut them again. Returns the end of the last
    /// one.
    pub(crate) fn pass_deleted(&mut self, low: i64) -> Option<i64> {
        let mut end = None;
        let first = |plan: &CutPlan| plan.batches().next().filter(|b| b.range.next() <= low);
        while let Some(batch) = first(&self.promised) {
            if self.track_batch(batch, None).is_err() {
                break;
            }
            end = Some(batch.range.next());
        }
        let promised = self.promised.batches().next().map(|batch| batch.range.first());
        end.max(self.divisions.forget_deleted(low, promised))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// A promised range uses the slot that it already has. The last slot is reserved for a batch
    /// that falls between two promised ones.
    pub(crate) fn has_capacity(&self) -> bool {
        self.entries.len() < MAX_OPEN_RANGES
            && self.entries.len() + self.promised.len() <= MAX_OPEN_RANGES
    }

    /// Restores what the broker confirmed to an earlier generation. The offset may be below the
    /// point at which this ledger begins.
    pub(crate) fn restore_committed(&mut self, old: &Self) {
        self.committed = old.committed;
        self.requested = old.committed;
        self.announced_divisions = old.announced_divisions.clone();
    }

    /// Returns the time of the first message of the lowest range that isn't done.
    pub(crate) fn oldest_millis(&self) -> Option<i64> {
        self.entries.front().map(|entry| entry.intent.first_millis)
    }

    /// Returns the ranges that aren't done, and the tracked offsets behind the confirmed commit.
    pub(crate) fn uncommitted(&self) -> (usize, i64) {
        let open_ranges = self.entries.iter().filter(|e| !e.is_done()).count();
        (open_ranges, self.end() - self.committed.unwrap_or(0))
    }
}
