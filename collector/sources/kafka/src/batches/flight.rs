//! Batches to answers: passes parts to the sink, handles the results, and rewinds when a part was
//! abandoned.

use std::collections::BTreeMap;
use std::time::Duration;

use millrace_ledger::{AckOutcome, OffsetRange, Ticket};
use millrace_pipeline::failpoint;
use millrace_pipeline::sink::{
    Block, BlockOrigin, Completion, DeliveryOutcome, PartOutcome, TableIndex,
};
use millrace_wire::Signal;
use rdkafka::topic_partition_list::Offset;

use crate::batches::dead_letter_queues::PendingDeadLetter;
use crate::batches::outcomes::{DeadLetterId, PartStatus};
use crate::batches::parts::{BlockName, OpenPart, PendingInsert};
use crate::group::finish::UncommittedReason;
use crate::group::member::Member;
use crate::group::partition::{AssignedPartition, OpenBatch};
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;
use crate::settings::SourceTopic;

/// The interval of checks for work of blocked tables.
const UNBLOCK_INTERVAL: Duration = Duration::from_millis(200);

/// The delay between attempts to seek.
pub(crate) const SEEK_RETRY: Duration = Duration::from_millis(500);

impl<M: Member> GroupSession<M> {
    /// Releases inserts that may be sent: at once, or once a commit is confirmed.
    pub(crate) fn release_held(&mut self) {
        let announce = self.shared.settings.announces_batches();
        for work in std::mem::take(&mut self.held) {
            if self.ledger.may_send(&work.ticket, announce) {
                self.outbox.push_back(work);
            } else {
                self.held.push_back(work);
            }
        }
    }

    /// Sends as much as the sink and the dead-letter topics accept.
    pub(crate) fn submit_work(&mut self) {
        // Each insert is tried once: one that the sink refuses doesn't block other tables and
        // servers. Nothing is rewound after a refusal, which would drop inserts that this pass has
        // tried.
        let (mut left, mut is_full) = (self.outbox.len(), false);
        while left > 0
            && let Some(work) = self.outbox.pop_front()
        {
            left -= 1;
            match self.blocked_table(&work) {
                Some(table) if !is_full && self.can_reread(work.ticket.key) => {
                    self.defer_insert(table, work);
                    left = self.outbox.len();
                }
                Some(_) => self.outbox.push_back(work),
                None => {
                    if let Some(back) = self.submit_insert(work) {
                        is_full = true;
                        self.outbox.push_back(back);
                    }
                }
            }
        }
        for signal in Signal::ALL {
            while let Some(dead_letter) = self.next_dead_letter(signal) {
                if let Some(back) = self.submit_dead_letter(dead_letter) {
                    self.dead_letters.return_front(back);
                    break;
                }
            }
        }
    }

    /// Returns a dead letter that may be sent, unless an earlier insert of its partition waits, or
    /// one of its batch. So what waits is a partition's end, which a drain can leave to the next
    /// owner: it would write a written dead letter again.
    fn next_dead_letter(&mut self, signal: Signal) -> Option<PendingDeadLetter> {
        let Self { held, outbox, dead_letters, .. } = self;
        let waits = |ticket: &Ticket<PartitionKey>| {
            let mut inserts = held.iter().chain(&*outbox).map(|work| &work.ticket);
            inserts.any(|it| it.key == ticket.key && it.range.first() <= ticket.range.first())
        };
        dead_letters.pop(signal, |ticket| !waits(ticket))
    }

    fn blocked_table(&self, work: &PendingInsert) -> Option<TableIndex> {
        let BlockOrigin { topic, partition, .. } = &work.insert.origin;
        let table = work.insert.block.table;
        self.shared.sink.is_blocked(topic, *partition, table).then_some(table)
    }

    /// Returns whether a table currently accepts nothing from a partition.
    pub(crate) fn is_table_blocked(&self, key: PartitionKey, table: TableIndex) -> bool {
        self.shared.sink.is_blocked(&self.topic_of(key).name, key.partition, table)
    }

    /// Releases the memory of a batch whose table currently accepts nothing, and of those behind
    /// it: the ledger retains their offsets, and later they are cut again identically. Work that
    /// won't be read again here retains its memory and waits.
    fn defer_insert(&mut self, table: TableIndex, work: PendingInsert) {
        let key = work.ticket.key;
        self.outbox.push_front(work);
        self.stall_partition(key, table);
        self.rewind_partition(key);
    }

