//! Batches to answers: hands parts to the sink, handles the results, and goes back when a part was
//! given up.

use std::time::Duration;

use millrace_ledger::{Settled, Ticket};
use millrace_pipeline::failpoint;
use millrace_pipeline::sink::{Answer, Completion, Outcome, TableIndex};
use millrace_wire::Signal;
use rdkafka::topic_partition_list::Offset;

use super::finish::Why;
use super::member::Member;
use super::partition::{Key, OpenBatch};
use super::parts::{OpenPart, Part, Refused, Work};
use super::session::Session;
use super::settings::{Delivery, SourceTopic};

/// Interval of checks for work of blocked tables.
const UNBLOCK_INTERVAL: Duration = Duration::from_millis(200);

/// Delay between attempts to seek.
pub(super) const SEEK_RETRY: Duration = Duration::from_millis(500);

impl<M: Member> Session<M> {
    /// Releases what may be sent: at once, or once a confirmed commit has named it.
    pub(super) fn release_held(&mut self) {
        let free = self.shared.settings.delivery == Delivery::AtLeastOnce;
        for work in std::mem::take(&mut self.held) {
            match work {
                Work::Letter(..) => self.letters.push_back(work),
                Work::Insert(..) if free || self.ledger.is_announced(work.ticket()) => {
                    self.outbox.push_back(work);
                }
                Work::Insert(..) => self.held.push_back(work),
            }
        }
    }

    /// Sends as much as the sink and the dead-letter topic take.
    pub(super) fn submit(&mut self) {
        while let Some(work) = self.outbox.pop_front() {
            if let Some(table) = self.blocked_table(&work) {
                self.wait_for(table, work);
                continue;
            }
            if let Some(back) = self.submit_one(work) {
                self.outbox.push_front(back);
                break;
            }
        }
        while let Some(work) = self.letters.pop_front() {
            if let Some(back) = self.submit_one(work) {
                self.letters.push_front(back);
                break;
            }
        }
        let jobs = std::mem::take(&mut self.salvage);
        self.salvage = jobs.into_iter().filter_map(|job| self.shared.salvage.offer(job)).collect();
    }

    fn blocked_table(&self, work: &Work) -> Option<TableIndex> {
        let Work::Insert(_, insert) = work else { return None };
        Some(insert.block.table).filter(|table| self.shared.sink.is_blocked(*table))
    }

    /// Releases the memory of a batch whose table takes nothing for now, and of those behind it:
    /// the ledger keeps their offsets, and later they are cut again identically. What won't be read
    /// again here keeps its memory and waits.
    fn wait_for(&mut self, table: TableIndex, work: Work) {
        let key = work.ticket().key;
        if !self.is_read_again(key) {
            self.blocked.push_back(work);
            return;
        }
        self.outbox.push_front(work);
        self.keep_back(key, table);
        self.rewind(key);
    }

    /// Whether this session reads a partition again that goes back.
    fn is_read_again(&self, key: Key) -> bool {
        let partition = self.partitions.get(&key);
        !self.shared.drain.is_begun() && partition.is_some_and(|partition| !partition.leaving)
    }

    /// Sets a partition aside until the table takes inserts again.
    pub(super) fn keep_back(&mut self, key: Key, table: TableIndex) {
        if let Some(partition) = self.partitions.get_mut(&key)
            && partition.kept_back.replace(table).is_none()
        {
            tracing::debug!(
                topic = key.topic,
                partition = key.partition,
                table = table.0,
                "kept back: its table takes nothing for now"
            );
            self.pause_one(key);
        }
        // Others need its memory meanwhile.
        self.put_back(key);
    }

    pub(super) fn pause_one(&self, key: Key) {
        if let Err(error) = self.member.pause(&self.list(std::iter::once(key))) {
            tracing::warn!(%error, "cannot pause a partition");
        }
    }

    /// Drops the partition's batch being filled, to be read again from its first message. True when
    /// there was one.
    pub(super) fn put_back(&mut self, key: Key) -> bool {
        let Some(partition) = self.partitions.get_mut(&key) else { return false };
        let Some(open) = partition.open.as_ref() else { return false };
        let first = open.first_offset;
        partition.next_offset = first;
        self.discard_open(key);
        self.go_to(key, Offset::Offset(first));
        true
    }

