//! Cuts a batch: tracks its offsets, and passes on the parts that are neither stored nor dead
//! letters already.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;

use millrace_ledger::{Ticket, TrackError};
use millrace_pipeline::batch::CutReason;
use millrace_pipeline::sink::{BlockOrigin, DeadLetter, Insert, TableIndex};

use crate::batches::dead_letter_queues::PendingDeadLetter;
use crate::batches::divide::{BatchParts, too_many_parts};
use crate::batches::outcomes::DeadLetterId;
use crate::batches::parts::{BlockName, PendingInsert};
use crate::group::member::Member;
use crate::group::partition::OpenBatch;
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;

impl<M: Member> GroupSession<M> {
    /// Ends the partition's batch: tracks its offsets and passes its parts on. Returns false when
    /// one of its tables currently accepts nothing: then it is put back, to be read again later, so
    /// that it uses no memory while it waits.
    pub(crate) fn cut_batch(&mut self, key: PartitionKey, reason: CutReason) -> bool {
        let signal = self.topic_of(key).signal;
        let Some(partition) = self.partitions.get_mut(&key) else { return true };
        let Some(mut open) = partition.open.take() else { return true };
        let Some(intent) = open.to_intent() else { return true };
        let range = intent.range;
        let parts = self.ledger.refused_parts(key, range.first());
        let blocks = open.encoder.take_blocks();
        let outcomes = &partition.outcomes;
        let sorted = BatchParts::new(blocks, range, outcomes, parts.as_ref(), open.is_repeat());
        if let Some(table) = self.find_blocked_table(key, &sorted) {
            if let Some(partition) = self.partitions.get_mut(&key) {
                partition.open = Some(open);
            }
            self.stall_partition(key, table);
            return false;
        }
        self.open_bytes -= open.bytes;
        let dead_letters = self.unwritten_dead_letters(key, &mut open, parts.is_some());
        let is_unnamed = sorted.has_unnamed && open.message.is_some();
        let count = sorted.unsent.len() + sorted.refused.len() + dead_letters.len();
        let count = u32::try_from(count + usize::from(is_unnamed)).unwrap_or(u32::MAX);
        let ticket = match self.ledger.track_batch(key, intent, NonZeroU32::new(count)) {
            Ok(ticket) => ticket,
            Err(TrackError::NotAssigned) => return true,
            Err(error @ (TrackError::OutOfOrder { .. } | TrackError::Full)) => {
                // Neither can happen while `take` and `pause_and_resume` ensure their conditions.
                // Reading the range again is still correct.
                tracing::error!(%error, partition = key.partition, "cannot track a batch");
                self.count_out(key, open.records + dead_letters.len() as u64);
                self.rewind_partition(key);
                return true;
            }
        };
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.outcomes.record_cut(&ticket);
        }
        tracing::debug!(
            topic = key.topic, partition = key.partition, %range, ?reason, records = open.records,
            blocks = sorted.unsent.len(), dead_letters = dead_letters.len(), "batch cut"
        );
        for dead_letter in dead_letters {
            let cover = open.reservation.split_off(dead_letter.memory_bytes() as u64);
            let id = DeadLetterId { offset: dead_letter.offset, is_refused: false };
            self.dead_letters.push(PendingDeadLetter {
                ticket,
                id,
                dead_letter: Box::new(dead_letter),
                cover,
            });
        }
        self.pass_on(ticket, sorted, &mut open);
        self.release_held();
        if reason != CutReason::Budget {
            self.spares.store_encoder(signal, open.encoder, open.reservation);
        }
        true
    }

    /// Returns the batch's dead letters that aren't written yet. Those of a divided batch were,
    /// before it was divided.
    fn unwritten_dead_letters(
        &self,
        key: PartitionKey,
        open: &mut OpenBatch,
        is_divided: bool,
    ) -> Vec<DeadLetter> {
        let outcomes = self.partitions.get(&key).map(|partition| &partition.outcomes);
        let is_written = |dead_letter: &DeadLetter| {
            let id = DeadLetterId { offset: dead_letter.offset, is_refused: false };
            is_divided || outcomes.is_some_and(|outcomes| outcomes.has_dead_letter(id))
        };
        let dead_letters = std::mem::take(&mut open.dead_letters);
        let before = dead_letters.len();
        let left: Vec<_> =
            dead_letters.into_iter().filter(|dead_letter| !is_written(dead_letter)).collect();
        self.count_out(key, (before - left.len()) as u64);
        left
    }

    /// Passes the parts of a batch on that are neither stored nor dead letters already.
    fn pass_on(&mut self, ticket: Ticket<PartitionKey>, sorted: BatchParts, open: &mut OpenBatch) {
        let BatchParts { unsent, refused, stored_records, has_unnamed } = sorted;
        self.count_out(ticket.key, stored_records);
        let message = open.message.take().map(|message| {
            let cover = open.reservation.split_off(message.memory_bytes() as u64);
            Rc::new(RefCell::new(Some((message, cover))))
        });
        let origin = self.build_origin(&ticket, open.first_timestamp_millis);
        for (block, may_be_stored) in unsent {
            if let Some(partition) = self.partitions.get_mut(&ticket.key) {
                partition.outcomes.forget_part(ticket.range, block.table, block.slice);
            }
            let origin = BlockOrigin { may_be_stored, ..origin.clone() };
            let reservation = open.reservation.split_off(block.body.len() as u64);
            let insert = Insert { block, origin, reservation };
            self.held.push_back(PendingInsert { ticket, insert, message: message.clone() });
        }
        for (block, rejection) in refused {
            self.count_out(ticket.key, block.records);
            self.record_refusal(&ticket, BlockName::of(&block), message.as_deref(), rejection);
        }
        if has_unnamed && let Some(message) = &message {
            self.send_to_dead_letters(&ticket, message, too_many_parts());
        }
    }

    /// Returns a table of the blocks to send that currently accepts nothing. While the partition is
    /// being released, or the process ends, the batch waits for the table instead: it may accept in
    /// time.
    fn find_blocked_table(&self, key: PartitionKey, sorted: &BatchParts) -> Option<TableIndex> {
        if self.shared.drain.is_begun() || self.partitions.get(&key)?.leaving {
            return None;
        }
        let mut tables = sorted.unsent.iter().map(|(block, _)| block.table);
        tables.find(|table| self.is_table_blocked(key, *table))
    }

    fn build_origin(
        &self,
        ticket: &Ticket<PartitionKey>,
        first_timestamp_millis: i64,
    ) -> BlockOrigin {
        let topic = self.topic_of(ticket.key);
        BlockOrigin {
            signal: topic.signal,
            group: Arc::clone(&self.shared.settings.group),
            topic: Arc::clone(&topic.name),
            topic_number: self.topic_number(ticket.key),
            partition: ticket.key.partition,
            range: ticket.range,
            first_timestamp_millis,
            is_read_again: true,
            may_be_stored: false,
        }
    }
}
