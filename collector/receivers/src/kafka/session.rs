//! One worker's membership in the group, from joining to leaving: its loop.
//!
//! The loop serves what happened (answers, rebalances, commits), then either reads one message or
//! waits. It reads only while everything cut so far was taken by the sink and the budget has room
//! for another message; otherwise it holds, and when that lasts, pauses its partitions, so that
//! lag grows and memory doesn't. Nothing in it blocks for longer than [`IDLE_WAIT`], but for
//! asking the broker for committed offsets ([`super::group`]).
//!
//! The parts of the session lie in the modules beside it: `intake` (messages to batches),
//! `flight` (batches to answers), `group` (assignment, revocation, commits), `remade` (topics that
//! were deleted and made again).

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use millrace_ledger::{Commit, Generation, Ledger};
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::{Answers, Completion, PartId};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::Shared;
use super::finish::Why;
use super::jobs::{Job, Question, THREADS};
use super::member::{JoinError, KafkaMember, Member};
use super::partition::{Key, Partition};
use super::parts::{OpenPart, Refused, Work};
use super::spares::Spares;
use super::topics::{LOOK_INTERVAL, TopicIds};

/// Parts of batches that may wait for their answer at once, per worker. Inserts are bounded lower
/// by the sink; this leaves room for a burst of dead letters. An answer takes about 100 bytes of
/// channel: 100 KiB.
const MAX_UNANSWERED: usize = 1024;
/// Dead letters that may wait for their topic before reading stops. A letter is part of a batch of
/// at most 256, so a few batches may be cut while the topic is away.
const MAX_WAITING_LETTERS: usize = 512;
/// How long the loop waits when nothing is under way.
pub(super) const IDLE_WAIT: Duration = Duration::from_millis(100);
/// How long it waits while inserts are in flight, whose answers don't wake it.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How long it holds before partitions are paused. Pausing throws away what was fetched, so short
/// waits for the sink are better sat out.
const PAUSE_AFTER: Duration = Duration::from_millis(500);
/// How often the commit point is looked at.
pub(super) const COMMIT_INTERVAL: Duration = Duration::from_secs(1);
/// How long after damaged messages a gap is looked at again. Damage on the way is over with the
/// next fetch; damage on a broker's disk is told again within this, and its partition waits.
const DAMAGE_TIME: Duration = Duration::from_secs(10);
/// What one message may add to an encoder before the budget is asked again: four times the usual
/// broker limit of 1 MB a message, for columns with their identifiers in text.
pub(super) const HEADROOM_BYTES: u64 = 4 << 20;

/// How a session ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The process ends; everything that could be finished is, by all its workers.
    Drained,
    /// librdkafka can't go on with this consumer: a new one has to be made.
    Fatal(KafkaError),
}

/// Whether messages are read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Reading,
    Holding { since: Instant },
    Paused,
}

/// Commits between asking and answer.
#[derive(Debug)]
pub(super) struct Commits {
    /// Asked for and not answered.
    pub(super) in_flight: Vec<Commit<Key>>,
    /// Topics that were found to be others since: what is committed of them says nothing.
    pub(super) outdated: BTreeSet<u16>,
    /// When to look whether something changed.
    pub(super) next: Instant,
    /// After a refusal: not earlier than this.
    pub(super) not_before: Instant,
}

/// Partitions assigned, waiting for their committed offsets.
pub(super) struct Joining {
    pub(super) keys: Vec<Key>,
    pub(super) next_try: Instant,
    pub(super) backoff: Backoff,
    /// Until when an answer that lies too low is asked for again.
    pub(super) doubted_until: Option<Instant>,
}

/// Partitions being given up.
pub(super) struct Leaving {
    /// Without a generation: taken over while the process drained, and never read.
    pub(super) keys: Vec<(Key, Option<Generation>)>,
    pub(super) deadline: Instant,
}

