//! Messages to batches: appends straight from librdkafka's buffer, and cuts.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use millrace_ledger::{Cut, Intent, TrackError};
use millrace_pipeline::batch::{BatchSize, CutReason};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::failpoint;
use millrace_pipeline::sink::{Block, Insert, Origin, Refused, Rejection, TableIndex, Taken};
use millrace_wire::limits::WRITTEN_BYTES;
use millrace_wire::{Signal, otlp};
use rdkafka::topic_partition_list::Offset;

use super::dead_letter::{TOO_LONG, dead_letter};
use super::flight::SEEK_RETRY;
use super::member::{Fetched, Member};
use super::partition::{Key, OpenBatch, Partition};
use super::parts::{Work, name_of};
use super::session::{HEADROOM_BYTES, Session};

/// Reservations change in steps, so that the shared counter isn't touched per message: a sixteenth
/// of what a batch needs, but at least 32 KiB and at most 1 MiB. A batch of few rows, of which
/// there may be one for every partition, needs about 100 KiB.
const RESERVATION_STEP_BYTES: std::ops::RangeInclusive<u64> = 32 << 10..=1 << 20;
const RESERVATION_STEP_SHARE: u64 = 16;
/// A batch smaller than this isn't cut to make room: many small inserts would cost more than they
/// free.
const MIN_CUT_FOR_ROOM_BYTES: usize = 1 << 20;
/// Bytes that all open batches of a worker hold, columns and what is compressed of them: 32 MiB,
/// two usual batches of 200,000 lean spans, or a quarter of the budget over the workers where that
/// is more. Beyond it the largest is sent early, so that memory doesn't grow with the number of
/// partitions.
const MIN_OPEN_BYTES: usize = 32 << 20;
const OPEN_SHARE: u64 = 4;
/// How long the budget may stay full before a batch isn't repeated unchanged. Other workers'
/// batches are sent within seconds.
const STUCK_AFTER: Duration = Duration::from_secs(30);
/// How long a partition without room waits for the others' repeats. One whose leader is away must
/// not delay the rest.
const REPEAT_WAIT: Duration = Duration::from_secs(5);
/// The longest message that is decoded: 8 MiB, eight times the brokers' default. The same in every
/// gateway and at any time, so that a second attempt makes the same rows of a message as the first:
/// without memory it waits.
const MAX_MESSAGE_BYTES: usize = 8 << 20;
/// A longer message is a batch of its own: twice the brokers' default. It may make several inserts,
/// and if one of them were refused, it would be unknown which of its neighbours' rows in the others
/// are stored.
const ALONE_BYTES: usize = 2 << 20;
/// What a byte of a message may become in memory: columns with ids in text, and bodies beside them.
const GROWTH: u64 = 4;
/// What is waited for before a long message is taken is at most this part of the budget: a quarter
/// is what consumers fetch ahead, so there is as much once other batches have left. A message of
/// 8 MiB is decoded in 32 MiB, which is more in a budget under 128 MiB.
const LONGEST_SHARE: u64 = 4;
/// At most this part of the budget is waited for before a message is taken: a half, as consumers
/// fetch a quarter of it ahead. A message that is written as 64 MiB fits into the half of 128 MiB,
/// the budget of a process with 256 MiB.
const WAIT_SHARE: u64 = 2;
/// Dead letters of one batch; at this many it is cut. A batch's letters and blocks are parts to be
/// answered, of which a worker may have 1,024 open.
const MAX_LETTERS: usize = 256;

impl<M: Member> Session<M> {
    /// Takes one message into its partition's batch.
    pub(super) fn take(&mut self, message: &impl Fetched) {
        failpoint::hit("after-fetch");
        let Some(key) = self.key_of(message.topic(), message.partition()) else { return };
        let offset = message.offset();
        let Some(partition) = self.partitions.get(&key) else { return };
        // Fetched before the partition left: read again by whoever owns it then.
        if partition.leaving || partition.goes_to.is_some() || self.shared.drain.is_begun() {
            return;
        }
        if offset < partition.next_offset {
            if !partition.is_another(message.timestamp().to_millis()) {
                return;
            }
            self.begin_anew(key, offset);
        }
        if self.may_hide_damage(key, offset) {
            return;
        }
        if !self.has_room_for(key, offset, message.payload().unwrap_or_default()) {
            return;
        }
        self.note_gap(key, offset);
        let cut = self.ledger.cut_at(key, offset);
        let open = self.partitions.get(&key).and_then(|partition| partition.open.as_ref());
        // A batch that is repeated holds what it held before.
        let alone = message.payload().map_or(0, <[u8]>::len) > ALONE_BYTES
            && !matches!(cut, Cut::Exactly(_));
        let ends = if open.is_some_and(|open| ends_before(open.cut, cut)) {
            Some(CutReason::Repeat)
        } else {
            alone.then_some(CutReason::Bytes)
        };
        if ends.is_some_and(|reason| !self.cut(key, reason)) {
            // It will be read again after what was put back.
            return;
        }
        self.open_batch(key, offset, message, cut);
        self.append(key, offset, message);
        if alone {
            self.cut(key, CutReason::Bytes);
        } else {
            self.cut_if_due(key);
        }
    }

