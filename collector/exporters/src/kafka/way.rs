//! A lane's closed messages, until Kafka has answered for them: a few in the client library, the
//! others waiting here.
//!
//! The library must never time messages out. It would then begin a new epoch and resend everything
//! else in flight under it, stored or not, and Kafka couldn't recognise the copies (librdkafka's
//! introduction, "message timeout considerations"): records stored twice without a report. So a
//! message that waited too long here was never sent, and its clients learn that it wasn't taken;
//! overdue ones in the library are withdrawn together, and their clients learn that the outcome is
//! unknown.
//!
//! A message that its topic refuses as too long is cut in two and sent again: a joined message
//! between its requests, a single request between its records. Only a record that is too long by
//! itself, or a group that can't be cut, is given back.
//!
//! Nothing here reads a clock or blocks.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use millrace_config::TopicName;
use millrace_observe::otlp::{SPANS, Trace, is_own};
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::Refused;
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::{Signal, otlp};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::BaseRecord;
use tracing::field::Empty;

use super::failure::Class;
use super::producer::{Producer, Shipment, code_of};
use super::room::Room;
use super::ticket::Ticket;

/// Messages of a whole topic with the library at once. A connection carries five requests at a
/// time; with messages of 1 MB, 8 of them are 160 MB a second where an answer takes 50 ms. Beside
/// each the library has its compressed form, and what is here may be stored twice after a time-out;
/// 16 of them took 10 MiB more with a slow broker.
const UNDER_WAY_TOPIC: usize = 8;
/// Those of one partition, of which a topic has many: one on its way while another is answered.
const UNDER_WAY_PARTITION: usize = 2;

/// A lane's destination and settings: the same for all lanes of a signal.
#[derive(Clone)]
pub(crate) struct Course {
    pub(crate) signal: Signal,
    pub(crate) topic: TopicName,
    pub(crate) producer: Producer<Batch>,
    pub(crate) telemetry: Arc<Telemetry>,
    /// To what length requests are joined.
    pub(crate) room: Arc<Room>,
    pub(crate) linger: Duration,
    /// How long a message may take; none for as long as it takes.
    pub(crate) patience: Option<Duration>,
}

/// The messages of one lane, in the order in which they were closed.
pub(crate) struct Way {
    course: Course,
    /// None when the client library may choose.
    partition: Option<i32>,
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    /// Never handed to the library. Bounded by the budget, which every ticket holds a share of.
    waiting: VecDeque<Parcel>,
    /// The library's: number and when it was closed, oldest first.
    under_way: VecDeque<(u64, Instant)>,
    next: u64,
}

/// A closed message.
struct Parcel {
    payload: Vec<u8>,
    records: u64,
    tickets: Vec<Ticket>,
    since: Instant,
}

/// What travels with a message.
pub(crate) struct Batch {
    signal: Signal,
    records: u64,
    tickets: Vec<Ticket>,
    telemetry: Arc<Telemetry>,
    handed_over: Instant,
    trace: Trace,
    number: u64,
    way: Weak<Way>,
}

impl Way {
    pub(crate) fn new(course: Course, partition: Option<i32>) -> Arc<Self> {
        Arc::new(Self { course, partition, state: Mutex::default(), idle: Condvar::new() })
    }

    /// Takes a closed message. The caller has counted its records as held.
    pub(crate) fn send(self: &Arc<Self>, payload: &[u8], records: u64, tickets: Vec<Ticket>) {
        let since = Instant::now();
        let mut state = self.lock();
        if !state.waiting.is_empty() || state.under_way.len() >= self.limit() {
            let payload = payload.to_vec();
            state.waiting.push_back(Parcel { payload, records, tickets, since });
            return;
        }
        let number = state.begin(since);
        drop(state);
        if !self.hand_over(number, payload, records, tickets) {
            self.pump();
        }
    }

    /// Refuses what has waited too long. True when something that the library has is overdue: the
    /// caller then takes everything back from it.
    pub(crate) fn tend(&self, now: Instant) -> bool {
        let Some(patience) = self.course.patience else { return false };
        let is_old = |since: Instant| now.saturating_duration_since(since) >= patience;
        let mut state = self.lock();
        let old = state.waiting.iter().take_while(|parcel| is_old(parcel.since)).count();
        let old: Vec<Parcel> = state.waiting.drain(..old).collect();
        let overdue = state.under_way.front().is_some_and(|(_, since)| is_old(*since));
        self.tell_if_idle(&state);
        drop(state);
        if !old.is_empty() {
            let seconds = patience.as_secs();
            tracing::warn!(
                signal = %self.course.signal, messages = old.len(), seconds,
                "messages were not sent to kafka in time; their senders are told to come back"
            );
            let why = format!("kafka took none of them in {seconds} s");
            old.into_iter().for_each(|parcel| self.refuse(parcel, &why));
        }
        overdue
    }

