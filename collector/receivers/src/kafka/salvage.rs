//! Finds the bad rows when ClickHouse refuses an insert for its content.
//!
//! Messages aren't kept while their rows are in flight: every batch would pay the memory that only
//! a bad one needs. Instead the refused range is read again from Kafka and halved down to single
//! messages: the good ones are stored, the bad ones go to the dead-letter topic. A few threads do
//! this for all workers ([`super::jobs`]), so other batches continue; a job mostly waits for Kafka
//! and ClickHouse.
//!
//! The pieces, and so the tokens, depend on the range alone: its offsets are halved, not the
//! messages found there. A refused part or piece is recorded with the offsets before its halves are
//! sent (by the session), so that a second attempt after a crash repeats the same pieces, even if
//! the table would accept a larger one by then. The first message's time, which is part of the
//! tokens, is recorded too.
//!
//! Messages that retention deletes meanwhile are lost: the lag board counts and names them like any
//! others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use millrace_ledger::{Apart, OffsetRange};
use millrace_pipeline::sink::{
    Answers, Block, DeadLetter, Insert, Origin, Outcome, Rejection, TableIndex,
};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::Shared;
use super::dead_letter::dead_letter;
use super::jobs::{Job, Question, Record};

/// Messages of one piece, in bytes as in Kafka, but for one of any length; more are halved. With
/// the columns made of it, about three times this is in memory for each thread, 12 MiB in all and
/// as much again for each table in trouble, outside of the budget: it is bounded and rare.
const PIECE_BYTES: usize = 1 << 20;
/// Time-out of reading without a message.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Time-out of requests for the partition's end.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Time of one poll for a message or an answer.
const WAIT: Duration = Duration::from_millis(50);

/// Why a job couldn't be finished. Its partition is read again later.
#[derive(Debug, thiserror::Error)]
enum SalvageError {
    #[error("cannot read the messages again: {0}")]
    Read(#[from] KafkaError),
    #[error("no message came for {} s", READ_TIMEOUT.as_secs())]
    Slow,
    #[error("the partition ends at {end}, before the range does")]
    Ended { end: i64 },
    #[error("the process is shutting down")]
    Draining,
    #[error("a part was given up")]
    Abandoned,
}

/// Does jobs until the process drains. Jobs left then are answered as given up.
pub(super) fn work(shared: &Arc<Shared>) {
    let mut is_relieved = false;
    while !shared.drain.is_begun() && !is_relieved {
        let Some(job) = shared.salvage.take(shared.sink.as_ref(), WAIT) else { continue };
        let Job { origin, table, day, from, rejection, record, completion } = job;
        tracing::warn!(
            topic = %origin.topic, partition = origin.partition, range = %origin.range,
            reason = rejection.reason, detail = rejection.detail,
            "an insert was refused for its rows; telling them apart"
        );
        let mut salvage = Salvage {
            shared,
            origin,
            table,
            day,
            answers: Answers::new(MAX_BLOCKS),
            is_relieved: false,
            stored: 0,
            dead: 0,
        };
        match salvage.run(from, rejection, &record) {
            Ok(()) => {
                tracing::info!(stored = salvage.stored, dead = salvage.dead, "rows told apart");
                completion.finish(Outcome::Stored);
            }
            Err(error) => {
                tracing::warn!(%error, "rows not told apart yet");
                completion.finish(Outcome::Abandoned);
            }
        }
        is_relieved = salvage.is_relieved;
    }
}

/// Blocks one piece may make for one table and day; more than one is already unusual.
const MAX_BLOCKS: usize = 64;

impl Messages {
    fn of(&self, piece: OffsetRange) -> impl Iterator<Item = &DeadLetter> {
        self.ahead.iter().filter(move |message| piece.contains(message.offset))
    }

    /// Pieces are done in order.
    fn drop_before(&mut self, offset: i64) {
        while self.ahead.front().is_some_and(|message| message.offset < offset) {
            self.bytes -= self.ahead.pop_front().map_or(0, |done| done.bytes());
        }
    }
}

struct Salvage<'a> {
    shared: &'a Arc<Shared>,
    origin: Origin,
    table: TableIndex,
    day: i32,
    answers: Answers,
    /// Another thread works instead of this one, which ends with its job.
    is_relieved: bool,
    stored: u64,
    dead: u64,
}

/// The messages of a range, read once from its first to its last.
struct Messages {
    reader: BaseConsumer,
    /// Read, and not finished.
    ahead: VecDeque<DeadLetter>,
    bytes: usize,
    /// The offset after the last that was read.
    next: i64,
}