    /// Resumes work whose table takes inserts again.
    pub(super) fn look_at_blocked(&mut self) {
        let none = self.partitions.values().all(|partition| partition.kept_back.is_none());
        if self.now < self.next_unblock || (none && self.blocked.is_empty()) {
            return;
        }
        self.next_unblock = self.now + UNBLOCK_INTERVAL;
        for work in std::mem::take(&mut self.blocked) {
            if self.blocked_table(&work).is_some() {
                self.blocked.push_back(work);
            } else {
                self.outbox.push_back(work);
            }
        }
        let is_open = |table: TableIndex| !self.shared.sink.is_blocked(table);
        let free: Vec<Key> = self
            .partitions
            .iter()
            .filter(|(_, partition)| partition.kept_back.is_some_and(is_open))
            .map(|(key, _)| *key)
            .collect();
        for key in &free {
            if let Some(partition) = self.partitions.get_mut(key) {
                partition.kept_back = None;
            }
        }
        let list = self.list(free.into_iter().filter(|key| self.has_turn(*key)));
        if list.count() > 0
            && !self.is_paused()
            && let Err(error) = self.member.resume(&list)
        {
            tracing::warn!(%error, "cannot resume partitions");
        }
    }

    /// The work again when it wasn't taken.
    fn submit_one(&mut self, work: Work) -> Option<Work> {
        let Some(completion) = self.completion() else { return Some(work) };
        let id = completion.part();
        match work {
            Work::Insert(ticket, insert) => {
                let records = insert.block.records;
                let part = Part::of(&insert.block, insert.origin.clone());
                let open = OpenPart::Insert { ticket, part, records };
                match self.shared.sink.submit(insert, completion) {
                    Ok(()) => {
                        self.parts.insert(id, open);
                        None
                    }
                    Err(back) => {
                        self.spare_completion = Some(back.completion);
                        Some(Work::Insert(ticket, back.work))
                    }
                }
            }
            Work::Letter(ticket, letter, cover) => {
                let (signal, reason) = (letter.signal, letter.rejection.reason);
                match self.shared.dead_letters.submit(*letter, completion) {
                    Ok(()) => {
                        let open = OpenPart::Letter { ticket, signal, reason, _cover: cover };
                        self.parts.insert(id, open);
                        None
                    }
                    Err(back) => {
                        self.spare_completion = Some(back.completion);
                        Some(Work::Letter(ticket, Box::new(back.work), cover))
                    }
                }
            }
        }
    }

    pub(super) fn completion(&mut self) -> Option<Completion> {
        self.spare_completion.take().or_else(|| self.answers.open())
    }

    /// Handles one answer: the ledger moves, the rows are salvaged, or the partition goes back.
    pub(super) fn settle(&mut self, answer: Answer) {
        let Some(part) = self.parts.remove(&answer.part) else { return };
        match part {
            OpenPart::Insert { ticket, part, records } => match answer.outcome {
                Outcome::Stored => self.stored(&ticket, part.origin.signal, records),
                Outcome::Rejected(rejection) => {
                    self.refused.push(Refused { ticket, part, records, rejection });
                }
                Outcome::Abandoned => {
                    self.keep_back_if_blocked(&ticket, part.table);
                    self.given_up(&ticket, part.origin.signal, records);
                }
            },
            OpenPart::Letter { ticket, signal, reason, .. } => match answer.outcome {
                Outcome::Stored => {
                    self.shared.telemetry.dead_lettered(signal, reason, 1);
                    self.done(&ticket, signal, 1);
                }
                Outcome::Rejected(rejection) => {
                    tracing::error!(
                        topic = ticket.key.topic, partition = ticket.key.partition,
                        range = %ticket.range, reason = rejection.reason,
                        detail = rejection.detail,
                        "a message can neither be stored nor dead-lettered; it is left in its topic"
                    );
                    self.shared.telemetry.dead_lettered(signal, "undeliverable", 1);
                    self.done(&ticket, signal, 1);
                }
                Outcome::Abandoned => self.given_up(&ticket, signal, 1),
            },
            OpenPart::Salvage { ticket, signal, records } => match answer.outcome {
                // The salvage has counted what it stored and what it dead-lettered.
                Outcome::Stored => self.done(&ticket, signal, records),
                Outcome::Rejected(_) | Outcome::Abandoned => {
                    self.given_up(&ticket, signal, records);
                }
            },
        }
    }