    /// Waits until Kafka has answered for everything, at most until `deadline`. False when it
    /// hasn't by then.
    pub(crate) fn wait_idle(&self, deadline: Instant) -> bool {
        let time = deadline.saturating_duration_since(Instant::now());
        let waited = self.idle.wait_timeout_while(self.lock(), time, |state| !state.is_idle());
        waited.unwrap_or_else(PoisonError::into_inner).0.is_idle()
    }

    fn limit(&self) -> usize {
        if self.partition.is_some() { UNDER_WAY_PARTITION } else { UNDER_WAY_TOPIC }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic ends the process, so a poisoned lock is not seen outside tests.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_if_idle(&self, state: &State) {
        if state.is_idle() {
            self.idle.notify_all();
        }
    }

    /// Hands a message to the library, which copies it. False when it took none: the message has
    /// its answer then.
    fn hand_over(
        self: &Arc<Self>,
        number: u64,
        payload: &[u8],
        records: u64,
        tickets: Vec<Ticket>,
    ) -> bool {
        let Course { signal, topic, producer, telemetry, .. } = &self.course;
        let batch = Box::new(Batch {
            signal: *signal,
            records,
            trace: self.trace(payload, records, tickets.len()),
            tickets,
            telemetry: Arc::clone(telemetry),
            handed_over: Instant::now(),
            number,
            way: Arc::downgrade(self),
        });
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic.as_str(), batch);
        record.partition = self.partition;
        failpoint::hit("before-produce");
        let Err((error, record)) = producer.send(record.payload(payload)) else { return true };
        record.delivery_opaque.settle(Err(code_of(&error)));
        self.landed(number);
        false
    }

    /// The trace of a message on its way, if it is kept.
    fn trace(&self, payload: &[u8], records: u64, requests: usize) -> Trace {
        if is_own(payload) {
            return Trace::default();
        }
        let Course { signal, topic, telemetry, .. } = &self.course;
        telemetry.tracer().begin(|trace_id| {
            tracing::debug_span!(
                target: SPANS,
                parent: None,
                "publish",
                trace_id,
                otel.name = format!("publish {topic}"),
                otel.kind = "producer",
                otel.status_code = Empty,
                signal = signal.as_str(),
                topic = topic.as_str(),
                partition = self.partition,
                bytes = payload.len(),
                records,
                requests,
                error = Empty,
            )
        })
    }

    /// The topic takes no message as long as this one: two shorter ones wait in its place, if it
    /// can be cut.
    fn cut(&self, batch: Batch, code: RDKafkaErrorCode, payload: &[u8]) {
        let news = self.course.room.too_long(payload.len());
        let Some(parts) = halves(self.course.signal, payload, &batch.tickets) else {
            return batch.settle(Err(code));
        };
        if news {
            tracing::warn!(
                signal = %self.course.signal, topic = %self.course.topic, bytes = payload.len(),
                "the topic takes no messages of this length; they are sent in parts"
            );
        }
        // Its records stay counted as held: they are, in the parts.
        let Batch { number, tickets, .. } = batch;
        let mut state = self.lock();
        let known = state.under_way.iter().find(|(known, _)| *known == number);
        let since = known.map_or_else(Instant::now, |(_, since)| *since);
        for part in parts.into_iter().rev() {
            let Half { payload, tickets } = part;
            let records = tickets.iter().map(|ticket| ticket.records).sum();
            state.waiting.push_front(Parcel { payload, records, tickets, since });
        }
        drop(state);
        tickets.into_iter().for_each(Ticket::replaced);
    }

    /// The library is rid of a message.
    fn landed(&self, number: u64) {
        let mut state = self.lock();
        state.under_way.retain(|(known, _)| *known != number);
        self.tell_if_idle(&state);
    }

    /// Hands over what waits, as much as may be under way.
    fn pump(self: &Arc<Self>) {
        loop {
            let mut state = self.lock();
            if state.under_way.len() >= self.limit() {
                return;
            }
            let Some(parcel) = state.waiting.pop_front() else { return };
            if parcel.tickets.iter().all(Ticket::is_given_up) {
                self.tell_if_idle(&state);
                drop(state);
                self.refuse(parcel, "nobody waited for them any more");
                continue;
            }
            let number = state.begin(parcel.since);
            drop(state);
            let Parcel { payload, records, tickets, since: _ } = parcel;
            self.hand_over(number, &payload, records, tickets);
        }
    }

