//! A signal's topic: requests are joined to messages, and messages go to partitions.
//!
//! The library must never time messages out. It would then begin a new epoch and resend everything
//! else in flight under it, stored or not, and Kafka couldn't recognise the copies (librdkafka's
//! introduction, "message timeout considerations"): records stored twice without a report. So a
//! message that waited too long here was never sent, and its clients learn that it wasn't accepted.
//! The clients of an overdue one in the library learn that it may be stored. It stays with the
//! library while others are stored, and everything is withdrawn once nothing is.
//!
//! The receiver answers a client with a shorter deadline: its request is removed from the waiting
//! messages, and is not sent.
//!
//! Only [`TopicPublisher::wait_idle`] blocks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use millrace_config::{TopicName, Topics};
use millrace_observe::otlp::Trace;
use millrace_pipeline::mutex::lock;
use millrace_pipeline::publish::PublishError;
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};
use millrace_wire::Signal;
use millrace_wire::otlp::RequestOutline;

use crate::produce::message::{Envelope, Message, OpenMessage};
use crate::produce::partitions::Partitions;
use crate::produce::producer::Producer;
use crate::request::request_part::RequestPart;
use crate::topics::join_limit::JoinLimit;

/// The maximum partitions that spans are sorted into; a topic's further partitions get none. Each
/// has an open message, and 4,096 is far past what one topic should have.
const MAX_SORTED_PARTITIONS: usize = 4096;

/// A topic's name and settings.
pub(crate) struct TopicOptions {
    pub(crate) signal: Signal,
    pub(crate) name: TopicName,
    pub(crate) producer: Producer<DeliveryContext>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) max_message_bytes: usize,
    pub(crate) linger: Duration,
    /// The time limit of a message; `None` for no limit.
    pub(crate) time_out: Option<Duration>,
    /// Each partition has its own open message, for the traces that belong there.
    pub(crate) by_trace: bool,
}

/// The data that accompanies a message through the client library.
pub(crate) struct DeliveryContext {
    pub(crate) number: u64,
    pub(crate) partition: usize,
    pub(crate) bytes: usize,
    pub(crate) trace: Trace,
    pub(crate) topic: Weak<TopicPublisher>,
}

/// Publishes to one topic.
pub(crate) struct TopicPublisher {
    pub(crate) settings: TopicOptions,
    /// The length to which requests are joined.
    pub(crate) join_limit: JoinLimit,
    /// One, or one for each partition.
    open: Box<[OnceLock<Box<Mutex<OpenMessage>>>]>,
    state: Mutex<TopicState>,
    idle: Condvar,
    /// Caches of what `state` allows, which each request reads without its lock.
    accepts: AtomicBool,
    is_healthy: AtomicBool,
}

pub(crate) struct TopicState {
    pub(crate) partitions: Partitions,
    /// Why the topic can't be written, by its metadata; until something is stored nevertheless.
    pub(crate) metadata_error: Option<String>,
    /// The last answer to producing, if it was a failure.
    pub(crate) last_failure: Option<String>,
}

impl TopicPublisher {
    /// Creates a publisher, which accepts nothing before the first metadata.
    pub(crate) fn new(settings: TopicOptions) -> Arc<Self> {
        let open = if settings.by_trace { MAX_SORTED_PARTITIONS } else { 1 };
        Arc::new(Self {
            join_limit: JoinLimit::new(settings.max_message_bytes),
            open: (0..open).map(|_| OnceLock::new()).collect(),
            state: Mutex::new(TopicState {
                partitions: Partitions::new(settings.time_out),
                metadata_error: Some("Kafka was not reached yet".to_owned()),
                last_failure: None,
            }),
            settings,
            idle: Condvar::new(),
            accepts: AtomicBool::new(false),
            is_healthy: AtomicBool::new(false),
        })
    }

    /// Returns whether a request may be sent, if only to test whether Kafka stores it.
    pub(crate) fn is_accepting(&self) -> bool {
        self.accepts.load(Ordering::Acquire)
    }

    /// Returns whether Kafka is expected to accept a request now.
    pub(crate) fn is_healthy(&self) -> bool {
        self.is_healthy.load(Ordering::Acquire)
    }

    /// Returns how many partitions spans are sorted into.
    pub(crate) fn sorted_partitions(&self) -> u32 {
        self.lock().partitions.partition_count().clamp(1, MAX_SORTED_PARTITIONS) as u32
    }

    /// Applies metadata: which partitions have a leader, or why the topic can't be written.
    pub(crate) fn set_metadata(&self, metadata: Result<Vec<bool>, String>) {
        let mut state = self.lock();
        match metadata {
            Ok(leaders) => {
                state.metadata_error = None;
                // It is empty while the first leaders are elected.
                if !leaders.is_empty() {
                    state.partitions.set_leaders(&leaders);
                }
            }
            Err(why) => state.metadata_error = Some(why),
        }
        self.publish_state(&state);
    }