    /// Whether messages before this one may be missing because they were damaged in transit:
    /// librdkafka reports that, but not where, and continues behind them. They are fetched again.
    fn may_hide_damage(&mut self, key: Key, offset: i64) -> bool {
        if self.damaged_until.is_none_or(|until| until <= self.now) {
            return false;
        }
        let Some(partition) = self.partitions.get_mut(&key) else { return false };
        let wanted = match partition.is_placed {
            true if offset <= partition.next_offset => return false,
            true => Offset::Offset(partition.next_offset),
            false => Offset::Beginning,
        };
        tracing::warn!(
            topic = key.topic,
            partition = key.partition,
            ?wanted,
            offset,
            "looking for damaged messages again"
        );
        partition.goes_to = Some(wanted);
        self.next_seek = self.now + SEEK_RETRY;
        true
    }

    /// Messages may have been skipped. The partition's beginning decides whether they are lost.
    fn note_gap(&self, key: Key, got: i64) {
        let Some(partition) = self.partitions.get(&key) else { return };
        if got > partition.next_offset
            && partition.is_placed
            && let Some(topic) = self.topic(key)
        {
            let wanted = partition.next_offset;
            self.shared.lag.passed_over(&topic.name, key.partition, wanted, got);
        }
    }

    /// Whether there is memory for a message of this length. If not, it is fetched again once there
    /// is; nothing is read before.
    fn has_room_for(&mut self, key: Key, offset: i64, payload: &[u8]) -> bool {
        let bytes = payload.len();
        let limit_bytes = self.shared.budget.limit_bytes();
        let decoded_bytes = (bytes as u64 * GROWTH).min(limit_bytes / LONGEST_SHARE);
        // More is never free in a small budget.
        let written_bytes = bytes as u64 + self.written_bytes(key, payload);
        let needed = decoded_bytes.max(written_bytes.min(limit_bytes / WAIT_SHARE));
        if needed <= HEADROOM_BYTES || too_long(bytes).is_some() {
            return true;
        }
        if self.headroom.as_ref().is_some_and(|room| room.bytes() >= needed) {
            return true;
        }
        // What is held already isn't asked for twice.
        self.headroom = None;
        self.headroom = self.shared.budget.try_reserve(needed);
        if self.headroom.is_some() {
            return true;
        }
        self.headroom_bytes = needed;
        self.go_to(key, Offset::Offset(offset));
        false
    }

    /// A message's written size, which may be far more than its bytes. One over the limit, or one
    /// that can't be read, isn't taken.
    fn written_bytes(&self, key: Key, payload: &[u8]) -> u64 {
        let signal = self.topic(key).map(|topic| topic.signal);
        let written = signal.and_then(|signal| otlp::written_bytes(signal, payload).ok());
        written.filter(|&bytes| bytes <= WRITTEN_BYTES).unwrap_or(0)
    }

