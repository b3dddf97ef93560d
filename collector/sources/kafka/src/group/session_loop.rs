//! The loop of a worker's session in the group, from joining to leaving.
//!
//! The loop handles events (answers, rebalances, commits), then either reads one message or waits.
//! It reads only while the sink has accepted everything cut so far and the budget holds another
//! message; otherwise it waits, and when that lasts, pauses its partitions, so that lag grows and
//! memory doesn't. Nothing in it blocks for longer than [`IDLE_WAIT`], except requesting committed
//! offsets from the broker ([`crate::group::membership`]).

use std::rc::Rc;
use std::time::{Duration, Instant};

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::group::finish::UncommittedReason;
use crate::group::member::Member;
use crate::group::session::{Flow, GroupSession};

/// How long the loop waits when nothing is in flight.
const IDLE_WAIT: Duration = Duration::from_millis(100);
/// How long it waits while inserts are in flight, whose answers don't wake it.
const BUSY_WAIT: Duration = Duration::from_millis(10);
/// How long it waits before it pauses partitions. Pausing drops fetched messages, so short waits
/// for the sink don't pause.
const PAUSE_AFTER: Duration = Duration::from_millis(500);
/// How long after damaged messages a gap is fetched again. Damage in transit ends with the next
/// fetch; damage on a broker's disk is reported again within this time, and its partition waits.
const DAMAGE_TIME: Duration = Duration::from_secs(10);
/// The part of the session's time-out, in quarters, after which a session that did nothing may have
/// lost its partitions: the last heartbeat came at most a quarter before.
const FROZEN_QUARTERS: u32 = 3;

/// How a session ended.
#[derive(Debug)]
pub(crate) enum SessionEnd {
    /// The process ends; everything that could be finished is, by all its workers.
    Drained,
    /// The process was frozen. Another member may own the partitions, and may have divided a
    /// batch that this session would send undivided, or the topics are others: it sends nothing.
    Frozen,
    /// librdkafka can't use this consumer any more: a new one has to be created.
    Fatal(KafkaError),
}

impl<M: Member> GroupSession<M> {
    /// Reads until the process drains or the consumer fails permanently.
    pub(crate) fn run(mut self) -> SessionEnd {
        loop {
            if let Some(ended) = self.run_once() {
                self.close_session(&ended);
                return ended;
            }
        }
    }

    /// Runs one iteration of the loop. Returns how the session ended, if it did.
    pub(crate) fn run_once(&mut self) -> Option<SessionEnd> {
        let member = Rc::clone(&self.member);
        if self.was_frozen(member.now()) {
            return Some(SessionEnd::Frozen);
        }
        self.handle_pending();
        if self.shared.drain.is_begun() && self.advance_drain() {
            return Some(SessionEnd::Drained);
        }
        self.decide_flow();
        self.pause_and_resume();
        let wait = match self.flow {
            Flow::Reading => self.poll_timeout(),
            // Nothing is read from paused partitions; polling serves rebalances.
            Flow::Paused => BUSY_WAIT,
            Flow::Holding { .. } => {
                if let Some(answer) = member.next_answer(&mut self.answers, BUSY_WAIT) {
                    self.handle_answer(answer);
                }
                return None;
            }
        };
        match member.poll(wait)? {
            Ok(message) => {
                self.accept_message(&message);
                None
            }
            Err(error) => self.poll_failed(error).map(SessionEnd::Fatal),
        }
    }

    /// Sets the time. Returns whether the process was frozen for long before.
    fn was_frozen(&mut self, now: Instant) -> bool {
        let was_away = now.saturating_duration_since(self.now);
        self.now = now;
        was_away >= self.shared.settings.session_timeout / 4 * FROZEN_QUARTERS
    }

    /// Handles all pending events, without waiting.
    fn handle_pending(&mut self) {
        while let Some(answer) = self.answers.try_next() {
            self.handle_answer(answer);
        }
        while let Some(event) = self.member.next_event() {
            self.handle_event(event);
        }
        self.continue_joining();
        self.reread_damaged();
        self.retry_seeks();
        self.continue_repeats();
        if self.next_cut.is_some_and(|due| due <= self.now) {
            self.cut_aged();
        }
        self.reread_divided();
        self.commit_if_due();
        self.request_topic_ids();
        self.resume_unblocked();
        self.submit_work();
        self.continue_leaving();
        self.record_joined();
    }