    /// Returns whether this session reads a partition again that rewinds.
    pub(crate) fn can_reread(&self, key: PartitionKey) -> bool {
        let partition = self.partitions.get(&key);
        !self.shared.drain.is_begun() && partition.is_some_and(|partition| !partition.leaving)
    }

    /// Stalls a partition until the table accepts inserts again.
    pub(crate) fn stall_partition(&mut self, key: PartitionKey, table: TableIndex) {
        if let Some(partition) = self.partitions.get_mut(&key)
            && partition.stalled_table.replace(table).is_none()
        {
            tracing::debug!(
                topic = key.topic,
                partition = key.partition,
                table = table.0,
                "insert held back: its table accepts no rows at present"
            );
        }
        // Others need its memory until then.
        self.reread_open(key);
    }

    /// Drops the partition's open batch, to be read again from its first message. Returns whether
    /// there was one.
    pub(crate) fn reread_open(&mut self, key: PartitionKey) -> bool {
        let Some(partition) = self.partitions.get_mut(&key) else { return false };
        let Some(open) = partition.open.as_ref() else { return false };
        let first = open.first_offset;
        partition.next_offset = first;
        self.discard_open(key);
        self.seek_to(key, Offset::Offset(first));
        true
    }

    /// Resumes partitions whose table accepts inserts again.
    pub(crate) fn resume_unblocked(&mut self) {
        let none = self.partitions.values().all(|partition| partition.stalled_table.is_none());
        if self.now < self.next_unblock || none {
            return;
        }
        self.next_unblock = self.now + UNBLOCK_INTERVAL;
        let is_blocked = |(key, it): &(&PartitionKey, &AssignedPartition)| {
            it.stalled_table.is_some_and(|table| self.is_table_blocked(**key, table))
        };
        let blocked: Vec<PartitionKey> =
            self.partitions.iter().filter(is_blocked).map(|(key, _)| *key).collect();
        for (key, partition) in &mut self.partitions {
            partition.stalled_table.take_if(|_| !blocked.contains(key));
        }
    }

    /// Submits an insert. Returns it when the sink didn't accept it.
    fn submit_insert(&mut self, work: PendingInsert) -> Option<PendingInsert> {
        let Some(completion) = self.open_completion() else { return Some(work) };
        let PendingInsert { ticket, insert, message } = work;
        let id = completion.part();
        let records = insert.block.records;
        let part = BlockName::of(&insert.block);
        match self.shared.sink.submit(insert, completion) {
            Ok(()) => {
                self.parts.insert(id, OpenPart::Insert { ticket, part, records, message });
                None
            }
            Err(back) => {
                self.spare_completion = Some(back.completion);
                Some(PendingInsert { ticket, insert: back.work, message })
            }
        }
    }

    /// Submits a dead letter. Returns it when the sink didn't accept it.
    fn submit_dead_letter(&mut self, work: PendingDeadLetter) -> Option<PendingDeadLetter> {
        let Some(completion) = self.open_completion() else { return Some(work) };
        let PendingDeadLetter { ticket, id, dead_letter, cover } = work;
        let part = completion.part();
        let (reason, bytes) = (dead_letter.rejection.reason, dead_letter.memory_bytes() as u64);
        match self.shared.dead_letters.submit(*dead_letter, completion) {
            Ok(()) => {
                let open = OpenPart::DeadLetter { ticket, id, reason, bytes, _cover: cover };
                self.parts.insert(part, open);
                None
            }
            Err(back) => {
                self.spare_completion = Some(back.completion);
                Some(PendingDeadLetter { ticket, id, dead_letter: Box::new(back.work), cover })
            }
        }
    }

    pub(crate) fn open_completion(&mut self) -> Option<Completion> {
        self.spare_completion.take().or_else(|| self.answers.open_part())
    }

