//! One open message: requests of a signal appended one after the other until it is full or old.
//!
//! OTLP requests concatenate, so a message of many requests is itself a request. Nothing is
//! decoded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use millrace_config::TopicName;
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::Refused;
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::Signal;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::producer::BaseRecord;

use super::failure::Class;
use super::producer::{Producer, Shipment, code_of};
use super::ticket::Ticket;

/// Where a lane leads and how it goes there: the same for all lanes of a signal.
#[derive(Clone)]
pub(crate) struct Course {
    pub(crate) signal: Signal,
    pub(crate) topic: TopicName,
    pub(crate) producer: Producer<Batch>,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) max_message_bytes: usize,
    pub(crate) linger: Duration,
}

/// A signal's way to its topic, or to one partition of it.
pub(crate) struct Lane {
    course: Course,
    /// None when the client library may choose.
    partition: Option<i32>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// Keeps its capacity from message to message.
    buffer: Vec<u8>,
    records: u64,
    tickets: Vec<Ticket>,
    since: Option<Instant>,
}

/// What travels in one message.
pub(crate) struct Batch {
    signal: Signal,
    records: u64,
    tickets: Vec<Ticket>,
    telemetry: Arc<Telemetry>,
    handed_over: Instant,
}

/// When an open message has to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// There is none.
    Never,
    /// At this time.
    At(Instant),
}

impl Lane {
    pub(crate) fn new(course: Course, partition: Option<i32>) -> Self {
        Self { course, partition, open: Mutex::default() }
    }

    /// Adds a request of at most the message limit. True when it is the first of an open message,
    /// which somebody then has to send off in time.
    pub(crate) fn add(&self, bytes: &[u8], records: u64, ticket: Ticket) -> bool {
        let Course { signal, telemetry, max_message_bytes, linger, .. } = &self.course;
        telemetry.buffered(*signal, records as i64);
        let mut open = self.lock();
        if open.buffer.len() + bytes.len() > *max_message_bytes {
            self.ship_open(&mut open);
        }
        let alone = open.buffer.is_empty();
        if alone && (linger.is_zero() || bytes.len() > max_message_bytes / 2) {
            // Little would fit beside it: no need to copy it here first.
            drop(open);
            self.ship(bytes, records, vec![ticket]);
            return false;
        }
        open.buffer.extend_from_slice(bytes);
        open.records += records;
        open.tickets.push(ticket);
        if alone {
            open.since = Some(Instant::now());
        }
        alone
    }

    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// Sends the open message off if it has waited long enough, and says when to look again.
    pub(crate) fn ship_if_due(&self, now: Instant) -> Due {
        let mut open = self.lock();
        match open.since.map(|since| since + self.course.linger) {
            None => Due::Never,
            Some(due) if due > now => Due::At(due),
            Some(_) => {
                self.ship_open(&mut open);
                Due::Never
            }
        }
    }

    /// Sends the open message off, whatever its age.
    pub(crate) fn ship_now(&self) {
        self.ship_open(&mut self.lock());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A panic ends the process, so a poisoned lock is not seen outside tests.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ship_open(&self, open: &mut Open) {
        if open.since.take().is_some() {
            let tickets = std::mem::take(&mut open.tickets);
            self.ship(&open.buffer, std::mem::take(&mut open.records), tickets);
            open.buffer.clear();
            if self.partition.is_some() {
                // One of many lanes: what all of them kept would be memory that nobody counts.
                open.buffer = Vec::new();
            }
        }
    }

    /// Hands a message to the producer, which copies it.
    fn ship(&self, payload: &[u8], records: u64, tickets: Vec<Ticket>) {
        let Course { signal, topic, producer, telemetry, .. } = &self.course;
        let batch = Box::new(Batch {
            signal: *signal,
            records,
            tickets,
            telemetry: Arc::clone(telemetry),
            handed_over: Instant::now(),
        });
        let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic.as_str(), batch);
        record.partition = self.partition;
        failpoint::hit("before-produce");
        if let Err((error, record)) = producer.send(record.payload(payload)) {
            record.delivery_opaque.ended(Err(code_of(&error)));
        }
    }
}

impl Shipment for Batch {
    fn ended(self, result: Result<(), RDKafkaErrorCode>) {
        let Self { signal, records, tickets, telemetry, handed_over } = self;
        telemetry.buffered(signal, -(records as i64));
        match result {
            Ok(()) => {
                failpoint::hit("after-produce");
                telemetry.produce_took(handed_over.elapsed());
                telemetry.records_out(signal, records);
                tickets.into_iter().for_each(Ticket::delivered);
            }
            Err(code) => {
                let class = Class::of(code);
                telemetry.produce_failed(class.as_str());
                let (refusal, why) = match class {
                    Class::Full => (Refusal::Full, Refused::Full),
                    _ => (Refusal::Unavailable, Refused::Unavailable(code.to_string())),
                };
                telemetry.refused(signal, refusal, records);
                tracing::warn!(
                    %signal, records, %code, advice = class.advice(),
                    "kafka did not take a message"
                );
                tickets.into_iter().for_each(|ticket| ticket.failed(why.clone()));
            }
        }
    }
}
