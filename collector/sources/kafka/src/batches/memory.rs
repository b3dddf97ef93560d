//! The memory of a session's batches: what is reserved before a message is decoded, and what
//! happens when the budget is full. [`MemoryShares`] divides the budget.

use std::time::Duration;

use millrace_ledger::Cut;
use millrace_pipeline::batch::CutReason;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::memory_shares::{HEADROOM_BYTES, MemoryShares};
use millrace_wire::limits::WRITTEN_BYTES;
use millrace_wire::{Signal, otlp};
use rdkafka::topic_partition_list::Offset;

use crate::batches::dead_letter::too_long;
use crate::group::member::Member;
use crate::group::partition::{AssignedPartition, OpenBatch};
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;

/// The step in which reservations change, so that the shared counter isn't changed per message: a
/// sixteenth of what a batch needs, but at least 32 KiB and at most 1 MiB. A batch of few rows, of
/// which there may be one for every partition, needs about 100 KiB.
const RESERVATION_STEP_BYTES: std::ops::RangeInclusive<u64> = 32 << 10..=1 << 20;
const RESERVATION_STEP_SHARE: u64 = 16;
/// The minimum size of a batch that is cut to free memory: many small inserts would cost more than
/// they free.
const MIN_CUT_TO_FREE_BYTES: usize = 1 << 20;
/// How long the budget may stay full before a batch isn't repeated unchanged. Other workers'
/// batches are sent within seconds.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How long a partition without budget waits for the others' repeats. One whose leader is down must
/// not delay the others.
const REPEAT_WAIT: Duration = Duration::from_secs(5);
/// The bytes of memory per byte of a message: columns with ids in text, and the bodies made of
/// them.
const GROWTH: u64 = 4;

impl<M: Member> GroupSession<M> {
    /// Returns whether the budget holds a message of this length. If not, it is fetched again once
    /// it does, and nothing is read before.
    pub(crate) fn has_memory_for(
        &mut self,
        key: PartitionKey,
        offset: i64,
        payload: &[u8],
    ) -> bool {
        let bytes = payload.len();
        let written_bytes = decoded_bytes(self.topic_of(key).signal, payload);
        let limit_bytes = self.shared.budget.limit_bytes();
        let needed = memory_for(bytes as u64, written_bytes, limit_bytes);
        if needed <= HEADROOM_BYTES || too_long(bytes).is_some() {
            return true;
        }
        if self.headroom.as_ref().is_some_and(|room| room.bytes() >= needed) {
            return true;
        }
        // Release the current headroom, so that its bytes aren't reserved again.
        self.headroom = None;
        self.headroom = self.shared.budget.try_reserve(needed);
        if self.headroom.is_some() {
            return true;
        }
        self.headroom_bytes = needed;
        self.seek_to(key, Offset::Offset(offset));
        false
    }