    /// Adds a request of at most the message limit to an open message. Returns true when it is the
    /// first, which the caller then has to send in time.
    pub(crate) fn add_request(
        self: &Arc<Self>,
        partition: Option<usize>,
        bytes: &[u8],
        checked: &RequestOutline,
        part: RequestPart,
    ) -> bool {
        let TopicOptions { signal, telemetry, linger, .. } = &self.settings;
        let part = part.with_size(bytes.len(), checked.records);
        telemetry.add_buffered(*signal, checked.records as i64);
        let limit = self.join_limit.limit_bytes();
        let Some(open) = self.open.get(partition.unwrap_or_default()) else { return false };
        let mut open = lock(open.get_or_init(Box::default));
        let mut admitted = open.buffer.len() + bytes.len() <= limit && open.try_join(checked);
        if !admitted {
            self.send_open(partition, &mut open);
            admitted = open.try_join(checked);
        }
        if open.is_empty() && (linger.is_zero() || bytes.len() > limit / 2 || !admitted) {
            // Little more would fit into its message, so it is sent without a copy.
            open.clear(self.settings.by_trace);
            drop(open);
            let (records, parts, closed_at) = (checked.records, vec![part], Instant::now());
            self.send_message(partition, bytes, Envelope { records, parts, closed_at });
            return false;
        }
        let is_first = open.is_empty();
        open.push(bytes, part);
        is_first
    }

    /// Sends open messages that have waited long enough, or all if `now` is `None`. Returns when
    /// the next is due.
    pub(crate) fn send_due(self: &Arc<Self>, now: Option<Instant>) -> Option<Instant> {
        let mut next = None;
        for (index, open) in self.open.iter().enumerate() {
            let Some(open) = open.get() else { continue };
            let mut open = lock(open);
            let Some(due) = open.opened_at().map(|since| since + self.settings.linger) else {
                continue;
            };
            if now.is_some_and(|now| due > now) {
                next = Some(next.map_or(due, |next: Instant| next.min(due)));
            } else {
                self.send_open(self.settings.by_trace.then_some(index), &mut open);
            }
        }
        next
    }

    /// Redirects, answers and sends what is due. Returns whether the library has an overdue message
    /// that no client waits for any more.
    pub(crate) fn process_due(self: &Arc<Self>, now: Instant) -> bool {
        let mut state = self.lock();
        state.partitions.redirect_waiting(now);
        let abandoned = state.partitions.remove_abandoned();
        let time_out = self.settings.time_out;
        let (unsent, has_overdue) =
            time_out.map(|time_out| self.expire(&mut state, now, time_out)).unwrap_or_default();
        self.publish_state(&state);
        drop(state);
        self.withdraw_parts(abandoned);
        unsent.into_iter().for_each(|message| self.refuse_parts(message));
        self.send_waiting();
        has_overdue
    }

    /// Answers the clients of overdue messages that the library has. Returns those that it doesn't
    /// have, and whether it has one that no client waits for.
    fn expire(
        &self,
        state: &mut TopicState,
        now: Instant,
        time_out: Duration,
    ) -> (Vec<Message>, bool) {
        let TopicOptions { signal, name, .. } = &self.settings;
        let unsent = state.partitions.expire_waiting(now, time_out);
        if !unsent.is_empty() {
            tracing::warn!(
                %signal, topic = %name, messages = unsent.len(),
                "messages were not sent to Kafka in time; their senders retry"
            );
        }
        let why = format!("Kafka has not confirmed them within {} s", time_out.as_secs());
        let (requests, has_overdue) = state.partitions.expire_in_flight(now, time_out, &why);
        if requests > 0 {
            tracing::warn!(
                %signal, topic = %name, requests,
                "Kafka has not confirmed requests in time; they may be stored, and retries may \
                 duplicate them"
            );
        }
        (unsent, has_overdue)
    }

    /// Removes messages that wait for Kafka and should go elsewhere: all while the topic stores
    /// nothing, otherwise those with a deadline by `soon`. Requests of the disk stay, and those
    /// without a waiting client are withdrawn. Their records don't count as buffered any more.
    pub(crate) fn take_waiting(&self, soon: Instant) -> Vec<Message> {
        let is_healthy = self.is_healthy();
        let is_due = |part: &RequestPart| part.response_deadline().is_some_and(|due| due <= soon);
        let mut messages = self.lock().partitions.take_waiting(|Message { envelope, .. }| {
            (!is_healthy || envelope.parts.iter().any(is_due))
                && !envelope.parts.iter().any(RequestPart::is_on_disk)
        });
        for message in &mut messages {
            self.withdraw_parts(message.remove(|part| !part.begin_send()));
        }
        messages.retain(|message| !message.envelope.parts.is_empty());
        let records: u64 = messages.iter().map(|message| message.envelope.records).sum();
        self.settings.telemetry.add_buffered(self.settings.signal, -(records as i64));
        messages
    }

    /// Returns how many messages with the library are likely to be stored soon.
    pub(crate) fn healthy_in_flight(&self, now: Instant) -> usize {
        self.lock().partitions.healthy_in_flight(now)
    }