    /// Makes sure that the partition has a batch to fill.
    fn open_batch(&mut self, key: Key, offset: i64, message: &impl Fetched, cut: Cut) {
        let Some(signal) = self.topic(key).map(|topic| topic.signal) else { return };
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        if partition.open.is_some() {
            return;
        }
        let (encoder, reservation) = self.spares.take(signal).unwrap_or_else(|| {
            // Without a spare the headroom is the batch's first cover. Nothing is read without
            // one, and a message that is in hand all the same must not be left out: the offsets
            // behind it would be committed over it.
            let cover = self.headroom.take().unwrap_or_else(|| self.shared.budget.nothing());
            (self.shared.sink.encoder(signal), cover)
        });
        let millis = message.timestamp().to_millis().unwrap_or(0);
        let cut = match cut {
            // The same offset with another time: the topic was made again, and its rows are others.
            Cut::Exactly(batch)
                if batch.range.first() == offset && batch.first_millis != millis =>
            {
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
                // The first message of the first try may be gone.
                Cut::Exactly(batch) => batch.first_millis,
                Cut::Free | Cut::Before { .. } => millis,
            },
            opened: self.now,
            cut,
            records: 0,
            letters: Vec::new(),
            letter_bytes: 0,
            bytes: 0,
        });
    }

    fn append(&mut self, key: Key, offset: i64, message: &impl Fetched) {
        let Some(topic) = self.shared.settings.topics.get(usize::from(key.topic)) else { return };
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        partition.next_offset = offset + 1;
        partition.is_placed = true;
        partition.last_timestamp_millis = message.timestamp().to_millis();
        let Some(open) = partition.open.as_mut() else { return };
        open.next_offset = offset + 1;
        let taken = match too_long(message.payload().map_or(0, <[u8]>::len)) {
            Some(rejection) => Taken::refused(rejection),
            None => open.encoder.append_groups(message.payload().unwrap_or_default()),
        };
        let Taken { records, refused } = taken;
        open.records += records;
        self.shared.telemetry.records_in(topic.signal, records);
        self.shared.telemetry.buffered(topic.signal, i64::try_from(records).unwrap_or(i64::MAX));
        if let Some(Refused { rejection, payload }) = refused {
            tracing::warn!(
                topic = %topic.name, partition = key.partition, offset, stored_records = records,
                reason = rejection.reason, detail = rejection.detail,
                "message, or what of it can't be stored, goes to the dead-letter topic"
            );
            self.shared.telemetry.records_in(topic.signal, 1);
            self.shared.telemetry.buffered(topic.signal, 1);
            let mut letter = dead_letter(message, topic.signal, &topic.name, rejection);
            if let Some(payload) = payload {
                letter.payload = payload;
            }
            open.letter_bytes += letter.bytes();
            open.letters.push(letter);
        }
        cover(open, &mut self.headroom);
        self.headroom_bytes = HEADROOM_BYTES;
        // What was set aside for a long message is enough for many short ones.
        self.headroom.take_if(|room| room.bytes() > HEADROOM_BYTES);
        let bytes = open.encoder.held_bytes();
        self.open_bytes = self.open_bytes + bytes - std::mem::replace(&mut open.bytes, bytes);
    }

    fn cut_if_due(&mut self, key: Key) {
        let Some(open) = self.partitions.get(&key).and_then(|p| p.open.as_ref()) else { return };
        let size = BatchSize {
            rows: open.encoder.rows(),
            bytes: open.encoder.plain_bytes() + open.letter_bytes,
            age: self.now.saturating_duration_since(open.opened),
        };
        let reason = match open.cut {
            // An earlier try's range ends where it ended then, whatever its size and age.
            Cut::Exactly(intent) => {
                (open.next_offset >= intent.range.next()).then_some(CutReason::Repeat)
            }
            Cut::Before { limit } if open.next_offset >= limit => Some(CutReason::Repeat),
            Cut::Free | Cut::Before { .. } if open.letters.len() >= MAX_LETTERS => {
                Some(CutReason::Bytes)
            }
            Cut::Free | Cut::Before { .. } => self.shared.settings.batch.due(size),
        };
        if let Some(reason) = reason {
            self.cut(key, reason);
        } else if self.open_bytes > self.max_open_bytes()
            && let Some(largest) = self.largest_open()
        {
            self.cut(largest, CutReason::Bytes);
        }
    }

    /// What this worker's open batches may hold.
    fn max_open_bytes(&self) -> usize {
        let workers = u64::from(self.shared.settings.workers.max(1));
        let share = self.shared.budget.limit_bytes() / OPEN_SHARE / workers;
        usize::try_from(share).unwrap_or(usize::MAX).max(MIN_OPEN_BYTES)
    }

    /// Cuts every batch that is old enough, and notes when the next one is.
    pub(super) fn cut_aged(&mut self) {
        let max_age = self.shared.settings.batch.max_age;
        let due = |open: &OpenBatch| match open.cut {
            Cut::Exactly(_) => None,
            Cut::Free | Cut::Before { .. } => Some(open.opened + max_age),
        };
        let open = |p: &Partition| p.open.as_ref().and_then(due);
        let aged = self.partitions.iter().filter(|(_, p)| open(p).is_some_and(|d| d <= self.now));
        for key in aged.map(|(key, _)| *key).collect::<Vec<_>>() {
            self.cut(key, CutReason::Age);
        }
        self.next_cut = self.partitions.values().filter_map(open).min();
    }

    /// Ends the partition's batch: tracks its offsets and passes its parts on. False when one of
    /// its tables takes nothing for now: then it is put back, to be read again later, so that it
    /// takes no memory while it waits.
    pub(super) fn cut(&mut self, key: Key, reason: CutReason) -> bool {
        let Some(signal) = self.topic(key).map(|topic| topic.signal) else { return true };
        let Some(partition) = self.partitions.get_mut(&key) else { return true };
        let Some(mut open) = partition.open.take() else { return true };
        let blocks = open.encoder.take();
        if let Some(table) = self.in_the_way(key, &blocks) {
            if let Some(partition) = self.partitions.get_mut(&key) {
                partition.open = Some(open);
            }
            self.keep_back(key, table);
            return false;
        }
        self.open_bytes -= open.bytes;
        let Some(intent) = open.intent() else { return true };
        let range = intent.range;
        let letters = std::mem::take(&mut open.letters);
        // What an earlier try has told apart to its end isn't sent again.
        let is_done = |block: &Block| intent.apart.is_some_and(|apart| name_of(block) < apart.part);
        let (done, blocks): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_done);
        self.count_out(signal, done.iter().map(|block| block.records).sum());
        let parts = u32::try_from(blocks.len() + letters.len()).unwrap_or(u32::MAX);
        let ticket = match self.ledger.track(key, intent, NonZeroU32::new(parts)) {
            Ok(ticket) => ticket,
            Err(TrackError::NotAssigned) => return true,
            Err(error @ (TrackError::OutOfOrder { .. } | TrackError::Full)) => {
                // Neither can happen while `take` and `may_read` hold what they promise. Reading
                // the range again is right all the same.
                tracing::error!(%error, partition = key.partition, "cannot track a batch");
                self.count_out(signal, open.records + letters.len() as u64);
                self.rewind(key);
                return true;
            }
        };
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.flying.push_back((range, open.first_timestamp_millis));
        }
        tracing::debug!(
            topic = key.topic, partition = key.partition, %range, ?reason,
            records = open.records, blocks = blocks.len(), letters = letters.len(), "batch cut"
        );
        for letter in letters {
            let cover = open.reservation.split(letter.bytes() as u64);
            self.held.push_back(Work::Letter(ticket, Box::new(letter), cover));
        }
        for block in blocks {
            let origin = self.origin(key, signal, range, open.first_timestamp_millis);
            if intent.apart.is_some_and(|apart| name_of(&block) == apart.part) {
                self.refuse_again(ticket, &block, origin);
                continue;
            }
            let reservation = open.reservation.split(block.body.len() as u64);
            self.held.push_back(Work::Insert(ticket, Insert { block, origin, reservation }));
        }
        self.release_held();
        if reason != CutReason::Budget {
            self.spares.keep(signal, open.encoder, open.reservation);
        }
        true
    }

    /// A table of these blocks that takes nothing for now. One that is waited for by a partition
    /// that is given up, or at the end, may yet take them in time.
    fn in_the_way(&self, key: Key, blocks: &[Block]) -> Option<TableIndex> {
        if self.shared.drain.is_begun() || self.partitions.get(&key)?.leaving {
            return None;
        }
        let mut tables = blocks.iter().map(|block| block.table);
        tables.find(|table| self.shared.sink.is_blocked(*table))
    }

    fn origin(
        &self,
        key: Key,
        signal: Signal,
        range: millrace_ledger::OffsetRange,
        first_timestamp_millis: i64,
    ) -> Origin {
        let topic = self.topic(key).map_or_else(|| Arc::from(""), |topic| Arc::clone(&topic.name));
        Origin {
            signal,
            group: Arc::clone(&self.shared.settings.group),
            topic,
            partition: key.partition,
            range,
            first_timestamp_millis,
            is_read_again: true,
        }
    }

    /// The budget is full: frees spare memory, else sends the largest batch early.
    pub(super) fn make_room(&mut self) {
        if self.spares.clear() {
            return;
        }
        if let Some(key) = self.largest_open() {
            self.cut(key, CutReason::Budget);
        } else if self.put_one_back() {
            self.next_repeat = self.now + REPEAT_WAIT;
        } else if self.answers.unanswered() == 0 {
            let since = *self.stuck_since.get_or_insert(self.now);
            if self.now - since >= STUCK_AFTER {
                self.repeat_no_longer();
            }
        }
    }

    /// The partition with the largest batch that may end anywhere and is worth an insert.
    fn largest_open(&self) -> Option<Key> {
        let size = |p: &Partition| match p.open.as_ref() {
            Some(open) if !open.is_repeat() => open.bytes,
            _ => 0,
        };
        let largest = self.partitions.iter().max_by_key(|(_, p)| size(p))?;
        (size(largest.1) >= MIN_CUT_FOR_ROOM_BYTES).then_some(*largest.0)
    }

    /// Of several batches that repeat an earlier try, and so can't be cut, drops one. Its partition
    /// isn't read until there is room for it. False when there is one such batch at most.
    fn put_one_back(&mut self) -> bool {
        let repeats =
            |(_, p): &(&Key, &Partition)| p.open.as_ref().is_some_and(OpenBatch::is_repeat);
        let mut repeating = self.partitions.iter().filter(repeats).map(|(key, _)| *key);
        let (Some(_first), Some(last)) = (repeating.next(), repeating.next_back()) else {
            return false;
        };
        if let Some(partition) = self.partitions.get_mut(&last) {
            partition.lacks_room = true;
        }
        self.pause_one(last);
        self.put_back(last)
    }

    /// Reads a partition again that had no room for its repeat: there is room now, and no other
    /// repeats anything, or the others have made no progress for long.
    pub(super) fn go_on_repeating(&mut self) {
        let waits =
            |(_, p): &(&Key, &Partition)| p.lacks_room && p.kept_back.is_none() && !p.leaving;
        let Some(next) = self.partitions.iter().find(waits).map(|(key, _)| *key) else { return };
        let repeats = |p: &Partition| p.open.as_ref().is_some_and(OpenBatch::is_repeat);
        let others = self.partitions.values().any(repeats);
        if self.headroom.is_none() || (others && self.now < self.next_repeat) {
            return;
        }
        self.next_repeat = self.now + REPEAT_WAIT;
        if let Some(partition) = self.partitions.get_mut(&next) {
            partition.lacks_room = false;
        }
        if !self.is_paused()
            && let Err(error) = self.member.resume(&self.list(std::iter::once(next)))
        {
            tracing::warn!(worker = self.worker, %error, "cannot resume a partition");
        }
    }

    /// A batch that has to be repeated whole doesn't fit into the budget, which was larger when it
    /// was first cut. Progress matters more than avoiding a duplicate.
    fn repeat_no_longer(&mut self) {
        for (key, partition) in &mut self.partitions {
            let Some(open) = partition.open.as_mut() else { continue };
            if let Cut::Exactly(intent) = open.cut {
                tracing::error!(
                    topic = key.topic, partition = key.partition, range = %intent.range,
                    "the memory budget is too small to repeat a batch whole; it may be stored twice"
                );
                open.cut = Cut::Free;
            }
        }
        self.stuck_since = None;
    }
}

