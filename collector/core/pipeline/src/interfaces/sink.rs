//! The interface between a source of messages and a sink of blocks.
//!
//! A source owns threads and offsets; a sink owns encoders and connections. They share only this
//! crate. A source gets an [`Encoder`] per open batch from the [`Sink`], appends messages to it as
//! they come, cuts it into [`Block`]s, and submits each with a [`Completion`]. The sink answers by
//! completing it; dropping it unanswered also answers ([`DeliveryOutcome::Abandoned`]), so that a
//! lost task can't strand a batch.
//!
//! Nothing here blocks: a full sink returns the work, and answers always fit into their channel,
//! because a source never has more unanswered parts than the channel's length.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use millrace_ledger::OffsetRange;
use millrace_wire::Signal;
use millrace_wire::otlp::TimeRange;

use crate::body::InsertBody;
use crate::budget::Reservation;

/// The destination of messages: ClickHouse, or a fake in tests.
pub trait Sink: Send + Sync {
    /// Returns an empty encoder for one thread. It is reused after each cut.
    fn new_encoder(&self, signal: Signal) -> Box<dyn Encoder>;

    /// Whether a table currently accepts no inserts from this partition of a topic while others do.
    /// The source should hold its inserts back so that they don't obstruct the others. Partitions
    /// go to different servers.
    fn is_blocked(&self, topic: &str, partition: i32, table: TableIndex) -> bool {
        let _ = (topic, partition, table);
        false
    }

    /// Whether any server accepts inserts, as far as known. A source that can refuse work refuses
    /// it while none does.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Accepts an insert and answers later. Never blocks.
    ///
    /// # Errors
    /// If the sink is full for this table and partition: it returns everything, to be submitted
    /// again after an answer. It may accept other inserts.
    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<QueueFull<Insert>>>;
}

/// Encodes the messages of one partition as blocks.
pub trait Encoder: Send {
    /// Appends all records of one message (an OTLP export request), or none of them.
    ///
    /// # Errors
    /// If the message is invalid. It is skipped; the encoder stays usable.
    fn append(&mut self, message: &[u8]) -> Result<AppendedMessage, Rejection>;

    /// Appends the valid records of one message: all of it, or else group by group. A group is
    /// refused if one of its records has a time outside of `times`. The accepted groups depend on
    /// the arguments alone.
    fn append_groups(&mut self, message: &[u8], times: &TimeRange) -> AcceptedRecords {
        let _ = times;
        match self.append(message) {
            Ok(AppendedMessage { records }) => AcceptedRecords { records, refused: None },
            Err(rejection) => AcceptedRecords::all_rejected(rejection),
        }
    }

    /// The rows appended since the last cut.
    fn row_count(&self) -> usize;

    /// The bytes of columns since the last cut, before compression, as they count for the batch
    /// size: values that rows share are written with each of them.
    fn plain_bytes(&self) -> usize;

    /// The bytes that the open batch holds: columns and their compressed blocks.
    fn held_bytes(&self) -> usize {
        self.plain_bytes()
    }

    /// The approximate bytes of the blocks of the appended messages.
    fn body_bytes(&self) -> usize {
        // LZ4 compresses columns to under a third.
        self.memory_bytes() / 2
    }

    /// The bytes of memory held, filled or retained for later.
    fn memory_bytes(&self) -> usize;

    /// Returns everything appended as blocks, in a fixed order: the same messages always give the
    /// same blocks. The encoder is then empty and retains its memory.
    fn take_blocks(&mut self) -> Vec<Block>;
}

/// The effect of appending one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedMessage {
    /// Records in the message: spans, log records, metric points.
    pub records: u64,
}

/// The result of appending the valid part of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedRecords {
    /// Records accepted.
    pub records: u64,
    /// The refused remainder.
    pub refused: Option<RejectedRecords>,
}

impl AcceptedRecords {
    /// Returns the result of a message that was refused completely.
    #[must_use]
    pub fn all_rejected(rejection: Rejection) -> Self {
        Self { records: 0, refused: Some(RejectedRecords { rejection, payload: None }) }
    }
}

/// The refused part of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRecords {
    /// The reason.
    pub rejection: Rejection,
    /// A separate message with exactly the refused records; `None` if it is the complete message,
    /// unchanged.
    pub payload: Option<Vec<u8>>,
}

/// The reason of a [`Rejection`] for whose insert the server had too little memory at every
/// attempt: it has stored none of it.
pub const TOO_LARGE: &str = "too_much_for_clickhouse";

/// The reason why a message, or its rows, can't be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// One of a small fixed set, for metric labels and dead-letter headers.
    pub reason: &'static str,
    /// Details, for people, without record contents.
    pub detail: String,
}