pub(super) struct Session<M> {
    pub(super) shared: Arc<Shared>,
    pub(super) worker: u16,
    /// Shared with nobody: messages are borrowed from it while the session changes.
    pub(super) member: Rc<M>,
    pub(super) ledger: Ledger<Key>,
    pub(super) partitions: BTreeMap<Key, Partition>,
    pub(super) answers: Answers,
    pub(super) parts: HashMap<PartId, OpenPart>,
    /// Cut, and waiting for the commit that names them.
    pub(super) held: VecDeque<Work>,
    /// Waiting for the sink.
    pub(super) outbox: VecDeque<Work>,
    /// Waiting for their table to take inserts again, though their partitions are given up or the
    /// process drains: others' batches are read again instead.
    pub(super) blocked: VecDeque<Work>,
    /// When to look at those again.
    pub(super) next_unblock: Instant,
    /// Waiting for the dead-letter topic.
    pub(super) letters: VecDeque<Work>,
    /// Parts that were refused for their rows, until all before them are done.
    pub(super) refused: Vec<Refused>,
    /// What the salvage asks. A job whose question has no place in it waits for one.
    pub(super) questions: (SyncSender<Question>, Receiver<Question>),
    /// Questions that wait for a commit.
    pub(super) to_record: Vec<Question>,
    /// Waiting for the salvage.
    pub(super) salvage: VecDeque<Job>,
    /// Handed back by a full sink, for the next try.
    pub(super) spare_completion: Option<Completion>,
    pub(super) spares: Spares,
    /// Budget for the next message; none while there is none to be had.
    pub(super) headroom: Option<Reservation>,
    /// How much that has to be: more while a long message waits.
    pub(super) headroom_bytes: u64,
    pub(super) commits: Commits,
    /// What the broker has last named or confirmed as committed to this session, by partition,
    /// whoever reads that now. Bounded by the topics' partitions.
    pub(super) confirmed: BTreeMap<Key, i64>,
    /// The topics that are being read, in the order of the settings, as far as brokers have said.
    pub(super) topic_ids: TopicIds,
    /// When to ask for them if no commit does.
    pub(super) next_look: Instant,
    pub(super) joining: Option<Joining>,
    pub(super) leaving: Option<Leaving>,
    /// When a partition that lacked room may be read again though others still repeat.
    pub(super) next_repeat: Instant,
    /// When to try again where the client could not go to an offset.
    pub(super) next_seek: Instant,
    /// Until when a gap may be messages that were damaged on their way.
    pub(super) damaged_until: Option<Instant>,
    /// Since when the budget has had no room and nothing was in flight that could make some.
    pub(super) stuck_since: Option<Instant>,
    /// Bytes of columns in all open batches.
    pub(super) open_bytes: usize,
    /// When the oldest open batch is due.
    pub(super) next_cut: Option<Instant>,
    pub(super) now: Instant,
    flow: Flow,
    joined: bool,
}

impl Session<KafkaMember> {
    /// Makes the consumer and subscribes it. Nothing is read before [`Session::run`].
    pub(super) fn new(shared: Arc<Shared>, worker: u16) -> Result<Self, JoinError> {
        let member = KafkaMember::join(&shared.settings, worker, &shared.asker)?;
        Ok(Self::of(shared, worker, member))
    }
}

impl<M: Member> Session<M> {
    /// The session of a member that has just asked to be let in.
    pub(super) fn of(shared: Arc<Shared>, worker: u16, member: M) -> Self {
        let now = member.now();
        let topics = shared.settings.topics.len();
        Self {
            shared,
            worker,
            member: Rc::new(member),
            ledger: Ledger::new(),
            partitions: BTreeMap::new(),
            answers: Answers::new(MAX_UNANSWERED),
            parts: HashMap::new(),
            held: VecDeque::new(),
            outbox: VecDeque::new(),
            blocked: VecDeque::new(),
            next_unblock: now,
            letters: VecDeque::new(),
            refused: Vec::new(),
            questions: sync_channel(THREADS),
            to_record: Vec::new(),
            salvage: VecDeque::new(),
            spare_completion: None,
            spares: Spares::default(),
            headroom: None,
            headroom_bytes: HEADROOM_BYTES,
            commits: Commits {
                in_flight: Vec::new(),
                outdated: BTreeSet::new(),
                next: now,
                not_before: now,
            },
            confirmed: BTreeMap::new(),
            topic_ids: vec![None; topics],
            next_look: now + LOOK_INTERVAL,
            joining: None,
            leaving: None,
            next_repeat: now,
            next_seek: now,
            damaged_until: None,
            stuck_since: None,
            open_bytes: 0,
            next_cut: None,
            now,
            flow: Flow::Reading,
            joined: false,
        }
    }

    /// Reads until the process drains or the consumer fails for good.
    pub(super) fn run(mut self) -> Ended {
        loop {
            if let Some(ended) = self.turn() {
                self.close(&ended);
                return ended;
            }
        }
    }

    /// One turn of the loop. How the session ended, if it did.
    pub(super) fn turn(&mut self) -> Option<Ended> {
        let member = Rc::clone(&self.member);
        self.now = member.now();
        self.serve();
        if self.shared.drain.is_begun() && self.drained() {
            return Some(Ended::Drained);
        }
        let wait = match self.decide_flow() {
            Flow::Reading => self.wait(),
            // Nothing is read from paused partitions; polling serves rebalances.
            Flow::Paused => BUSY_WAIT,
            Flow::Holding { .. } => {
                if let Some(answer) = member.answer(&mut self.answers, BUSY_WAIT) {
                    self.settle(answer);
                }
                return None;
            }
        };
        match member.poll(wait)? {
            Ok(message) => {
                self.take(&message);
                None
            }
            Err(error) => self.poll_failed(error).map(Ended::Fatal),
        }
    }

    /// Handles everything that happened, without waiting.
    fn serve(&mut self) {
        while let Some(answer) = self.answers.try_next() {
            self.settle(answer);
        }
        while let Some(event) = self.member.event() {
            self.handle(event);
        }
        self.go_on_joining();
        self.go_on_seeking();
        self.go_on_repeating();
        if self.next_cut.is_some_and(|due| due <= self.now) {
            self.cut_aged();
        }
        self.tell_apart();
        self.commit_if_due();
        self.look_at_topics();
        self.look_at_blocked();
        self.submit();
        self.go_on_leaving();
        self.note_joined();
    }

