//! Telling good rows from bad ones when ClickHouse refuses an insert for what is in it.
//!
//! Messages aren't kept while their rows are in flight: that would cost every batch the memory that
//! only a bad one needs. Instead the refused range is read again from Kafka, in pieces of bounded
//! size, and halved until single messages are left: the good ones are stored, the bad ones go to
//! the dead-letter topic. A few threads do this for all workers, so the neighbours go on; each job
//! waits most of its time, for Kafka and for ClickHouse.
//!
//! The pieces, and so the tokens, are a function of the range alone: a second try after a crash
//! repeats the same inserts.

use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_ledger::OffsetRange;
use millrace_pipeline::sink::{
    Answers, Block, Completion, DeadLetter, Insert, Origin, Outcome, Rejection, TableIndex,
};
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::Shared;
use super::letter::dead_letter;

/// Jobs that may wait: each is one refused insert, and the sink has at most 64 in flight.
pub(super) const MAX_JOBS: usize = 64;
/// Jobs worked on at once. One at a time, at 0.7 s each on a slow machine, held refused rows up for
/// half a minute where 20 of them came a second.
pub(super) const THREADS: usize = 4;
/// Messages of one piece, in bytes as in Kafka, but for one of any length. With the columns made of
/// it, about three times this is in memory for each thread, 12 MiB in all, outside of the budget:
/// it is bounded and rare.
const PIECE_BYTES: usize = 1 << 20;
/// How long reading a piece may take.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// How long one look for a message or an answer takes.
const WAIT: Duration = Duration::from_millis(50);

/// A refused insert.
pub(super) struct Job {
    pub(super) origin: Origin,
    pub(super) table: TableIndex,
    pub(super) day: i32,
    pub(super) rejection: Rejection,
    pub(super) completion: Completion,
}

/// Why a job couldn't be finished. Its partition is read again later.
#[derive(Debug, thiserror::Error)]
enum SalvageError {
    #[error("cannot read the messages again: {0}")]
    Read(#[from] KafkaError),
    #[error("reading the messages again took more than {} s", READ_TIMEOUT.as_secs())]
    Slow,
    #[error("the process is shutting down")]
    Draining,
    #[error("a part was given up")]
    Abandoned,
}

/// Works off jobs until the process drains. Jobs left then are answered as given up.
pub(super) fn work(shared: &Arc<Shared>, jobs: &Mutex<Receiver<Job>>) {
    while !shared.drain.is_begun() {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(WAIT);
        let Ok(job) = job else { continue };
        let Job { origin, table, day, rejection, completion } = job;
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
            stored: 0,
            dead: 0,
        };
        match salvage.run(&rejection) {
            Ok(()) => {
                tracing::info!(stored = salvage.stored, dead = salvage.dead, "rows told apart");
                completion.finish(Outcome::Stored);
            }
            Err(error) => {
                tracing::warn!(%error, "rows not told apart yet");
                completion.finish(Outcome::Abandoned);
            }
        }
    }
}

/// Blocks one piece may make for one table and day; more than one is already unusual.
const MAX_BLOCKS: usize = 64;

struct Salvage<'a> {
    shared: &'a Shared,
    origin: Origin,
    table: TableIndex,
    day: i32,
    answers: Answers,
    stored: u64,
    dead: u64,
}