    /// Returns the maximum bytes of this worker's open batches.
    pub(crate) fn max_open_bytes(&self) -> usize {
        let shares = MemoryShares::of_budget(self.shared.budget.limit_bytes());
        let bytes = shares.open_batches_bytes(self.shared.settings.workers);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Reacts to a full budget: frees spare memory, otherwise sends the largest batch early.
    pub(crate) fn free_memory(&mut self) {
        if self.spares.clear() {
            return;
        }
        if let Some(key) = self.largest_open() {
            self.cut_batch(key, CutReason::Budget);
        } else if self.defer_one_repeat() {
            self.next_repeat = self.now + REPEAT_WAIT;
        } else if self.answers.open_parts() == 0 {
            let since = *self.stuck_since.get_or_insert(self.now);
            if self.now - since >= STUCK_AFTER {
                self.abandon_repeats();
            }
        }
    }

    /// Returns the partition with the largest batch that may end anywhere and is worth an insert.
    pub(crate) fn largest_open(&self) -> Option<PartitionKey> {
        let size = |p: &AssignedPartition| match p.open.as_ref() {
            Some(open) if !open.has_fixed_end() => open.bytes,
            _ => 0,
        };
        let largest = self.partitions.iter().max_by_key(|(_, p)| size(p))?;
        (size(largest.1) >= MIN_CUT_TO_FREE_BYTES).then_some(*largest.0)
    }

    /// Drops one of several batches whose end is fixed, so that they can't be cut. Its
    /// partition isn't read until the budget holds it. Returns false when there is at most one such
    /// batch.
    fn defer_one_repeat(&mut self) -> bool {
        let repeats = |(_, p): &(&PartitionKey, &AssignedPartition)| {
            p.open.as_ref().is_some_and(OpenBatch::has_fixed_end)
        };
        let mut repeating = self.partitions.iter().filter(repeats).map(|(key, _)| *key);
        let (Some(_first), Some(last)) = (repeating.next(), repeating.next_back()) else {
            return false;
        };
        if let Some(partition) = self.partitions.get_mut(&last) {
            partition.lacks_memory = true;
        }
        self.reread_open(last)
    }

    /// Reads a partition again that had no budget for its repeat, once there is budget and no other
    /// repeats anything, or the others have made no progress for long.
    pub(crate) fn continue_repeats(&mut self) {
        let waits = |(_, p): &(&PartitionKey, &AssignedPartition)| {
            p.lacks_memory && p.stalled_table.is_none() && !p.leaving
        };
        let Some(next) = self.partitions.iter().find(waits).map(|(key, _)| *key) else { return };
        let repeats = |p: &AssignedPartition| p.open.as_ref().is_some_and(OpenBatch::has_fixed_end);
        let others = self.partitions.values().any(repeats);
        if self.headroom.is_none() || (others && self.now < self.next_repeat) {
            return;
        }
        self.next_repeat = self.now + REPEAT_WAIT;
        if let Some(partition) = self.partitions.get_mut(&next) {
            partition.lacks_memory = false;
        }
    }

    /// Ends exact repeats: a batch that has to be repeated completely doesn't fit into the budget,
    /// which was larger when it was first cut. Progress matters more than avoiding a duplicate.
    fn abandon_repeats(&mut self) {
        for (key, partition) in &mut self.partitions {
            let Some(open) = partition.open.as_mut() else { continue };
            // A piece of a divided batch ends where it must: others of its rows are stored.
            if let Cut::Exactly(intent) = open.cut
                && self.ledger.refused_parts(*key, intent.range.first()).is_none()
            {
                tracing::error!(
                    topic = key.topic, partition = key.partition, range = %intent.range,
                    "the memory budget is too small to repeat a batch in one piece; it may be stored twice"
                );
                open.cut = Cut::Free;
            }
        }
        self.stuck_since = None;
    }
}

/// Returns the written size of a message's records, which may be far more than its bytes. 0 if it
/// is over the limit or can't be read: it isn't decoded.
pub(crate) fn decoded_bytes(signal: Signal, payload: &[u8]) -> u64 {
    let written = otlp::written_bytes(signal, payload).ok();
    written.filter(|&bytes| bytes <= WRITTEN_BYTES).unwrap_or(0)
}

/// Returns the memory that must be free before messages of these bytes, with a written size of
/// `written_bytes`, are decoded. A small budget never has more than their share free.
pub(crate) fn memory_for(bytes: u64, written_bytes: u64, limit_bytes: u64) -> u64 {
    let shares = MemoryShares::of_budget(limit_bytes);
    let columns = (bytes * GROWTH).min(shares.message_columns_bytes());
    columns.max((bytes + written_bytes).min(shares.message_written_bytes()))
}

/// Returns the step in which a reservation of about `needed` bytes changes. It is a power of two,
/// so that it is the same for batches of similar size.
fn step_bytes(needed: u64) -> u64 {
    let (least, most) = RESERVATION_STEP_BYTES.into_inner();
    (needed / RESERVATION_STEP_SHARE).next_power_of_two().clamp(least, most)
}

/// Adjusts the batch's reservation to its memory and the bodies to come. If the budget has no more,
/// it uses the headroom.
pub(crate) fn cover_batch(open: &mut OpenBatch, headroom: &mut Option<Reservation>) {
    let memory = open.encoder.memory_bytes() + open.dead_letter_bytes * 3 / 2;
    let needed = (memory + open.encoder.body_bytes()) as u64;
    let needed = needed.next_multiple_of(step_bytes(needed));
    if needed == open.reservation.bytes() || open.reservation.try_resize(needed) {
        return;
    }
    if let Some(headroom) = headroom.take() {
        open.reservation.absorb(headroom);
    }
}