    /// Decides whether to read.
    fn decide_flow(&mut self) {
        let may_read = self.may_read();
        self.flow = match (self.flow, may_read) {
            (_, true) => Flow::Reading,
            // Nothing will be read any more.
            _ if self.shared.drain.is_begun() => Flow::Paused,
            (Flow::Reading, false) => Flow::Holding { since: self.now },
            (Flow::Holding { since }, false) if self.now - since >= PAUSE_AFTER => Flow::Paused,
            (same, false) => same,
        };
    }

    fn may_read(&mut self) -> bool {
        // What is left of partitions that are released waits for its tables.
        let is_full = self.outbox.iter().any(|work| self.can_reread(work.ticket.key));
        if is_full || self.shared.drain.is_begun() {
            return false;
        }
        if self.headroom.is_none() {
            self.headroom = self.shared.budget.try_reserve(self.headroom_bytes);
        }
        if self.headroom.is_none() {
            self.free_memory();
            return false;
        }
        self.stuck_since = None;
        true
    }

    /// Returns how long a read may wait for a message.
    fn poll_timeout(&self) -> Duration {
        let busy = self.answers.open_parts() > 0 || self.commits.is_in_flight();
        let longest = if busy { BUSY_WAIT } else { IDLE_WAIT };
        let due = self.next_cut.map(|due| due.saturating_duration_since(self.now));
        due.map_or(longest, |due| due.min(longest))
    }

    fn record_joined(&mut self) {
        if !self.joined && self.member.has_joined() {
            self.joined = true;
            self.shared.status.set_joined(self.worker);
        }
    }

    /// Handles an error of polling: it concerns the connection, or ends this consumer.
    fn poll_failed(&mut self, error: KafkaError) -> Option<KafkaError> {
        if is_of_one_broker(&error) {
            tracing::debug!(worker = self.worker, %error, "a broker can't be reached");
            return None;
        }
        self.shared.status.set_trouble(self.worker, self.member.describe_error(&error));
        match error {
            KafkaError::MessageConsumptionFatal(_) => Some(error),
            // librdkafka moves to the earliest offset automatically; the next message shows what
            // that skips, and it is counted then.
            KafkaError::MessageConsumption(RDKafkaErrorCode::OffsetOutOfRange) => {
                tracing::warn!(worker = self.worker, %error, "the topic no longer has the requested offset");
                None
            }
            KafkaError::MessageConsumption(RDKafkaErrorCode::BadMessage) => {
                tracing::error!(worker = self.worker, %error, "messages are damaged; reading them again");
                self.damaged_until = Some(self.now + DAMAGE_TIME);
                None
            }
            error => {
                tracing::warn!(worker = self.worker, %error, "cannot read from Kafka; retrying");
                None
            }
        }
    }

    /// Reads on from the last accepted messages, once damage is no longer reported: if the last
    /// messages of a partition were damaged, no later one shows that they are missing.
    fn reread_damaged(&mut self) {
        if self.damaged_until.take_if(|until| *until <= self.now).is_none() {
            return;
        }
        let staying = self.partitions.iter().filter(|(_, partition)| !partition.leaving);
        let positions = staying.map(|(key, partition)| (*key, partition.position()));
        for (key, position) in positions.collect::<Vec<_>>() {
            self.seek_to(key, position);
        }
    }

    /// Releases all partitions and leaves the group (a static member remains in it).
    pub(crate) fn close_session(mut self, ended: &SessionEnd) {
        let why = match ended {
            SessionEnd::Drained => UncommittedReason::Deadline,
            SessionEnd::Frozen => UncommittedReason::PartitionLost,
            SessionEnd::Fatal(_) => UncommittedReason::ConsumerFailed,
        };
        self.partitions.keys().for_each(|key| self.record_uncommitted(*key, why));
        self.drop_all_partitions();
        for part in std::mem::take(&mut self.parts).into_values() {
            let (key, records) = part.records();
            self.count_out(key, records);
        }
        self.member.close();
        // Dropping the consumer closes it, which takes a round trip or the session timeout.
        drop(self);
    }
}

/// Returns whether an error is of one broker's connection: the others continue, and one of them
/// leads its partitions soon. If it was the last one, librdkafka also reports that all are down.
fn is_of_one_broker(error: &KafkaError) -> bool {
    matches!(
        error,
        KafkaError::MessageConsumption(
            RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::Resolve
        )
    )
}
