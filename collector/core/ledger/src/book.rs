//! The ledgers of all partitions that a worker owns, and the generations that distinguish their
//! assignments.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::commit::Commit;
use crate::division::{PartName, RefusedParts};
use crate::intent::{Cut, Intent, Promises};
use crate::partition::{AckOutcome, PartitionLedger, TrackError};
use crate::range::{Generation, OffsetRange};

/// One tracked range of one assignment. Each part of a batch carries a copy and returns it with its
/// answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket<K> {
    /// The partition.
    pub key: K,
    /// The assignment that tracked the range.
    pub generation: Generation,
    /// The offsets of the batch.
    pub range: OffsetRange,
}

/// The offsets of all partitions of one worker. `K` names a partition.
#[derive(Debug)]
pub struct Ledger<K> {
    partitions: BTreeMap<K, PartitionLedger>,
    last_generation: u64,
}

impl<K: Copy + Ord> Default for Ledger<K> {
    fn default() -> Self {
        Self { partitions: BTreeMap::new(), last_generation: 0 }
    }
}

impl<K: Copy + Ord> Ledger<K> {
    /// Returns a ledger without partitions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an assignment of `key`. `committed` is the group's offset at the broker, if it has
    /// one; `promises` are those which that commit's metadata names (none with at-least-once
    /// delivery). An assignment of the partition that was never revoked is dropped, and its answers
    /// become stale.
    pub fn assign(&mut self, key: K, committed: Option<i64>, promises: Promises) -> Generation {
        let generation = self.next_generation();
        self.partitions.insert(key, PartitionLedger::new(generation, committed, promises));
        generation
    }

    /// Returns how the message at `offset` may be cut, given the promised ranges.
    #[must_use]
    pub fn cut_at(&self, key: K, offset: i64) -> Cut {
        self.partitions.get(&key).map_or(Cut::Free, |p| p.cut_at(offset))
    }

    /// Returns the parts to send of the piece at `offset`: all others of its batch are stored, and
    /// so are the dead letters of its messages that can't be decoded. `None` if the offset is in no
    /// divided range.
    #[must_use]
    pub fn refused_parts(&self, key: K, offset: i64) -> Option<RefusedParts> {
        self.partitions.get(&key)?.refused_parts(offset)
    }

    /// Whether a range of the partition was divided, so that the partition must be
    /// [rewound](Ledger::rewind) to read its pieces.
    #[must_use]
    pub fn has_divided(&self, key: K) -> bool {
        self.partitions.get(&key).is_some_and(PartitionLedger::has_divided)
    }

    /// Whether parts of the partition are unanswered.
    #[must_use]
    pub fn has_unanswered(&self, key: K) -> bool {
        self.partitions.get(&key).is_some_and(PartitionLedger::has_unanswered)
    }

    /// Whether ranges that were cut before this assignment have yet to be cut again.
    #[must_use]
    pub fn has_promises(&self, key: K) -> bool {
        self.partitions.get(&key).is_some_and(PartitionLedger::has_promises)
    }

    /// Records promised batches that end at `low` or before as done: Kafka deleted their messages,
    /// so no answer will come for them. Returns the end of the last one, where reading continues.
    pub fn pass_deleted(&mut self, key: K, low: i64) -> Option<i64> {
        self.partitions.get_mut(&key)?.pass_deleted(low)
    }

    /// Tracks a batch that has `parts` parts to store. With `None` the batch has only empty
    /// messages, stores nothing and is done at once.
    ///
    /// # Errors
    /// If the partition isn't assigned, the range begins before the end of the last one, or
    /// [`crate::MAX_OPEN_RANGES`] are open.
    pub fn track_batch(
        &mut self,
        key: K,
        intent: Intent,
        parts: Option<NonZeroU32>,
    ) -> Result<Ticket<K>, TrackError> {
        let partition = self.partitions.get_mut(&key).ok_or(TrackError::NotAssigned)?;
        partition.track_batch(intent, parts)?;
        Ok(Ticket { key, generation: partition.generation, range: intent.range })
    }

    /// Records that one part of the batch was stored.
    pub fn ack_part(&mut self, ticket: &Ticket<K>) -> AckOutcome {
        self.current_partition(ticket.key, ticket.generation)
            .map_or(AckOutcome::Stale, |partition| partition.ack_part(ticket.range))
    }

    /// Records that one part of the batch was refused for its rows. Once all parts are answered the
    /// batch is divided: see [`Ledger::has_divided`].
    pub fn refuse_part(&mut self, ticket: &Ticket<K>, part: PartName) -> AckOutcome {
        self.current_partition(ticket.key, ticket.generation)
            .map_or(AckOutcome::Stale, |partition| partition.refuse_part(ticket.range, part))
    }

    /// Records that one part of the batch failed. The caller must [rewind](Ledger::rewind) the
    /// partition.
    pub fn nack_part(&mut self, ticket: &Ticket<K>) -> AckOutcome {
        self.current_partition(ticket.key, ticket.generation)
            .map_or(AckOutcome::Stale, |partition| partition.nack_part(ticket.range))
    }