/// Why a message isn't decoded, if it is too long for that.
fn too_long(bytes: usize) -> Option<Rejection> {
    (bytes > MAX_MESSAGE_BYTES).then(|| Rejection {
        reason: TOO_LONG,
        detail: format!(
            "{bytes} bytes are more than the {MAX_MESSAGE_BYTES} that are decoded; they are left \
             in the source topic"
        ),
    })
}

/// Whether a batch opened under `open` must end before a message under `next`.
fn ends_before(open: Cut, next: Cut) -> bool {
    match (open, next) {
        (Cut::Exactly(open), Cut::Exactly(next)) => open.range != next.range,
        (Cut::Exactly(_), _) | (_, Cut::Exactly(_)) => true,
        _ => false,
    }
}

/// The step in which a reservation of about `needed` bytes changes. A power of two, so that it is
/// the same for batches of like size.
fn step_bytes(needed: u64) -> u64 {
    let (least, most) = RESERVATION_STEP_BYTES.into_inner();
    (needed / RESERVATION_STEP_SHARE).next_power_of_two().clamp(least, most)
}

/// Keeps the batch's reservation over its memory and the bodies to come. Where the budget has no
/// more, the headroom is what it was kept for.
fn cover(open: &mut OpenBatch, headroom: &mut Option<Reservation>) {
    let memory = open.encoder.memory_bytes() + open.letter_bytes * 3 / 2;
    let needed = (memory + open.encoder.body_bytes()) as u64;
    let needed = needed.next_multiple_of(step_bytes(needed));
    if needed == open.reservation.bytes() || open.reservation.try_resize(needed) {
        return;
    }
    if let Some(headroom) = headroom.take() {
        open.reservation.absorb(headroom);
    }
}