    /// Whether to read, and pausing or resuming the partitions where that changes.
    fn decide_flow(&mut self) -> Flow {
        let may_read = self.may_read();
        let next = match (self.flow, may_read) {
            (_, true) => Flow::Reading,
            // Nothing will be read any more.
            _ if self.shared.drain.is_begun() => Flow::Paused,
            (Flow::Reading, false) => Flow::Holding { since: self.now },
            (Flow::Holding { since }, false) if self.now - since >= PAUSE_AFTER => Flow::Paused,
            (same, false) => same,
        };
        if (next == Flow::Paused) != (self.flow == Flow::Paused) {
            self.set_paused(next == Flow::Paused);
        }
        self.flow = next;
        next
    }

    fn may_read(&mut self) -> bool {
        let waiting = !self.outbox.is_empty() || self.letters.len() >= MAX_WAITING_LETTERS;
        if waiting || self.shared.drain.is_begun() {
            return false;
        }
        if self.headroom.is_none() {
            self.headroom = self.shared.budget.try_reserve(self.headroom_bytes);
        }
        if self.headroom.is_none() {
            self.make_room();
            return false;
        }
        self.stuck_since = None;
        self.partitions.keys().all(|key| self.ledger.has_room(*key))
    }

    fn set_paused(&mut self, paused: bool) {
        let read = self.partitions.keys().copied().filter(|key| self.has_turn(*key));
        let list = self.list(read);
        if list.count() == 0 {
            return;
        }
        let done = if paused { self.member.pause(&list) } else { self.member.resume(&list) };
        tracing::debug!(worker = self.worker, paused, "partitions");
        if let Err(error) = done {
            tracing::warn!(worker = self.worker, %error, paused, "cannot pause or resume");
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.flow == Flow::Paused
    }

    /// How long a read may wait for a message.
    fn wait(&self) -> Duration {
        let busy = self.answers.unanswered() > 0 || !self.commits.in_flight.is_empty();
        let longest = if busy { BUSY_WAIT } else { IDLE_WAIT };
        let due = self.next_cut.map(|due| due.saturating_duration_since(self.now));
        due.map_or(longest, |due| due.min(longest))
    }

    fn note_joined(&mut self) {
        if !self.joined && self.member.has_joined() {
            self.joined = true;
            self.shared.status.joined(self.worker);
        }
    }

    /// Errors of polling are news about the connection, or the end of this consumer.
    fn poll_failed(&mut self, error: KafkaError) -> Option<KafkaError> {
        self.shared.status.trouble(self.worker, error.to_string());
        match error {
            KafkaError::MessageConsumptionFatal(_) => Some(error),
            // librdkafka goes to the earliest offset by itself; what that skips is seen and counted
            // at the next message.
            KafkaError::MessageConsumption(RDKafkaErrorCode::OffsetOutOfRange) => {
                tracing::warn!(worker = self.worker, %error, "the wanted offset is not there");
                None
            }
            KafkaError::MessageConsumption(RDKafkaErrorCode::BadMessage) => {
                tracing::error!(worker = self.worker, %error, "damaged messages, reading again");
                self.damaged_until = Some(self.now + DAMAGE_TIME);
                None
            }
            error => {
                tracing::warn!(worker = self.worker, %error, "reading from kafka");
                None
            }
        }
    }

    /// Where the session stands, for tests that got stuck.
    #[cfg(test)]
    pub(super) fn describe(&self) -> String {
        let Self { flow, held, outbox, blocked, letters, refused, salvage, .. } = self;
        let queues = [held.len(), outbox.len(), blocked.len(), letters.len(), refused.len()];
        let partitions: Vec<_> = self
            .partitions
            .iter()
            .map(|(key, partition)| {
                let open = partition.open.as_ref().map(|open| (open.cut, open.next_offset));
                (key.partition, partition.next_offset, partition.leaving, partition.kept_back, open)
            })
            .collect();
        format!(
            "{flow:?}, held, outbox, blocked, letters, refused {queues:?}, salvage {}, \
             unanswered {}, joining {}, leaving {}, commits {}, {partitions:?}",
            salvage.len(),
            self.answers.unanswered(),
            self.joining.is_some(),
            self.leaving.is_some(),
            self.commits.in_flight.len(),
        )
    }

    /// Gives everything back and leaves the group (a static member keeps its place in it).
    pub(super) fn close(mut self, ended: &Ended) {
        let why = match ended {
            Ended::Drained => Why::Deadline,
            Ended::Fatal(_) => Why::ConsumerFailed,
        };
        self.partitions.keys().for_each(|key| self.leave_behind(*key, why));
        self.drop_all_partitions();
        self.member.close();
        // Dropping the consumer closes it, which takes a round trip or the session's time-out.
        drop(self);
    }
}