    /// Returns whether Kafka has stored a message within `age`.
    pub(crate) fn has_stored_within(&self, age: Duration) -> bool {
        self.lock().partitions.last_stored().is_some_and(|stored| stored.elapsed() <= age)
    }

    /// Returns why the topic stores nothing; `None` if it stores something. Time alone may have
    /// changed that, so requests are accepted or refused accordingly from now on.
    pub(crate) fn problem_at(&self, now: Instant) -> Option<String> {
        let state = self.lock();
        self.publish_state(&state);
        let name = &self.settings.name;
        if let Some(why) = &state.metadata_error {
            return Some(why.clone());
        }
        if state.partitions.is_accepting(now) {
            return None;
        }
        Some(match &state.last_failure {
            _ if state.partitions.is_leaderless() => {
                format!("topic {name} accepts no records: no partition has a leader")
            }
            Some(why) => format!("topic {name} accepts no records: {why}"),
            None => format!("topic {name} accepts no records: no partition has answered recently"),
        })
    }

    /// Returns the partitions that store nothing, of a topic that stores something.
    pub(crate) fn stalled_partitions(&self, now: Instant) -> Option<String> {
        let stalled = self.lock().partitions.stalled_partitions(now);
        (!stalled.is_empty()).then(|| {
            let name = &self.settings.name;
            format!(
                "topic {name}: partitions {stalled:?} accept no records; other partitions receive \
                 theirs"
            )
        })
    }

    /// Waits until no client waits for an answer, at most until `deadline`. Returns false when some
    /// do.
    pub(crate) fn wait_idle(&self, deadline: Instant) -> bool {
        let time = deadline.saturating_duration_since(Instant::now());
        let waited =
            self.idle.wait_timeout_while(self.lock(), time, |state| !state.partitions.is_idle());
        waited.unwrap_or_else(PoisonError::into_inner).0.partitions.is_idle()
    }

    /// Counts records that no message can hold.
    pub(crate) fn count_rejected(&self, records: u64) {
        if records > 0 {
            self.settings.telemetry.record_refused(
                self.settings.signal,
                RefusalReason::TooLarge,
                records,
            );
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, TopicState> {
        lock(&self.state)
    }

    /// Publishes changes of the state.
    pub(crate) fn publish_state(&self, state: &TopicState) {
        let (now, is_known) = (Instant::now(), state.metadata_error.is_none());
        self.accepts.store(is_known && state.partitions.is_accepting(now), Ordering::Release);
        self.is_healthy.store(is_known && state.partitions.is_healthy(now), Ordering::Release);
        if state.partitions.is_idle() {
            self.idle.notify_all();
        }
    }

    fn send_open(self: &Arc<Self>, partition: Option<usize>, open: &mut OpenMessage) {
        if let Some(envelope) = open.close() {
            self.send_message(partition, &open.buffer, envelope);
            open.clear(self.settings.by_trace);
        }
    }

    /// Sends a closed message, or queues it. Its records count as buffered.
    fn send_message(
        self: &Arc<Self>,
        partition: Option<usize>,
        payload: &[u8],
        envelope: Envelope,
    ) {
        let now = Instant::now();
        let mut state = self.lock();
        let Some(chosen) = state.partitions.assign_partition(partition, now) else {
            return state
                .partitions
                .queue_message(Message { payload: payload.to_vec(), envelope, partition }, now);
        };
        self.hand_over(state, chosen, payload, envelope);
    }

    /// Sends waiting messages, as many as the library may have.
    pub(crate) fn send_waiting(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            let Some((chosen, message)) = state.partitions.next_message(Instant::now()) else {
                return;
            };
            self.hand_over(state, chosen, &message.payload, message.envelope);
        }
    }

    /// Drops parts of requests that are never sent: their clients were answered, or are gone.
    pub(crate) fn withdraw_parts(&self, parts: Vec<RequestPart>) {
        if !parts.is_empty() {
            self.count_refused(RefusalReason::Timeout, parts.iter().map(|part| part.records).sum());
        }
    }

    /// Refuses a message that was not sent in time.
    fn refuse_parts(&self, message: Message) {
        let Envelope { records, parts, .. } = message.envelope;
        self.count_refused(RefusalReason::Unavailable, records);
        let seconds = self.settings.time_out.unwrap_or_default().as_secs();
        let why =
            PublishError::Unavailable(format!("Kafka accepted none of them within {seconds} s"));
        parts.into_iter().for_each(|part| part.mark_failed(why.clone()));
    }

    pub(crate) fn count_refused(&self, refusal: RefusalReason, records: u64) {
        let TopicOptions { signal, telemetry, .. } = &self.settings;
        telemetry.add_buffered(*signal, -(records as i64));
        telemetry.record_refused(*signal, refusal, records);
    }
}

/// Returns a signal's topic, if it has one.
pub(crate) fn topic_of(topics: &Topics, signal: Signal) -> Option<&TopicName> {
    match signal {
        Signal::Traces => topics.traces.as_ref(),
        Signal::Logs => topics.logs.as_ref(),
        Signal::Metrics => topics.metrics.as_ref(),
    }
}
