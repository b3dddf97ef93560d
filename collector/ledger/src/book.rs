//! The ledgers of all partitions a worker owns, and the generations that keep them apart.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use crate::intent::{Apart, Cut, Intent};
use crate::partition::{PartitionLedger, Settled, Snapshot, TrackError};
use crate::range::{Generation, OffsetRange};

/// Names one tracked range of one assignment. Every part of a batch carries a copy and gives it
/// back with its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket<K> {
    /// The partition.
    pub key: K,
    /// The assignment it was tracked under.
    pub generation: Generation,
    /// The offsets of the batch.
    pub range: OffsetRange,
}

/// A commit to ask of the broker. Give it back to [`Ledger::commit_answered`] with the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit<K> {
    /// The partition.
    pub key: K,
    /// The assignment it belongs to.
    pub generation: Generation,
    /// The offset a restart would begin at.
    pub offset: i64,
    /// The ranges from there on that were cut already, in order: what [`crate::encode`] writes
    /// into the commit's metadata.
    pub open: Vec<Intent>,
}

/// What a revoked partition leaves behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked<K> {
    /// The last commit, if the broker lacks it.
    pub final_commit: Option<Commit<K>>,
    /// Ranges without an answer: the next owner reads them again.
    pub open: Vec<Intent>,
}

