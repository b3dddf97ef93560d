//! The interface between a source of messages and a sink of blocks.
//!
//! A source owns threads and offsets; a sink owns encoders and connections. They share only this
//! crate. A source asks the [`Sink`] for an [`Encoder`] per open batch, appends messages to it as
//! they come, cuts it into [`Block`]s, and submits each with a [`Completion`]. The sink answers by
//! completing it; dropping it unanswered is an answer too ([`Outcome::Abandoned`]), so that a lost
//! task can't strand a batch.
//!
//! Nothing here blocks: a full sink returns the work, and answers fit into their channel by
//! construction (a source never has more unanswered than the channel's length).

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use millrace_ledger::OffsetRange;
use millrace_wire::Signal;

use crate::body::Body;
use crate::budget::Reservation;

/// Where messages are stored: ClickHouse, or a fake in tests.
pub trait Sink: Send + Sync {
    /// A new, empty encoder. It is used on one thread, and again after each cut.
    fn encoder(&self, signal: Signal) -> Box<dyn Encoder>;

    /// Whether a table takes no inserts for now, while others do: what is for it is better kept
    /// back, so that it doesn't stand in the way of the rest.
    fn is_blocked(&self, table: TableIndex) -> bool {
        let _ = table;
        false
    }

    /// Whether a server takes inserts at all, as far as is known. Who can refuse work refuses it
    /// while none does.
    fn is_reachable(&self) -> bool {
        true
    }

    /// Takes an insert and answers later. Never blocks.
    ///
    /// # Errors
    /// When the sink is full: everything is handed back, to be submitted again after an answer.
    fn submit(&self, insert: Insert, completion: Completion) -> Result<(), Box<Returned<Insert>>>;
}

/// Turns the messages of one partition into blocks.
pub trait Encoder: Send {
    /// Appends all records of one message (an OTLP export request), or none of them.
    ///
    /// # Errors
    /// When the message is not what it should be. It is left out; the encoder stays usable.
    fn append(&mut self, message: &[u8]) -> Result<Appended, Rejection>;

    /// Appends what can be of one message: all of it, or else group by group. Which groups are
    /// taken depends on the message alone.
    fn append_groups(&mut self, message: &[u8]) -> Taken {
        match self.append(message) {
            Ok(Appended { records }) => Taken { records, refused: None },
            Err(rejection) => Taken::refused(rejection),
        }
    }

    /// Rows appended since the last cut.
    fn rows(&self) -> usize;

    /// Bytes of columns since the last cut, before compression, as far as they count for the size
    /// of a batch: what rows share is written with each of them.
    fn plain_bytes(&self) -> usize;

    /// Bytes that the open batch holds: columns, and what was compressed of it.
    fn held_bytes(&self) -> usize {
        self.plain_bytes()
    }

    /// About the bytes that the blocks of what was appended will have.
    fn body_bytes(&self) -> usize {
        // LZ4 of columns is under a third of them.
        self.memory_bytes() / 2
    }

    /// Bytes of memory held, whether filled or kept for later.
    fn memory_bytes(&self) -> usize;

    /// Takes everything appended as blocks, in a fixed order: the same messages always give the
    /// same blocks. The encoder is empty afterwards and keeps its memory.
    fn take(&mut self) -> Vec<Block>;
}

/// What one message added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Records in the message: spans, log records, metric points.
    pub records: u64,
}

/// What was taken of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Records taken.
    pub records: u64,
    /// What was not.
    pub refused: Option<Refused>,
}

impl Taken {
    /// Nothing of a message was taken.
    #[must_use]
    pub fn refused(rejection: Rejection) -> Self {
        Self { records: 0, refused: Some(Refused { rejection, payload: None }) }
    }
}

/// What can't be stored of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Why.
    pub rejection: Rejection,
    /// A message of its own, with all that can't be stored and nothing else; none for the message
    /// as it is.
    pub payload: Option<Vec<u8>>,
}

/// Why a message, or the rows made of it, can't be stored.
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
    /// The table, as the sink knows it.
    pub table: TableIndex,
    /// The table's name, for tokens and logs.
    pub table_name: Arc<str>,
    /// Which part of the batch's rows for this table: its day and a running number.
    pub slice: Slice,
    /// Rows in it.
    pub rows: u64,
    /// Records in it: as rows, unless a record makes no row of its own.
    pub records: u64,
    /// The body, compressed.
    pub body: Body,
    /// Its length before compression.
    pub plain_bytes: u64,
    /// Whether all messages of its batch were traces and logs of Millrace's own programs.
    pub is_own: bool,
}