/// Rows for one table and one table partition, ready to be sent.
#[derive(Clone, Debug)]
pub struct Block {
    /// The table, by the sink's index.
    pub table: TableIndex,
    /// The table's name, for tokens and logs.
    pub table_name: Arc<str>,
    /// The block's day and running number among the batch's rows for this table.
    pub slice: BlockSlice,
    /// The number of rows.
    pub rows: u64,
    /// The number of records: as rows, unless a record makes no separate row.
    pub records: u64,
    /// The compressed body.
    pub body: InsertBody,
    /// Its length before compression.
    pub plain_bytes: u64,
    /// Whether all messages of its batch were traces and logs of Millrace's own programs.
    pub is_self_telemetry: bool,
}

/// A table's index in its sink's own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableIndex(pub u16);

/// Identifies one block among those of a batch and table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockSlice {
    /// Days since 1970-01-01 in UTC: the table's partition.
    pub day: i32,
    /// A number from 0, greater if one day needs several blocks.
    pub number: u16,
}

impl fmt::Display for BlockSlice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.day, self.number)
    }
}

/// The messages from which a block was made.
#[derive(Clone, Debug)]
pub struct BlockOrigin {
    /// The kind of telemetry.
    pub signal: Signal,
    /// The consumer group: two groups that read one topic deliberately store it twice.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// A number derived from the topic's id, if Kafka has ids: a deleted and recreated topic has
    /// another one.
    pub topic_number: Option<u32>,
    /// Its partition.
    pub partition: i32,
    /// The offsets of the batch.
    pub range: OffsetRange,
    /// The time stamp of the batch's first message, in milliseconds since 1970. Where Kafka has no
    /// ids, it distinguishes a recreated topic from its predecessor, whose offsets were the same.
    pub first_timestamp_millis: i64,
    /// Whether its source can read exactly this batch again. If so, an insert that would wait for
    /// long is returned ([`DeliveryOutcome::Deferred`] or [`DeliveryOutcome::Abandoned`]), with the
    /// memory it holds.
    pub is_read_again: bool,
    /// Whether an earlier attempt may have stored it, so that its rows must keep their tokens: it
    /// is not divided unless the table refuses these bytes as such.
    pub may_be_stored: bool,
}

impl BlockOrigin {
    /// Returns the origin of a batch without a topic: the requests with these numbers of a process
    /// named `name` that started at `started_millis` since 1970. `None` for a negative number and
    /// for an empty range.
    #[must_use]
    pub fn of_counted(
        signal: Signal,
        group: &Arc<str>,
        name: &Arc<str>,
        numbers: std::ops::Range<i64>,
        started_millis: i64,
    ) -> Option<Self> {
        Some(Self {
            signal,
            group: Arc::clone(group),
            topic: Arc::clone(name),
            topic_number: None,
            // The partition decides which server gets the first attempt, so that batches spread
            // over all.
            partition: (numbers.start % i64::from(i32::MAX)) as i32,
            range: OffsetRange::new(numbers.start, numbers.end).ok()?,
            first_timestamp_millis: started_millis,
            is_read_again: false,
            may_be_stored: false,
        })
    }
}

/// A block with its origin, as given to a sink.
#[derive(Debug)]
pub struct Insert {
    /// The rows.
    pub block: Block,
    /// The messages it was made from.
    pub origin: BlockOrigin,
    /// The body's share of the memory budget; dropping the insert releases it.
    pub reservation: Reservation,
}

/// Work that a full sink returns.
#[derive(Debug)]
pub struct QueueFull<T> {
    /// The work.
    pub work: T,
    /// Its completion, still unanswered.
    pub completion: Completion,
}

/// The result of a part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The part is certainly stored.
    Stored,
    /// The destination always refuses these rows. Some of them must be removed.
    Rejected(Rejection),
    /// The sink gave up, and whether the part is stored is unknown: it must be sent again.
    Abandoned,
    /// The sink gave up, and nothing of the part is stored: it must be sent again, as a first
    /// attempt.
    Deferred,
}

/// A part's number, assigned by its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u64);

/// The answer to one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOutcome {
    /// The part.
    pub part: PartId,
    /// Its result.
    pub outcome: DeliveryOutcome,
}

/// The right and the duty to answer for one part, exactly once.
pub struct Completion {
    part: PartId,
    then: Option<OnCompletion>,
}

/// Receives an answer on the thread that answers: it must not block, nor call the sink.
type OnCompletion = Box<dyn FnOnce(PartOutcome) + Send + Sync>;

impl Completion {
    /// Returns a completion that passes its answer to a function. The function runs on the thread
    /// that answers, so it must be short, must not block, and must not call the sink.
    #[must_use]
    pub fn new(part: PartId, then: impl FnOnce(PartOutcome) + Send + Sync + 'static) -> Self {
        Self { part, then: Some(Box::new(then)) }
    }

    /// The part that this answers for.
    #[must_use]
    pub fn part(&self) -> PartId {
        self.part
    }