    /// Returns the partition's last batches to the promised ones, as long as nothing of them was
    /// sent: `unsent_parts` returns how many parts of a batch wait. Their next owner cuts them
    /// again exactly so. Returns the offset at which the first of them begins.
    pub fn withdraw_unsent(
        &mut self,
        key: K,
        unsent_parts: impl Fn(OffsetRange) -> u32,
    ) -> Option<i64> {
        self.partitions.get_mut(&key)?.withdraw_unsent(unsent_parts)
    }

    /// Begins a new generation of the same assignment at the commit point, and returns that.
    /// Answers to its open ranges become stale; the ranges are promised.
    pub fn rewind(&mut self, key: K) -> Option<i64> {
        let generation = self.next_generation();
        let partition = self.partitions.get_mut(&key)?;
        let resume_at = partition.commit_point();
        let mut fresh = PartitionLedger::new(generation, resume_at, partition.promises());
        // The confirmed commit is retained: a rewind must neither repeat nor skip a commit.
        fresh.restore_committed(partition);
        *partition = fresh;
        resume_at
    }

    /// Ends an assignment. Returns the last commit, if the broker doesn't have it; with `announce`
    /// it names the open ranges.
    pub fn revoke(&mut self, key: K, announce: bool) -> Option<Commit<K>> {
        let mut partition = self.partitions.remove(&key)?;
        partition.commit_due(announce).map(|offset| partition.commit(key, offset, announce))
    }

    /// The commit point: the lowest offset that isn't done, or the one after the highest done.
    /// `None` until an offset is known.
    #[must_use]
    pub fn commit_point(&self, key: K) -> Option<i64> {
        self.partitions.get(&key)?.commit_point()
    }

    /// Returns the current generation of an assigned partition.
    #[must_use]
    pub fn generation_of(&self, key: K) -> Option<Generation> {
        self.partitions.get(&key).map(|p| p.generation)
    }

    /// Whether the partition has no open range (or isn't assigned).
    #[must_use]
    pub fn is_idle(&self, key: K) -> bool {
        self.partitions.get(&key).is_none_or(PartitionLedger::is_idle)
    }

    /// Whether the partition has no open range and its commit point was requested (or it isn't
    /// assigned).
    #[must_use]
    pub fn is_drained(&self, key: K) -> bool {
        self.partitions.get(&key).is_none_or(|p| p.is_idle() && !p.has_commit_due())
    }

    /// Whether another range of the partition may be tracked.
    #[must_use]
    pub fn has_capacity(&self, key: K) -> bool {
        self.partitions.get(&key).is_some_and(PartitionLedger::has_capacity)
    }

    /// Returns the commits that changed since the last request, or that a range
    /// [waits](Ledger::may_send) for.
    pub fn commits_due(&mut self, announce: bool) -> Vec<Commit<K>> {
        let mut due = Vec::new();
        for (&key, partition) in &mut self.partitions {
            if let Some(offset) = partition.commit_due(announce) {
                due.push(partition.commit(key, offset, announce));
            }
        }
        due
    }

    /// Whether a commit point moved since it was last requested.
    #[must_use]
    pub fn has_commits_due(&self) -> bool {
        self.partitions.values().any(PartitionLedger::has_commit_due)
    }

    /// Records the broker's answer to a commit. A refused commit is due again.
    pub fn commit_answered(&mut self, commit: &Commit<K>, ok: bool) {
        if let Some(partition) = self.current_partition(commit.key, commit.generation) {
            partition.commit_answered(commit.offset, &commit.promises, ok);
        }
    }

    /// Whether inserts of the ticket's range may be sent: with `announce`, once a commit is
    /// confirmed that was requested after the range was tracked, and names it; otherwise at once,
    /// but for a range that was cut before, which waits for a commit too.
    #[must_use]
    pub fn may_send(&self, ticket: &Ticket<K>, announce: bool) -> bool {
        self.partition_of(ticket).is_some_and(|p| p.may_send(ticket.range, announce))
    }

    /// Returns the number of unanswered parts of the ticket's range. `None` if there are none, or
    /// if answers to the range no longer count.
    #[must_use]
    pub fn open_parts(&self, ticket: &Ticket<K>) -> Option<u32> {
        self.partition_of(ticket)?.open_parts(ticket.range)
    }

    fn partition_of(&self, ticket: &Ticket<K>) -> Option<&PartitionLedger> {
        self.partitions.get(&ticket.key).filter(|p| p.generation == ticket.generation)
    }

    /// Returns the time of the first message that isn't done, in milliseconds since 1970.
    #[must_use]
    pub fn oldest_millis(&self, key: K) -> Option<i64> {
        self.partitions.get(&key)?.oldest_millis()
    }

    /// Returns the ranges that aren't done, and the tracked offsets behind the confirmed commit.
    #[must_use]
    pub fn uncommitted(&self, key: K) -> Option<(usize, i64)> {
        self.partitions.get(&key).map(PartitionLedger::uncommitted)
    }

    fn next_generation(&mut self) -> Generation {
        self.last_generation += 1;
        Generation(self.last_generation)
    }

    fn current_partition(
        &mut self,
        key: K,
        generation: Generation,
    ) -> Option<&mut PartitionLedger> {
        self.partitions.get_mut(&key).filter(|p| p.generation == generation)
    }
}