/// A table's place in its sink's own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TableIndex(pub u16);

/// Names one block among those of a batch and table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slice {
    /// Days since 1970-01-01 in UTC: the table's partition.
    pub day: i32,
    /// 0, and counting up if one day needs several blocks.
    pub number: u16,
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.day, self.number)
    }
}

/// Which messages a block was made of.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The kind of telemetry.
    pub signal: Signal,
    /// The consumer group: two groups that read one topic store it twice, on purpose.
    pub group: Arc<str>,
    /// The topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// The offsets of the batch.
    pub range: OffsetRange,
    /// The time stamp of the batch's first message, in milliseconds since 1970: tells a topic that
    /// was deleted and made again from its predecessor, whose offsets were the same.
    pub first_timestamp_millis: i64,
    /// Whether its source can read it again, exactly so: then an insert that would wait for long
    /// is given back ([`Outcome::Abandoned`]), with the memory it holds.
    pub is_read_again: bool,
}

impl Origin {
    /// The origin of a batch that comes from no topic: the requests so numbered of a process that
    /// calls itself `name`, and began at `started_millis` since 1970. `None` for a number below
    /// zero, and for no numbers.
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
            // Decides which server is asked first, so that batches spread over all.
            partition: (numbers.start % i64::from(i32::MAX)) as i32,
            range: OffsetRange::new(numbers.start, numbers.end).ok()?,
            first_timestamp_millis: started_millis,
            is_read_again: false,
        })
    }
}

/// A block with its origin: what a sink is given.
#[derive(Debug)]
pub struct Insert {
    /// The rows.
    pub block: Block,
    /// Where they come from.
    pub origin: Origin,
    /// The body's share of the memory budget; released when the insert is dropped.
    pub reservation: Reservation,
}

impl Insert {
    /// The deduplication token: equal for equal rows, and never equal for different ones. It
    /// names the offsets of the whole batch, the table and the slice.
    #[must_use]
    pub fn token(&self) -> String {
        let Origin { group, topic, partition, range, first_timestamp_millis, .. } = &self.origin;
        let Block { table_name, slice, .. } = &self.block;
        format!(
            "millrace:1:{group}:{topic}:{partition}:{}-{}:{first_timestamp_millis}:\
             {table_name}:{slice}",
            range.first(),
            range.last(),
        )
    }
}

/// Work a full sink hands back.
#[derive(Debug)]
pub struct Returned<T> {
    /// The work.
    pub work: T,
    /// Its completion, still unanswered.
    pub completion: Completion,
}

/// How a part of a batch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other side has it, for sure.
    Stored,
    /// The other side refuses these rows and always will. Some of them must be taken out.
    Rejected(Rejection),
    /// Nobody works on it any more and whether it is stored is unknown: it must be sent again.
    Abandoned,
}

/// A part's number, given out by its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u64);

/// The answer to one part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which part.
    pub part: PartId,
    /// How it ended.
    pub outcome: Outcome,
}

/// The right and the duty to answer for one part, exactly once.
pub struct Completion {
    part: PartId,
    then: Option<Then>,
}

/// What happens to an answer. It runs on the thread that answers: it must not block, nor call the
/// sink.
type Then = Box<dyn FnOnce(Answer) + Send + Sync>;

impl Completion {
    /// One whose answer goes to a function. It runs on the thread that answers, so it must be
    /// short, must not block, and must not call the sink.
    #[must_use]
    pub fn new(part: PartId, then: impl FnOnce(Answer) + Send + Sync + 'static) -> Self {
        Self { part, then: Some(Box::new(then)) }
    }

    /// Which part this answers for.
    #[must_use]
    pub fn part(&self) -> PartId {
        self.part
    }

    /// Answers.
    pub fn finish(mut self, outcome: Outcome) {
        self.send(outcome);
    }