    /// Answers for the part.
    pub fn finish_with(mut self, outcome: DeliveryOutcome) {
        self.send_outcome(outcome);
    }

    fn send_outcome(&mut self, outcome: DeliveryOutcome) {
        if let Some(then) = self.then.take() {
            then(PartOutcome { part: self.part, outcome });
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").field("part", &self.part).finish_non_exhaustive()
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.send_outcome(DeliveryOutcome::Abandoned);
    }
}

/// The source's end: issues completions and receives answers.
#[derive(Debug)]
pub struct CompletionQueue {
    sender: SyncSender<PartOutcome>,
    receiver: Receiver<PartOutcome>,
    next_part: u64,
    open: usize,
    capacity: usize,
}

impl CompletionQueue {
    /// Returns a source's end with capacity for `capacity` unanswered parts.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let (sender, receiver) = sync_channel(capacity);
        Self { sender, receiver, next_part: 0, open: 0, capacity }
    }

    /// Returns a completion for a new part; `None` while `capacity` parts are unanswered.
    pub fn open_part(&mut self) -> Option<Completion> {
        if self.open == self.capacity {
            return None;
        }
        self.open += 1;
        let part = PartId(self.next_part);
        self.next_part += 1;
        let answers = self.sender.clone();
        // The channel has a slot for every open part of its source, so this can only fail when the
        // source is gone and no longer waits for the answer.
        Some(Completion::new(part, move |answer| drop(answers.try_send(answer))))
    }

    /// The number of unanswered parts.
    #[must_use]
    pub fn open_parts(&self) -> usize {
        self.open
    }

    /// Returns an answer if one has arrived.
    pub fn try_next(&mut self) -> Option<PartOutcome> {
        match self.receiver.try_recv() {
            Ok(answer) => Some(self.close_part(answer)),
            // This end holds a sender, so the channel can't be disconnected.
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Returns an answer, after waiting at most `wait` for it.
    pub fn next_within(&mut self, wait: Duration) -> Option<PartOutcome> {
        match self.receiver.recv_timeout(wait) {
            Ok(answer) => Some(self.close_part(answer)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn close_part(&mut self, answer: PartOutcome) -> PartOutcome {
        self.open -= 1;
        answer
    }
}

/// The destination of records that can't be stored.
pub trait DeadLetterSink: Send + Sync {
    /// Accepts a record and answers [`DeliveryOutcome::Stored`] once the dead-letter topic has it
    /// on all in-sync replicas. Retries without limit; answers [`DeliveryOutcome::Abandoned`] only
    /// at shutdown. Never blocks.
    ///
    /// # Errors
    /// If its queue is full: it returns everything, to be submitted again later.
    fn submit(
        &self,
        dead_letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<QueueFull<DeadLetter>>>;
}

/// A record that can't be stored, unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The kind of telemetry, which decides the dead-letter topic.
    pub signal: Signal,
    /// The topic from which it was read.
    pub topic: Arc<str>,
    /// The partition from which it was read.
    pub partition: i32,
    /// The offset at which it was read.
    pub offset: i64,
    /// Its time stamp in the topic, in milliseconds since 1970, if it had one.
    pub timestamp_millis: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// The reason why it can't be stored.
    pub rejection: Rejection,
}

impl DeadLetter {
    /// The bytes it takes in memory, for batching.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let headers = self.headers.iter();
        let headers: usize = headers.map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum();
        self.payload.len() + self.key.as_ref().map_or(0, Vec::len) + headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a task ends with its completion unanswered. Guarantee: the source gets an answer.
    #[test]
    fn a_dropped_completion_answers_abandoned() {
        let mut answers = CompletionQueue::new(2);
        let completion = answers.open_part().unwrap();
        let part = completion.part();
        drop(completion);
        assert_eq!(
            answers.try_next(),
            Some(PartOutcome { part, outcome: DeliveryOutcome::Abandoned })
        );
        assert_eq!(answers.open_parts(), 0);
    }

    /// Scenario: a completion is answered, then dropped. Guarantee: the source gets one answer.
    #[test]
    fn a_part_is_answered_once() {
        let mut answers = CompletionQueue::new(2);
        answers.open_part().unwrap().finish_with(DeliveryOutcome::Stored);
        assert_eq!(answers.try_next().unwrap().outcome, DeliveryOutcome::Stored);
        assert_eq!(answers.try_next(), None);
    }

    /// Scenario: more parts than the channel holds. Guarantee: none is opened, so no answer can
    /// find the channel full.
    #[test]
    fn no_more_parts_are_open_than_answers_fit() {
        let mut answers = CompletionQueue::new(2);
        let (first, second) = (answers.open_part().unwrap(), answers.open_part().unwrap());
        assert!(answers.open_part().is_none());
        drop((first, second));
        assert!(answers.open_part().is_none(), "the answers are still in the channel");
        assert!(answers.try_next().is_some() && answers.open_part().is_some());
    }
}