    /// Handles one answer: the ledger moves, the batch is divided, or the partition rewinds.
    pub(crate) fn handle_answer(&mut self, answer: PartOutcome) {
        let Some(part) = self.parts.remove(&answer.part) else { return };
        match part {
            OpenPart::Insert { ticket, part, records, message } => {
                let mut record = |outcome| {
                    if let Some(partition) = self.partitions.get_mut(&ticket.key) {
                        partition.outcomes.record(&ticket, part.table, part.slice, outcome);
                    }
                };
                match answer.outcome {
                    DeliveryOutcome::Stored => {
                        record(PartStatus::Stored);
                        let signal = self.topic_of(ticket.key).signal;
                        self.shared.telemetry.records_out(signal, records);
                        self.record_done(&ticket, records);
                    }
                    DeliveryOutcome::Rejected(rejection) => {
                        record(PartStatus::Refused(rejection.clone()));
                        self.count_out(ticket.key, records);
                        self.record_refusal(&ticket, part, message.as_deref(), rejection);
                    }
                    unstored => {
                        if unstored == DeliveryOutcome::Deferred {
                            record(PartStatus::Unstored);
                        }
                        self.stall_if_blocked(&ticket, part.table);
                        self.record_abandoned(&ticket, records);
                    }
                }
            }
            OpenPart::DeadLetter { ticket, id, reason, bytes, .. } => {
                let signal = self.topic_of(ticket.key).signal;
                self.dead_letters.record_answered(signal, bytes);
                if let DeliveryOutcome::Stored = answer.outcome {
                    self.shared.telemetry.dead_letter_stored(signal, reason, bytes);
                }
                self.finish_dead_letter(&ticket, id, reason, answer.outcome);
            }
        }
    }

    fn finish_dead_letter(
        &mut self,
        ticket: &Ticket<PartitionKey>,
        id: DeadLetterId,
        reason: &'static str,
        outcome: DeliveryOutcome,
    ) {
        let reason = match outcome {
            DeliveryOutcome::Stored => reason,
            DeliveryOutcome::Rejected(rejection) => {
                tracing::error!(
                    topic = ticket.key.topic, partition = ticket.key.partition,
                    range = %ticket.range, reason = rejection.reason, detail = rejection.detail,
                    "a message can neither be stored nor dead-lettered; it is left in its topic"
                );
                "undeliverable"
            }
            DeliveryOutcome::Abandoned | DeliveryOutcome::Deferred => {
                return self.record_abandoned(ticket, 1);
            }
        };
        self.shared.telemetry.dead_lettered(self.topic_of(ticket.key).signal, reason);
        if let Some(partition) = self.partitions.get_mut(&ticket.key) {
            partition.outcomes.record_dead_letter(ticket, id);
        }
        self.record_done(ticket, 1);
    }

    /// Stalls the partition of work that was released for its table, until that accepts inserts.
    fn stall_if_blocked(&mut self, ticket: &Ticket<PartitionKey>, table: TableIndex) {
        let counts = self.ledger.open_parts(ticket).is_some() && self.can_reread(ticket.key);
        if counts && self.is_table_blocked(ticket.key, table) {
            self.stall_partition(ticket.key, table);
        }
    }

    fn record_done(&mut self, ticket: &Ticket<PartitionKey>, records: u64) {
        self.count_out(ticket.key, records);
        failpoint::hit("before-ledger-ack");
        self.ledger.ack_part(ticket);
    }

    fn record_abandoned(&mut self, ticket: &Ticket<PartitionKey>, records: u64) {
        self.count_out(ticket.key, records);
        if self.ledger.nack_part(ticket) == AckOutcome::Failed {
            self.rewind_partition(ticket.key);
        }
    }

    /// Rewinds the partition to its commit point and reads from there again.
    pub(crate) fn rewind_partition(&mut self, key: PartitionKey) {
        self.record_uncommitted(key, UncommittedReason::InsertAbandoned);
        self.discard_open(key);
        self.drop_work(key, 0);
        let resume_at = self.ledger.rewind(key);
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        partition.divided_since = None;
        partition.next_offset = resume_at.unwrap_or(0);
        if self.shared.drain.is_begun() || partition.leaving {
            return;
        }
        tracing::warn!(
            topic = key.topic,
            partition = key.partition,
            from = resume_at,
            "reading messages again that were not stored"
        );
        self.seek_to(key, resume_at.map_or(Offset::Beginning, Offset::Offset));
    }