impl Salvage<'_> {
    fn run(
        &mut self,
        from: OffsetRange,
        rejection: Rejection,
        record: &Record,
    ) -> Result<(), SalvageError> {
        let range = self.origin.range;
        let mut messages = self.messages(from.first())?;
        // A range of one message is known to be refused as a whole.
        let mut known_bad = (range.span() == 1).then(|| rejection.clone());
        let mut rejection = rejection;
        let mut next = Some(from);
        while let Some(piece) = next {
            let fits = self.read(&mut messages, piece, &rejection)?;
            let refused = match known_bad.take() {
                Some(known) => Some(known),
                None if fits => self.try_to_store(piece, messages.ahead.make_contiguous())?,
                None => Some(rejection.clone()),
            };
            next = match (refused, piece.halves()) {
                (None, _) => range.piece_after(piece),
                (Some(latest), Some((left, _))) => {
                    rejection = latest;
                    self.put_on_record(record, left)?;
                    Some(left)
                }
                (Some(latest), None) => {
                    if let Some(bad) = messages.of(piece).next() {
                        self.bury(DeadLetter { rejection: latest, ..bad.clone() })?;
                    }
                    range.piece_after(piece)
                }
            };
        }
        Ok(())
    }

    /// Waits until a commit names the piece, so that no larger one is sent again.
    fn put_on_record(&self, record: &Record, piece: OffsetRange) -> Result<(), SalvageError> {
        let Record { ticket, part, session } = record;
        let (answer, answered) = sync_channel(1);
        let apart = Apart { part: *part, piece };
        let mut question = Question { ticket: *ticket, apart, answer };
        while let Err(error) = session.try_send(question) {
            let TrySendError::Full(back) = error else { return Err(SalvageError::Abandoned) };
            self.look_for_drain()?;
            std::thread::sleep(WAIT);
            question = back;
        }
        loop {
            match answered.recv_timeout(WAIT) {
                Ok(()) => return Ok(()),
                Err(RecvTimeoutError::Timeout) => self.look_for_drain()?,
                Err(RecvTimeoutError::Disconnected) => return Err(SalvageError::Abandoned),
            }
        }
    }

    fn look_for_drain(&self) -> Result<(), SalvageError> {
        if self.shared.drain.is_begun() { Err(SalvageError::Draining) } else { Ok(()) }
    }

    fn messages(&self, from: i64) -> Result<Messages, SalvageError> {
        let mut client = self.shared.settings.reading_client();
        // What retention has deleted isn't waited for, and what is left isn't passed over.
        client.set("auto.offset.reset", "earliest");
        // Says so when the last messages of the range are gone.
        client.set("enable.partition.eof", "true");
        let reader: BaseConsumer = client.create()?;
        let mut list = TopicPartitionList::new();
        let Origin { topic, partition, .. } = &self.origin;
        list.add_partition_offset(topic, *partition, Offset::Offset(from))?;
        reader.assign(&list)?;
        Ok(Messages { reader, ahead: VecDeque::new(), bytes: 0, next: from })
    }

    /// Reads all messages of a piece. False when they exceed a piece's limit.
    fn read(
        &self,
        messages: &mut Messages,
        piece: OffsetRange,
        rejection: &Rejection,
    ) -> Result<bool, SalvageError> {
        messages.drop_before(piece.first());
        let mut last = Instant::now();
        while messages.next < piece.next() {
            if self.shared.drain.is_begun() {
                return Err(SalvageError::Draining);
            }
            if messages.bytes >= PIECE_BYTES && piece.span() > 1 {
                return Ok(false);
            }
            match messages.reader.poll(WAIT) {
                Some(Ok(message)) => {
                    last = Instant::now();
                    let Origin { signal, topic, range, .. } = &self.origin;
                    let letter = dead_letter(&message, *signal, topic, rejection.clone());
                    drop(message);
                    self.went_to(messages, letter.offset);
                    if letter.offset < range.next() {
                        messages.next = letter.offset + 1;
                        messages.bytes += letter.bytes();
                        messages.ahead.push_back(letter);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(_))) => self.ended(messages)?,
                // The client goes to the earliest by itself.
                Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::OffsetOutOfRange))) => {}
                Some(Err(error)) => return Err(error.into()),
                None if last.elapsed() > READ_TIMEOUT => return Err(SalvageError::Slow),
                None => {}
            }
        }
        Ok(true)
    }

    /// The next message, or the partition's end, is at `offset`: unread messages before it are
    /// gone. The partition's beginning decides why.
    fn went_to(&self, messages: &mut Messages, offset: i64) {
        let got = offset.min(self.origin.range.next());
        if got > messages.next {
            let Origin { topic, partition, .. } = &self.origin;
            self.shared.lag.passed_over(topic, *partition, messages.next, got);
            messages.next = got;
        }
    }

    /// No further message. That counts only where the partition ends behind the range: otherwise
    /// its end was lost, or this broker doesn't know it yet.
    fn ended(&self, messages: &mut Messages) -> Result<(), SalvageError> {
        let Origin { topic, partition, range, .. } = &self.origin;
        let (_, end) = messages.reader.fetch_watermarks(topic, *partition, ASK_TIMEOUT)?;
        if end < range.next() {
            return Err(SalvageError::Ended { end });
        }
        self.went_to(messages, end);
        Ok(())
    }

    /// Stores the rows of these messages for the job's table and day. Returns the reason when they
    /// are refused.
    fn try_to_store(
        &mut self,
        piece: OffsetRange,
        ahead: &[DeadLetter],
    ) -> Result<Option<Rejection>, SalvageError> {
        let mut encoder = self.shared.sink.encoder(self.origin.signal);
        for message in ahead.iter().filter(|message| piece.contains(message.offset)) {
            // What can't be decoded went to the dead-letter topic when it was first read.
            let _ = encoder.append_groups(&message.payload);
        }
        let mut blocks = encoder.take();
        blocks.retain(|block| block.table == self.table && block.slice.day == self.day);
        blocks.truncate(MAX_BLOCKS);
        let records: u64 = blocks.iter().map(|block| block.records).sum();
        let origin = Origin { range: piece, ..self.origin.clone() };
        for block in blocks {
            if let Some(rejection) = self.store(block, origin.clone())? {
                return Ok(Some(rejection));
            }
        }
        self.stored += records;
        self.shared.telemetry.records_out(self.origin.signal, records);
        Ok(None)
    }

    fn store(&mut self, block: Block, origin: Origin) -> Result<Option<Rejection>, SalvageError> {
        // Covered by this module's own bound, not by the budget: see `PIECE_BYTES`.
        let reservation = self.shared.budget.nothing();
        let mut insert = Insert { block, origin, reservation };
        let mut completion = self.answers.open().ok_or(SalvageError::Abandoned)?;
        loop {
            if self.shared.drain.is_begun() {
                return Err(SalvageError::Draining);
            }
            match self.shared.sink.submit(insert, completion) {
                Ok(()) => break,
                Err(back) => (insert, completion) = (back.work, back.completion),
            }
            self.be_relieved();
            std::thread::sleep(WAIT);
        }
        match self.answer()? {
            Outcome::Stored => Ok(None),
            Outcome::Rejected(rejection) => Ok(Some(rejection)),
            Outcome::Abandoned => Err(SalvageError::Abandoned),
        }
    }

    fn bury(&mut self, letter: DeadLetter) -> Result<(), SalvageError> {
        let reason = letter.rejection.reason;
        let mut letter = letter;
        let mut completion = self.answers.open().ok_or(SalvageError::Abandoned)?;
        loop {
            if self.shared.drain.is_begun() {
                return Err(SalvageError::Draining);
            }
            match self.shared.dead_letters.submit(letter, completion) {
                Ok(()) => break,
                Err(back) => (letter, completion) = (back.work, back.completion),
            }
            std::thread::sleep(WAIT);
        }
        match self.answer()? {
            Outcome::Stored => {
                self.dead += 1;
                self.shared.telemetry.dead_lettered(self.origin.signal, reason, 1);
                Ok(())
            }
            Outcome::Rejected(rejection) => {
                tracing::error!(
                    reason = rejection.reason,
                    detail = rejection.detail,
                    "a message can neither be stored nor dead-lettered; it is left in its topic"
                );
                self.shared.telemetry.dead_lettered(self.origin.signal, "undeliverable", 1);
                Ok(())
            }
            Outcome::Abandoned => Err(SalvageError::Abandoned),
        }
    }

    fn answer(&mut self) -> Result<Outcome, SalvageError> {
        loop {
            if let Some(answer) = self.answers.next_within(WAIT) {
                return Ok(answer.outcome);
            }
            if self.shared.drain.is_begun() {
                return Err(SalvageError::Draining);
            }
            self.be_relieved();
        }
    }

    /// Lets another thread do other tables' jobs while this one's table takes nothing.
    fn be_relieved(&mut self) {
        if !self.is_relieved && self.shared.sink.is_blocked(self.table) {
            let shared = Arc::clone(self.shared);
            self.is_relieved = self.shared.salvage.relieve(self.table, move || work(&shared));
        }
    }
}
