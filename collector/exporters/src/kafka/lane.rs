//! One open message: requests of a signal appended one after the other until it is full or old.
//!
//! OTLP requests concatenate, so a message of many requests is itself a request, and is kept within
//! one request's limits: a gateway would refuse a larger one as a whole. Nothing is decoded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millrace_wire::limits::Limits;
use millrace_wire::otlp::{Checked, Joined};

use super::ticket::Ticket;
use super::way::{Course, Way};

/// A signal's way to its topic, or to one partition of it.
pub(crate) struct Lane {
    course: Course,
    /// One of many: this one's memory is of one partition.
    is_of_partition: bool,
    open: Mutex<Open>,
    way: Arc<Way>,
}

#[derive(Default)]
struct Open {
    /// Keeps its capacity from message to message.
    buffer: Vec<u8>,
    records: u64,
    tickets: Vec<Ticket>,
    since: Option<Instant>,
    /// The sum of its requests' outlines.
    joined: Joined,
}

impl Open {
    /// Whether a request can be joined to those here. It counts as joined then.
    fn admits(&mut self, request: &Checked) -> bool {
        self.joined.admit(request, &Limits::default())
    }
}

/// When an open message has to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// There is none.
    Never,
    /// At this time.
    At(Instant),
}

impl Due {
    /// The earlier of two.
    pub(crate) fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::At(a), Self::At(b)) => Self::At(a.min(b)),
            (Self::Never, due) | (due, Self::Never) => due,
        }
    }
}

impl Lane {
    pub(crate) fn new(course: Course, partition: Option<i32>) -> Self {
        let way = Way::new(course.clone(), partition);
        Self { course, is_of_partition: partition.is_some(), open: Mutex::default(), way }
    }

    /// Adds a request of at most the message limit. True when it is the first of an open message,
    /// which somebody then has to send off in time.
    pub(crate) fn add(&self, bytes: &[u8], checked: &Checked, ticket: Ticket) -> bool {
        let records = checked.records;
        let Course { signal, telemetry, room, linger, .. } = &self.course;
        let (ticket, room_bytes) = (ticket.of(bytes.len(), records), room.bytes());
        telemetry.buffered(*signal, records as i64);
        let mut open = self.lock();
        let mut admitted = open.buffer.len() + bytes.len() <= room_bytes && open.admits(checked);
        if !admitted {
            self.ship_open(&mut open);
            admitted = open.admits(checked);
        }
        let alone = open.buffer.is_empty();
        if alone && (linger.is_zero() || bytes.len() > room_bytes / 2 || !admitted) {
            // Little would fit beside it: it needs no copy here.
            open.joined.clear();
            drop(open);
            self.way.send(bytes, records, vec![ticket]);
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

    /// Closed messages, until Kafka has answered for them.
    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// Sends the open message if it has waited long enough; returns when to check again.
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

    /// Sends the open message, whatever its age.
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
            self.way.send(&open.buffer, std::mem::take(&mut open.records), tickets);
            open.buffer.clear();
            open.joined.clear();
            if self.is_of_partition {
                // One of many lanes: their kept memory would not be counted.
                open.buffer = Vec::new();
            }
        }
    }
}