    /// What was released for its table isn't read again before that takes inserts.
    fn keep_back_if_blocked(&mut self, ticket: &Ticket<Key>, table: TableIndex) {
        let counts = self.ledger.open_parts(ticket).is_some() && self.is_read_again(ticket.key);
        if counts && self.shared.sink.is_blocked(table) {
            self.keep_back(ticket.key, table);
        }
    }

    fn stored(&mut self, ticket: &Ticket<Key>, signal: Signal, records: u64) {
        self.shared.telemetry.records_out(signal, records);
        self.done(ticket, signal, records);
    }

    fn done(&mut self, ticket: &Ticket<Key>, signal: Signal, records: u64) {
        self.count_out(signal, records);
        failpoint::hit("before-ledger-ack");
        self.ledger.ack(ticket);
    }

    pub(super) fn given_up(&mut self, ticket: &Ticket<Key>, signal: Signal, records: u64) {
        self.count_out(signal, records);
        if self.ledger.nack(ticket) == Settled::Failed {
            self.rewind(ticket.key);
        }
    }

    /// Goes back to the partition's commit point and reads from there again.
    pub(super) fn rewind(&mut self, key: Key) {
        self.leave_behind(key, Why::GivenUp);
        self.discard_open(key);
        self.drop_work(key);
        let Some(rewound) = self.ledger.rewind(key) else { return };
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        partition.flying.clear();
        partition.next_offset = rewound.resume_at.unwrap_or(0);
        if self.shared.drain.is_begun() || partition.leaving {
            return;
        }
        tracing::warn!(
            topic = key.topic,
            partition = key.partition,
            from = rewound.resume_at,
            "reading again what was not stored"
        );
        self.go_to(key, rewound.resume_at.map_or(Offset::Beginning, Offset::Offset));
    }

    /// Reads the partition from `offset` on. Nothing of it is taken before the seek succeeded: it
    /// would be behind a gap.
    pub(super) fn go_to(&mut self, key: Key, offset: Offset) {
        let Some(topic) = self.topic(key) else { return };
        let sought = self.member.seek(&topic.name, key.partition, offset);
        if let Err(error) = &sought {
            tracing::warn!(
                topic = %topic.name, partition = key.partition, ?offset, %error,
                "cannot go to an offset, will retry"
            );
            self.next_seek = self.now + SEEK_RETRY;
        }
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.goes_to = sought.is_err().then_some(offset);
        }
    }

    /// Retries failed seeks.
    pub(super) fn go_on_seeking(&mut self) {
        if self.now < self.next_seek {
            return;
        }
        let waiting = self.partitions.iter().filter(|(_, partition)| !partition.leaving);
        let waiting = waiting.filter_map(|(key, partition)| Some((*key, partition.goes_to?)));
        for (key, offset) in waiting.collect::<Vec<_>>() {
            self.go_to(key, offset);
        }
    }

    /// Drops the partition's batch being filled.
    pub(super) fn discard_open(&mut self, key: Key) {
        let Some(open) = self.partitions.get_mut(&key).and_then(|p| p.open.take()) else { return };
        let OpenBatch { records, letters, bytes, .. } = open;
        self.open_bytes -= bytes;
        if let Some(topic) = self.topic(key) {
            self.count_out(topic.signal, records + letters.len() as u64);
        }
    }

    /// Drops the partition's parts that nobody has taken yet.
    pub(super) fn drop_work(&mut self, key: Key) {
        let mut dropped = Vec::new();
        let Self { held, outbox, blocked, letters, .. } = self;
        for queue in [held, outbox, blocked, letters] {
            queue.retain(|work| {
                let stays = work.ticket().key != key;
                if !stays {
                    dropped.push(work.signal_and_records());
                }
                stays
            });
        }
        self.refused.retain(|refused| {
            let stays = refused.ticket.key != key;
            if !stays {
                dropped.push((refused.part.origin.signal, refused.records));
            }
            stays
        });
        for (signal, records) in dropped {
            self.count_out(signal, records);
        }
    }

    /// Records that are no longer held here.
    pub(super) fn count_out(&self, signal: Signal, records: u64) {
        let records = i64::try_from(records).unwrap_or(i64::MAX);
        self.shared.telemetry.buffered(signal, -records);
    }

    pub(super) fn topic(&self, key: Key) -> Option<&SourceTopic> {
        self.shared.settings.topics.get(usize::from(key.topic))
    }
}
