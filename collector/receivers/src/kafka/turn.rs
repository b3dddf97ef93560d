//! The loop of a worker's session in the group, from joining to leaving.
//!
//! The loop handles events (answers, rebalances, commits), then either reads one message or waits.
//! It reads only while the sink has taken everything cut so far and the budget has room for another
//! message; otherwise it waits, and when that lasts, pauses its partitions, so that lag grows and
//! memory doesn't. Nothing in it blocks for longer than [`IDLE_WAIT`], except asking the broker for
//! committed offsets ([`super::group`]).

use std::rc::Rc;
use std::time::Duration;

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use super::finish::Why;
use super::member::Member;
use super::session::{Flow, Session};

/// Dead letters that may wait for their topic before reading stops. A batch has at most 256 of
/// them, so a few batches may be cut while the topic is away.
const MAX_WAITING_LETTERS: usize = 512;
/// How long the loop waits when nothing is under way.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// How long it waits while inserts are in flight, whose answers don't wake it.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How long it waits before it pauses partitions. Pausing drops what was fetched, so short waits
/// for the sink don't pause.
const PAUSE_AFTER: Duration = Duration::from_millis(500);
/// How long after damaged messages a gap is fetched again. Damage in transit ends with the next
/// fetch; damage on a broker's disk is reported again within this time, and its partition waits.
const DAMAGE_TIME: Duration = Duration::from_secs(10);

/// How a session ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The process ends; everything that could be finished is, by all its workers.
    Drained,
    /// librdkafka can't use this consumer any more: a new one has to be made.
    Fatal(KafkaError),
}

impl<M: Member> Session<M> {
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

    /// Errors of polling concern the connection, or end this consumer.
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

    /// Gives all partitions up and leaves the group (a static member keeps its place in it).
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