impl Salvage<'_> {
    fn run(&mut self, rejection: &Rejection) -> Result<(), SalvageError> {
        let reader = self.reader()?;
        let mut at = self.origin.range.first();
        while at < self.origin.range.next() {
            let (piece, next) = self.read_piece(&reader, at, rejection)?;
            self.store_or_halve(&piece, rejection)?;
            at = next;
        }
        Ok(())
    }

    fn reader(&self) -> Result<BaseConsumer, SalvageError> {
        let mut client = self.shared.settings.reading_client();
        // Says so when the last messages of the range are gone.
        client.set("enable.partition.eof", "true");
        let reader: BaseConsumer = client.create()?;
        let mut list = TopicPartitionList::new();
        let from = Offset::Offset(self.origin.range.first());
        list.add_partition_offset(&self.origin.topic, self.origin.partition, from)?;
        reader.assign(&list)?;
        Ok(reader)
    }

    /// Messages from `from` on, and the offset after them.
    fn read_piece(
        &self,
        reader: &BaseConsumer,
        from: i64,
        rejection: &Rejection,
    ) -> Result<(Vec<DeadLetter>, i64), SalvageError> {
        let range = self.origin.range;
        let started = Instant::now();
        let (mut piece, mut bytes, mut next) = (Vec::new(), 0, from);
        while next < range.next() && bytes < PIECE_BYTES {
            if self.shared.drain.is_begun() {
                return Err(SalvageError::Draining);
            }
            match reader.poll(WAIT) {
                Some(Ok(message)) if message.offset() >= range.next() => {
                    return Ok((piece, range.next()));
                }
                Some(Ok(message)) => {
                    next = message.offset() + 1;
                    let Origin { signal, topic, .. } = &self.origin;
                    let letter = dead_letter(&message, *signal, topic, rejection.clone());
                    bytes += letter.bytes();
                    piece.push(letter);
                }
                Some(Err(KafkaError::PartitionEOF(_))) => return Ok((piece, range.next())),
                Some(Err(error)) => return Err(error.into()),
                None if started.elapsed() > READ_TIMEOUT => return Err(SalvageError::Slow),
                None => {}
            }
        }
        Ok((piece, next))
    }

    fn store_or_halve(
        &mut self,
        messages: &[DeadLetter],
        rejection: &Rejection,
    ) -> Result<(), SalvageError> {
        // Depth first, in order, with the latest reason at hand for each half.
        let mut spans = vec![(0..messages.len(), rejection.clone())];
        // The first piece of a range of one message is known to be bad as a whole.
        let mut known_bad = messages.len() == 1 && self.origin.range.span() == 1;
        while let Some((span, rejection)) = spans.pop() {
            let Some(part) = messages.get(span.clone()).filter(|part| !part.is_empty()) else {
                continue;
            };
            let refused = if std::mem::take(&mut known_bad) {
                Some(rejection)
            } else {
                self.try_to_store(part)?
            };
            match (refused, part) {
                (None, _) => {}
                (Some(rejection), [bad]) => {
                    self.bury(DeadLetter { rejection, ..bad.clone() })?;
                }
                (Some(rejection), _) => {
                    let middle = span.start + part.len() / 2;
                    spans.push((middle..span.end, rejection.clone()));
                    spans.push((span.start..middle, rejection));
                }
            }
        }
        Ok(())
    }

    /// Stores the rows these messages have in the table and day of the job. The reason when they
    /// are refused.
    fn try_to_store(&mut self, part: &[DeadLetter]) -> Result<Option<Rejection>, SalvageError> {
        let (Some(first), Some(last)) = (part.first(), part.last()) else { return Ok(None) };
        let Ok(range) = OffsetRange::new(first.offset, last.offset + 1) else { return Ok(None) };
        let mut encoder = self.shared.sink.encoder(self.origin.signal);
        for message in part {
            // What can't be decoded went to the dead-letter topic when it was first read.
            let _ = encoder.append_groups(&message.payload);
        }
        let mut blocks = encoder.take();
        blocks.retain(|block| block.table == self.table && block.slice.day == self.day);
        blocks.truncate(MAX_BLOCKS);
        let records: u64 = blocks.iter().map(|block| block.records).sum();
        let origin = Origin {
            range,
            first_timestamp_millis: first.timestamp_millis.unwrap_or(0),
            ..self.origin.clone()
        };
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
        let reservation = self.shared.budget.try_reserve(0).ok_or(SalvageError::Abandoned)?;
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
        }
    }
}