    fn send(&mut self, outcome: Outcome) {
        if let Some(then) = self.then.take() {
            then(Answer { part: self.part, outcome });
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
        self.send(Outcome::Abandoned);
    }
}

/// The source's end: hands out completions and receives answers.
#[derive(Debug)]
pub struct Answers {
    sender: SyncSender<Answer>,
    receiver: Receiver<Answer>,
    next_part: u64,
    open: usize,
    capacity: usize,
}

impl Answers {
    /// Room for `capacity` unanswered parts.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let (sender, receiver) = sync_channel(capacity);
        Self { sender, receiver, next_part: 0, open: 0, capacity }
    }

    /// A completion for a new part; none while `capacity` parts are unanswered.
    pub fn open(&mut self) -> Option<Completion> {
        if self.open == self.capacity {
            return None;
        }
        self.open += 1;
        let part = PartId(self.next_part);
        self.next_part += 1;
        let answers = self.sender.clone();
        // The channel has a place for every part its source has open, so this can only fail when
        // the source is gone, and then nobody waits for the answer.
        Some(Completion::new(part, move |answer| drop(answers.try_send(answer))))
    }

    /// How many parts are unanswered.
    #[must_use]
    pub fn unanswered(&self) -> usize {
        self.open
    }

    /// How many more parts may be opened now.
    #[must_use]
    pub fn room(&self) -> usize {
        self.capacity - self.open
    }

    /// An answer if one is there.
    pub fn try_next(&mut self) -> Option<Answer> {
        match self.receiver.try_recv() {
            Ok(answer) => Some(self.count(answer)),
            // This end holds a sender, so the channel can't be disconnected.
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// An answer, waiting for it at most `wait`.
    pub fn next_within(&mut self, wait: Duration) -> Option<Answer> {
        match self.receiver.recv_timeout(wait) {
            Ok(answer) => Some(self.count(answer)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn count(&mut self, answer: Answer) -> Answer {
        self.open -= 1;
        answer
    }
}

/// Where records go that can't be stored.
pub trait DeadLetters: Send + Sync {
    /// Takes a record and answers [`Outcome::Stored`] once the dead-letter topic has it on all
    /// in-sync replicas. Tries for as long as it takes; answers [`Outcome::Abandoned`] only at
    /// shutdown. Never blocks.
    ///
    /// # Errors
    /// When its queue is full: everything is handed back, to be submitted again later.
    fn submit(
        &self,
        letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<Returned<DeadLetter>>>;
}

/// A record that can't be stored, as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// The kind of telemetry: decides the dead-letter topic.
    pub signal: Signal,
    /// The topic it came from.
    pub topic: Arc<str>,
    /// Its partition there.
    pub partition: i32,
    /// Its offset there.
    pub offset: i64,
    /// Its time stamp there, in milliseconds since 1970, if it had one.
    pub timestamp_millis: Option<i64>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Its bytes.
    pub payload: Vec<u8>,
    /// Why it is here.
    pub rejection: Rejection,
}

impl DeadLetter {
    /// Bytes it takes in memory, for batching.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter();
        let headers: usize = headers.map(|(k, v)| k.len() + v.as_ref().map_or(0, Vec::len)).sum();
        self.payload.len() + self.key.as_ref().map_or(0, Vec::len) + headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a task dies with its completion. Guarantee: the source hears of it.
    #[test]
    fn a_dropped_completion_answers_abandoned() {
        let mut answers = Answers::new(2);
        let completion = answers.open().unwrap();
        let part = completion.part();
        drop(completion);
        assert_eq!(answers.try_next(), Some(Answer { part, outcome: Outcome::Abandoned }));
        assert_eq!(answers.unanswered(), 0);
    }

    /// Scenario: answered, then dropped. Guarantee: one answer.
    #[test]
    fn a_part_is_answered_once() {
        let mut answers = Answers::new(2);
        answers.open().unwrap().finish(Outcome::Stored);
        assert_eq!(answers.try_next().unwrap().outcome, Outcome::Stored);
        assert_eq!(answers.try_next(), None);
    }

    /// Scenario: more parts than the channel holds. Guarantee: none is opened, so no answer can
    /// find the channel full.
    #[test]
    fn no_more_parts_are_open_than_answers_fit() {
        let mut answers = Answers::new(2);
        let (first, second) = (answers.open().unwrap(), answers.open().unwrap());
        assert!(answers.open().is_none());
        drop((first, second));
        assert!(answers.open().is_none(), "the answers are still in the channel");
        assert!(answers.try_next().is_some() && answers.open().is_some());
    }
}
