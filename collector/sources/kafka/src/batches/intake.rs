//! Messages to batches: appends directly from librdkafka's buffer, and cuts.

use millrace_ledger::{Cut, Intent};
use millrace_pipeline::batch::{BatchSize, CutReason};
use millrace_pipeline::failpoint;
use millrace_pipeline::memory_shares::HEADROOM_BYTES;
use millrace_pipeline::sink::{AcceptedRecords, RejectedRecords, Rejection};
use rdkafka::topic_partition_list::Offset;

use crate::batches::dead_letter::{build_dead_letter, too_long};
use crate::batches::flight::SEEK_RETRY;
use crate::batches::memory::cover_batch;
use crate::group::member::{FetchedMessage, Member};
use crate::group::partition::{AssignedPartition, OpenBatch};
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;

/// The length from which on a message is a separate batch: twice the brokers' default. It may make
/// several inserts, and if one of them were refused, it would be unknown which of its neighbours'
/// rows in the others are stored.
const ALONE_BYTES: usize = 2 << 20;
/// The maximum dead letters of one batch, which is cut then. A batch's dead letters and blocks are
/// parts to be answered, of which a worker may have 1,024 open.
const MAX_DEAD_LETTERS: usize = 256;

impl<M: Member> GroupSession<M> {
    /// Appends one message to its partition's batch.
    pub(crate) fn accept_message(&mut self, message: &impl FetchedMessage) {
        failpoint::hit("after-fetch");
        let Some(key) = self.key_of(message.topic(), message.partition()) else { return };
        let offset = message.offset();
        let Some(partition) = self.partitions.get(&key) else { return };
        // It was fetched before the partition left: its next owner reads it again.
        if partition.leaving || partition.pending_seek.is_some() || self.shared.drain.is_begun() {
            return;
        }
        if offset < partition.next_offset {
            if !partition.is_another(message.timestamp().to_millis()) {
                return;
            }
            self.restart_partition(key, offset);
        }
        if self.may_hide_damage(key, offset) {
            return;
        }
        if !self.has_memory_for(key, offset, message.payload().unwrap_or_default()) {
            return;
        }
        self.record_gap(key, offset);
        let cut = self.ledger.cut_at(key, offset);
        let open = self.partitions.get(&key).and_then(|partition| partition.open.as_ref());
        // A batch with a fixed range contains exactly that.
        let alone = message.payload().map_or(0, <[u8]>::len) > ALONE_BYTES && cut.range().is_none();
        let ends = if open.is_some_and(|open| ends_before(open.cut, cut)) {
            Some(CutReason::Repeat)
        } else {
            alone.then_some(CutReason::Bytes)
        };
        if ends.is_some_and(|reason| !self.cut_batch(key, reason)) {
            // It will be read again after what was put back.
            return;
        }
        if ends.is_some() && !self.ledger.has_capacity(key) {
            // That was the last range for now: nothing could track a batch of this message.
            self.seek_to(key, Offset::Offset(offset));
            return;
        }
        self.open_batch(key, offset, message, cut);
        self.append_to_batch(key, offset, message);
        if alone {
            self.cut_batch(key, CutReason::Bytes);
        } else {
            self.cut_if_due(key);
        }
    }

    /// Returns whether messages before this one may be missing because they were damaged in
    /// transit: librdkafka reports that, but not where, and continues behind them. They are fetched
    /// again.
    fn may_hide_damage(&mut self, key: PartitionKey, offset: i64) -> bool {
        if self.damaged_until.is_none() {
            return false;
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return false };
        if partition.has_position && offset <= partition.next_offset {
            return false;
        }
        let expected = partition.position();
        tracing::warn!(
            topic = key.topic,
            partition = key.partition,
            ?expected,
            offset,
            "searching for damaged messages again"
        );
        partition.pending_seek = Some(expected);
        self.next_seek = self.now + SEEK_RETRY;
        true
    }

    /// Records that messages may have been skipped. The partition's beginning decides whether they
    /// are lost.
    fn record_gap(&self, key: PartitionKey, got: i64) {
        let Some(partition) = self.partitions.get(&key) else { return };
        let expected = partition.next_offset;
        if got > expected && partition.has_position {
            self.shared.lag.record_gap(&self.topic_of(key).name, key.partition, expected, got);
        }
    }

    /// Ensures that the partition has an open batch.
    fn open_batch(
        &mut self,
        key: PartitionKey,
        offset: i64,
        message: &impl FetchedMessage,
        cut: Cut,
    ) {
        let signal = self.topic_of(key).signal;
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if partition.open.is_some() {
            return;
        }
        let (encoder, reservation) = self.spares.take_encoder(signal).unwrap_or_else(|| {
            // Without a spare the headroom is the batch's first cover. Nothing is read without
            // headroom, and a message that was nevertheless read must not be skipped: the offsets
            // behind it would be committed over it.
            let cover =
                self.headroom.take().unwrap_or_else(|| self.shared.budget.empty_reservation());
            (self.shared.sink.new_encoder(signal), cover)
        });
        let millis = message.timestamp().to_millis().unwrap_or(0);
        let cut = match cut {
            // The same offset with another time means that the topic was recreated, with other
            // rows.
            Cut::Exactly(batch)
                if batch.range.first() == offset && batch.first_millis != millis =>
            {
                partition.outcomes.clear();
                Cut::Exactly(Intent::new(batch.range, millis))
            }
            cut => cut,
        };
        let max_age = self.shared.settings.batch.max_age;
        let due = self.now + max_age;
        self.next_cut = Some(self.next_cut.map_or(due, |next| next.min(due)));
        partition.open = Some(OpenBatch {
            encoder,
            reservation,
            first_offset: offset,
            next_offset: offset,
            first_timestamp_millis: match cut {
                // The first message of the first attempt may be deleted.
                Cut::Exactly(batch) => batch.first_millis,
                Cut::Free | Cut::Before { .. } | Cut::Piece(_) => millis,
            },
            opened: self.now,
            cut,
            records: 0,
            dead_letters: Vec::new(),
            dead_letter_bytes: 0,
            message: None,
            bytes: 0,
        });
    }