    /// Gives a message back that was never sent.
    fn refuse(&self, parcel: Parcel, why: &str) {
        let Course { signal, telemetry, .. } = &self.course;
        let Parcel { payload: _, records, tickets, since: _ } = parcel;
        telemetry.buffered(*signal, -(records as i64));
        telemetry.refused(*signal, Refusal::Unavailable, records);
        tickets.into_iter().for_each(|ticket| ticket.failed(Refused::Unavailable(why.to_owned())));
    }
}

impl State {
    /// Notes a message as the library's.
    fn begin(&mut self, since: Instant) -> u64 {
        let number = self.next;
        self.next += 1;
        self.under_way.push_back((number, since));
        number
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }
}

impl Batch {
    /// Answers for its records.
    fn settle(self, result: Result<(), RDKafkaErrorCode>) {
        let Self { signal, records, tickets, telemetry, handed_over, trace, .. } = self;
        telemetry.buffered(signal, -(records as i64));
        let Err(code) = result else {
            failpoint::hit("after-produce");
            telemetry.produce_took(handed_over.elapsed(), trace.id);
            telemetry.records_out(signal, records);
            return tickets.into_iter().for_each(Ticket::delivered);
        };
        let class = Class::of(code);
        trace.ended(Some(&code.to_string()));
        telemetry.produce_failed(class.as_str());
        let (refusal, why) = match class {
            Class::Full => (Refusal::Full, Refused::Full),
            Class::TooLarge | Class::Denied | Class::NoTopic => {
                (Refusal::Unavailable, Refused::Unavailable(code.to_string()))
            }
            Class::Passing | Class::Fatal => {
                (Refusal::Unavailable, Refused::Unconfirmed(code.to_string()))
            }
        };
        telemetry.refused(signal, refusal, records);
        tracing::warn!(
            %signal, records, %code, advice = class.advice(), "kafka did not confirm a message"
        );
        tickets.into_iter().for_each(|ticket| ticket.failed(why.clone()));
    }
}

/// One of the messages that one is cut into.
struct Half {
    payload: Vec<u8>,
    tickets: Vec<Ticket>,
}

/// Cuts a message in two between its requests, or a single request between its records. `None` when
/// that can't be done. The tickets are further shares of the message's own.
fn halves(signal: Signal, payload: &[u8], tickets: &[Ticket]) -> Option<Vec<Half>> {
    let middle = payload.len() / 2;
    if let [ticket] = tickets {
        let parts = otlp::split(signal, payload, middle).ok().filter(|parts| parts.len() > 1)?;
        let half = |part: otlp::Part| {
            let ticket = ticket.another().of(part.bytes.len(), part.records);
            Half { payload: part.bytes, tickets: vec![ticket] }
        };
        return Some(parts.into_iter().map(half).collect());
    }
    let ends = tickets.iter().scan(0, |end, ticket| {
        *end += ticket.bytes;
        Some(*end)
    });
    // Behind the request that reaches the middle, or before it where it is the last.
    let first = ends.take_while(|end| *end < middle).count() + 1;
    let (first, second) = tickets.split_at(first.min(tickets.len().checked_sub(1)?));
    let bytes = |tickets: &[Ticket]| tickets.iter().map(|ticket| ticket.bytes).sum::<usize>();
    let (one, other) = payload.split_at_checked(bytes(first))?;
    let half = |payload: &[u8], tickets: &[Ticket]| {
        let again = |ticket: &Ticket| ticket.another().of(ticket.bytes, ticket.records);
        Half { payload: payload.to_vec(), tickets: tickets.iter().map(again).collect() }
    };
    (bytes(second) == other.len()).then(|| vec![half(one, first), half(other, second)])
}

impl Batch {
    /// Answers by `end`, then gives its place to the next.
    fn leave(self, end: impl FnOnce(Self, Option<&Arc<Way>>)) {
        let (number, way) = (self.number, self.way.upgrade());
        end(self, way.as_ref());
        if let Some(way) = way {
            way.landed(number);
            way.pump();
        }
    }
}

impl Shipment for Batch {
    fn ended(self, result: Result<(), RDKafkaErrorCode>) {
        self.leave(|batch, way| {
            if let (Ok(()), Some(way)) = (result, way) {
                way.course.room.fitted(batch.tickets.iter().map(|ticket| ticket.bytes).sum());
            }
            batch.settle(result);
        });
    }

    fn failed(self, code: RDKafkaErrorCode, payload: &[u8]) {
        self.leave(|batch, way| match way {
            Some(way) if Class::of(code) == Class::TooLarge => way.cut(batch, code, payload),
            _ => batch.settle(Err(code)),
        });
    }
}