/// Where a partition begins again after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewound {
    /// The generation of the second try.
    pub generation: Generation,
    /// The offset to read from; `None` when nothing was ever known about the partition.
    pub resume_at: Option<i64>,
    /// The ranges to cut again exactly so, from there on.
    pub open: Vec<Intent>,
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
    /// A ledger of no partitions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins an assignment of `key`. `committed` is what the broker has for the group, if
    /// anything, and `promised` the ranges which that commit's metadata names (none when delivery
    /// is at least once). An assignment of the partition that was never revoked is dropped: its
    /// answers become stale.
    pub fn assign(&mut self, key: K, committed: Option<i64>, promised: Vec<Intent>) -> Generation {
        let generation = self.next_generation();
        self.partitions.insert(key, PartitionLedger::new(generation, committed, promised));
        generation
    }

    /// How the message at `offset` may be cut, given what was promised before.
    #[must_use]
    pub fn cut_at(&self, key: K, offset: i64) -> Cut {
        self.partitions.get(&key).map_or(Cut::Free, |p| p.cut_at(offset))
    }

    /// Whether ranges that were cut before this assignment are still to be cut again.
    #[must_use]
    pub fn has_promises(&self, key: K) -> bool {
        self.partitions.get(&key).is_some_and(PartitionLedger::has_promises)
    }

    /// Notes batches that were cut before this assignment and end at `low` or before as done: their
    /// messages are deleted, and nothing will ever come for them. Where the last of them ended,
    /// which is where reading continues.
    pub fn pass_deleted(&mut self, key: K, low: i64) -> Option<i64> {
        self.partitions.get_mut(&key)?.pass_deleted(low)
    }

    /// Notes a batch that has `parts` parts to be stored. `None` means that there is nothing in
    /// it to store (only empty messages): it is done at once.
    ///
    /// # Errors
    /// When the partition isn't assigned, the range isn't after the last one, or
    /// [`crate::MAX_OPEN_RANGES`] are open.
    pub fn track(
        &mut self,
        key: K,
        intent: Intent,
        parts: Option<NonZeroU32>,
    ) -> Result<Ticket<K>, TrackError> {
        let partition = self.partitions.get_mut(&key).ok_or(TrackError::NotAssigned)?;
        partition.track(intent, parts)?;
        Ok(Ticket { key, generation: partition.generation, range: intent.range })
    }

    /// One part of the batch was stored.
    pub fn ack(&mut self, ticket: &Ticket<K>) -> Settled {
        self.current(ticket.key, ticket.generation)
            .map_or(Settled::Stale, |partition| partition.ack(ticket.range))
    }

    /// One part of the batch was given up: the partition must be [rewound](Ledger::rewind).
    pub fn nack(&mut self, ticket: &Ticket<K>) -> Settled {
        self.current(ticket.key, ticket.generation)
            .map_or(Settled::Stale, |partition| partition.nack(ticket.range))
    }

    /// Begins a new generation of the same assignment at the commit point. Answers to what was
    /// open become stale. `None` when the partition isn't assigned.
    pub fn rewind(&mut self, key: K) -> Option<Rewound> {
        let old = self.partitions.get(&key)?;
        let resume_at = old.commit_point();
        let committed = old.committed();
        let open = old.open_batches();
        let generation = self.next_generation();
        let mut fresh = PartitionLedger::new(generation, resume_at, open.clone());
        // What was confirmed stays known: a rewind must neither repeat nor skip a commit.
        fresh.restore_committed(committed);
        self.partitions.insert(key, fresh);
        Some(Rewound { generation, resume_at, open })
    }

    /// Ends an assignment. A revocation that carries an older generation than the current one
    /// changes nothing and returns `None`: it came late. With `announce`, the last commit names
    /// what stays open.
    pub fn revoke(&mut self, key: K, generation: Generation, announce: bool) -> Option<Revoked<K>> {
        let partition = self.current(key, generation)?;
        let open = partition.open_batches();
        let final_commit = partition.commit_due(announce).map(|offset| Commit {
            key,
            generation,
            offset,
            open: if announce { open.clone() } else { Vec::new() },
        });
        self.partitions.remove(&key);
        Some(Revoked { final_commit, open })
    }

    /// The commit point: the lowest offset not done, or the one after the highest done. `None`
    /// while nothing is known.
    #[must_use]
    pub fn commit_point(&self, key: K) -> Option<i64> {
        self.partitions.get(&key)?.commit_point()
    }

    /// The current generation of an assigned partition.
    #[must_use]
    pub fn generation(&self, key: K) -> Option<Generation> {
        self.partitions.get(&key).map(|p| p.generation)
    }

    /// Whether the partition has no open range (or isn't assigned).
    #[must_use]
    pub fn is_idle(&self, key: K) -> bool {
        self.partitions.get(&key).is_none_or(PartitionLedger::is_idle)
    }

    /// Whether nothing of the partition is open, and its commit point was asked to be committed
    /// (or it isn't assigned).
    #[must_use]
    pub fn is_settled(&self, key: K) -> bool {
        self.partitions.get(&key).is_none_or(|p| p.is_idle() && !p.has_commit_due())
    }

    /// Whether another range of the partition may be tracked.
    #[must_use]
    pub fn has_room(&self, key: K) -> bool {
        self.partitions.get(&key).is_some_and(PartitionLedger::has_room)
    }

    /// What must be committed because it changed since the last request. With `announce`, a
    /// range that no confirmed commit has named yet is a change too.
    pub fn commits_due(&mut self, announce: bool) -> Vec<Commit<K>> {
        let mut due = Vec::new();
        for (&key, partition) in &mut self.partitions {
            if let Some(offset) = partition.commit_due(announce) {
                let open = if announce { partition.open_batches() } else { Vec::new() };
                due.push(Commit { key, generation: partition.generation, offset, open });
            }
        }
        due
    }

    /// Whether a commit point moved since the last request for it.
    #[must_use]
    pub fn has_commits_due(&self) -> bool {
        self.partitions.values().any(PartitionLedger::has_commit_due)
    }

    /// The broker's answer to a commit. A refused one is due again.
    pub fn commit_answered(&mut self, commit: &Commit<K>, ok: bool) {
        if let Some(partition) = self.current(commit.key, commit.generation) {
            partition.commit_answered(commit.offset, &commit.open, ok);
        }
    }

    /// Whether a confirmed commit has named the ticket's range, and how far it is salvaged: its
    /// inserts may be sent.
    #[must_use]
    pub fn is_announced(&self, ticket: &Ticket<K>) -> bool {
        self.of(ticket).is_some_and(|p| p.is_announced(ticket.range))
    }

    /// Parts of the ticket's range that aren't answered. `None` when there are none, or answers to
    /// it no longer count.
    #[must_use]
    pub fn open_parts(&self, ticket: &Ticket<K>) -> Option<u32> {
        self.of(ticket)?.open_parts(ticket.range)
    }

    /// How far the ticket's range is salvaged, here or in an earlier try.
    #[must_use]
    pub fn apart(&self, ticket: &Ticket<K>) -> Option<Apart> {
        self.of(ticket)?.apart(ticket.range)
    }

    /// Records how far the ticket's range is salvaged, to be named by the next commit. False when
    /// there is no room for that now.
    #[must_use]
    pub fn tell_apart(&mut self, ticket: &Ticket<K>, apart: Apart) -> bool {
        self.current(ticket.key, ticket.generation)
            .is_some_and(|partition| partition.tell_apart(ticket.range, apart))
    }

    fn of(&self, ticket: &Ticket<K>) -> Option<&PartitionLedger> {
        self.partitions.get(&ticket.key).filter(|p| p.generation == ticket.generation)
    }

    /// Figures of one partition.
    #[must_use]
    pub fn snapshot(&self, key: K) -> Option<Snapshot> {
        self.partitions.get(&key).map(PartitionLedger::snapshot)
    }

    /// The partitions assigned now, in order.
    pub fn assigned(&self) -> impl Iterator<Item = K> + '_ {
        self.partitions.keys().copied()
    }

    fn next_generation(&mut self) -> Generation {
        self.last_generation += 1;
        Generation(self.last_generation)
    }

    fn current(&mut self, key: K, generation: Generation) -> Option<&mut PartitionLedger> {
        self.partitions.get_mut(&key).filter(|p| p.generation == generation)
    }
}