    fn append_to_batch(&mut self, key: PartitionKey, offset: i64, message: &impl FetchedMessage) {
        let topic = &self.shared.settings.topics[usize::from(key.topic)];
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        partition.next_offset = offset + 1;
        partition.has_position = true;
        partition.last_timestamp_millis = message.timestamp().to_millis();
        let Some(open) = partition.open.as_mut() else { return };
        open.next_offset = offset + 1;
        let accepted = match too_long(message.payload().map_or(0, <[u8]>::len)) {
            Some(rejection) => AcceptedRecords::all_rejected(rejection),
            None => {
                let times = self.shared.settings.accepted_times(partition.last_timestamp_millis);
                open.encoder.append_groups(message.payload().unwrap_or_default(), &times)
            }
        };
        let AcceptedRecords { records, refused } = accepted;
        open.records += records;
        self.shared.telemetry.records_in(topic.signal, records);
        self.shared
            .telemetry
            .add_buffered(topic.signal, i64::try_from(records).unwrap_or(i64::MAX));
        if let Some(RejectedRecords { rejection, payload }) = refused {
            tracing::warn!(
                topic = %topic.name, partition = key.partition, offset, stored_records = records,
                reason = rejection.reason, detail = rejection.detail,
                "a message, or the part that can't be stored, is written to the dead-letter topic"
            );
            self.shared.telemetry.records_in(topic.signal, 1);
            self.shared.telemetry.add_buffered(topic.signal, 1);
            let mut dead_letter = build_dead_letter(message, topic.signal, &topic.name, rejection);
            if let Some(payload) = payload {
                dead_letter.payload = payload;
            }
            open.dead_letter_bytes += dead_letter.memory_bytes();
            open.dead_letters.push(dead_letter);
        }
        let last = open.cut.range().filter(|range| range.span() == 1);
        if let Some(range) = last
            && self.ledger.refused_parts(key, range.first()).is_some()
        {
            // If its rows are refused, it can't be divided further: `rejection` is set then.
            let rejection = Rejection { reason: "", detail: String::new() };
            let message = build_dead_letter(message, topic.signal, &topic.name, rejection);
            open.dead_letter_bytes += message.memory_bytes();
            open.message = Some(Box::new(message));
        }
        cover_batch(open, &mut self.headroom);
        self.headroom_bytes = HEADROOM_BYTES;
        // A reservation made for a long message covers many short ones.
        self.headroom.take_if(|room| room.bytes() > HEADROOM_BYTES);
        let bytes = open.encoder.held_bytes();
        self.open_bytes = self.open_bytes + bytes - std::mem::replace(&mut open.bytes, bytes);
    }

    fn cut_if_due(&mut self, key: PartitionKey) {
        let Some(open) = self.partitions.get(&key).and_then(|p| p.open.as_ref()) else { return };
        let size = BatchSize {
            rows: open.encoder.row_count(),
            bytes: open.encoder.plain_bytes() + open.dead_letter_bytes,
            age: self.now.saturating_duration_since(open.opened),
        };
        let reason = match open.cut {
            // A fixed range ends where it must, whatever its size and age.
            Cut::Exactly(Intent { range, .. }) | Cut::Piece(range) => {
                (open.next_offset >= range.next()).then_some(CutReason::Repeat)
            }
            Cut::Before { limit } if open.next_offset >= limit => Some(CutReason::Repeat),
            Cut::Free | Cut::Before { .. } if open.dead_letters.len() >= MAX_DEAD_LETTERS => {
                Some(CutReason::Bytes)
            }
            Cut::Free | Cut::Before { .. } => self.shared.settings.batch.cut_reason(size),
        };
        if let Some(reason) = reason {
            self.cut_batch(key, reason);
        } else if self.open_bytes > self.max_open_bytes()
            && let Some(largest) = self.largest_open()
        {
            self.cut_batch(largest, CutReason::Bytes);
        }
    }

    /// Cuts every batch that is old enough, and records when the next one is.
    pub(crate) fn cut_aged(&mut self) {
        let max_age = self.shared.settings.batch.max_age;
        let due = |open: &OpenBatch| match open.cut {
            Cut::Exactly(_) | Cut::Piece(_) => None,
            Cut::Free | Cut::Before { .. } => Some(open.opened + max_age),
        };
        let open = |p: &AssignedPartition| p.open.as_ref().and_then(due);
        let aged = self.partitions.iter().filter(|(_, p)| open(p).is_some_and(|d| d <= self.now));
        for key in aged.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.cut_batch(key, CutReason::Age);
        }
        self.next_cut = self.partitions.values().filter_map(open).min();
    }
}

/// Returns whether a batch opened under `open` must end before a message under `next`.
fn ends_before(open: Cut, next: Cut) -> bool {
    open.range() != next.range()
}