    /// Reads the partition from `offset` on. No message of it is accepted before the seek
    /// succeeded: it would be behind a gap.
    pub(crate) fn seek_to(&mut self, key: PartitionKey, offset: Offset) {
        let topic = self.topic_of(key);
        let sought = self.member.seek(&topic.name, key.partition, offset);
        if let Err(error) = &sought {
            tracing::warn!(
                topic = %topic.name, partition = key.partition, ?offset, %error,
                "cannot seek to an offset; retrying"
            );
            self.next_seek = self.now + SEEK_RETRY;
        }
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.pending_seek = sought.is_err().then_some(offset);
        }
    }

    /// Retries failed seeks.
    pub(crate) fn retry_seeks(&mut self) {
        if self.now < self.next_seek {
            return;
        }
        let waiting = self.partitions.iter().filter(|(_, partition)| !partition.leaving);
        let waiting = waiting.filter_map(|(key, partition)| Some((*key, partition.pending_seek?)));
        for (key, offset) in waiting.collect::<Vec<_>>() {
            self.seek_to(key, offset);
        }
    }

    /// Drops the partition's open batch.
    pub(crate) fn discard_open(&mut self, key: PartitionKey) {
        let Some(open) = self.partitions.get_mut(&key).and_then(|p| p.open.take()) else { return };
        let OpenBatch { records, dead_letters, bytes, .. } = open;
        self.open_bytes -= bytes;
        self.count_out(key, records + dead_letters.len() as u64);
    }

    /// Gives up the partition's last batches of which the sink has accepted nothing, and has no
    /// capacity for now: their next owner sends them. So the inserts in flight bound a drain, not
    /// what waits for them.
    pub(crate) fn withdraw_unsent(&mut self, key: PartitionKey) {
        // A commit has to name these first; what waits behind them may find capacity then.
        if self.held.iter().any(|work| work.ticket.key == key) {
            return;
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let mut unsent: BTreeMap<OffsetRange, u32> = BTreeMap::new();
        let waiting =
            self.outbox.iter().map(|work| &work.ticket).chain(self.dead_letters.waiting());
        for ticket in waiting.filter(|ticket| ticket.key == key) {
            *unsent.entry(ticket.range).or_default() += 1;
        }
        // A batch of which a part is stored is finished: not every table drops repeated rows.
        unsent.retain(|range, _| !partition.outcomes.has_stored(*range));
        let unsent_parts = |range| unsent.get(&range).copied().unwrap_or(0);
        let Some(first) = self.ledger.withdraw_unsent(key, unsent_parts) else { return };
        tracing::info!(
            topic = key.topic,
            partition = key.partition,
            first,
            "the sink has no capacity for the last batches, the next owner sends them"
        );
        // What comes behind them must not be committed.
        self.discard_open(key);
        self.drop_work(key, first);
    }

    /// Drops the partition's parts of batches from an offset on that no sink has accepted yet.
    pub(crate) fn drop_work(&mut self, key: PartitionKey, first: i64) {
        let signal = self.topic_of(key).signal;
        let mut dropped = self.dead_letters.drop_from(key, first, signal);
        let Self { held, outbox, partitions, .. } = self;
        let mut partition = partitions.get_mut(&key);
        for queue in [held, outbox] {
            queue.retain(|work| {
                let stays = work.ticket.key != key || work.ticket.range.first() < first;
                if !stays {
                    dropped += work.insert.block.records;
                }
                if !stays
                    && !work.insert.origin.may_be_stored
                    && let Some(partition) = &mut partition
                {
                    let Block { table, slice, .. } = work.insert.block;
                    let outcome = PartStatus::Unstored;
                    partition.outcomes.record(&work.ticket, table, slice, outcome);
                }
                stays
            });
        }
        self.count_out(key, dropped);
    }

    /// Subtracts a partition's records that are no longer buffered here.
    pub(crate) fn count_out(&self, key: PartitionKey, records: u64) {
        let records = i64::try_from(records).unwrap_or(i64::MAX);
        self.shared.telemetry.add_buffered(self.topic_of(key).signal, -records);
    }

    /// Returns a partition's topic: [`GroupSession::key_of`] makes keys of the settings' topics
    /// only.
    pub(crate) fn topic_of(&self, key: PartitionKey) -> &SourceTopic {
        &self.shared.settings.topics[usize::from(key.topic)]
    }
}
