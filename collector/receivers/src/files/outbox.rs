//! Requests on their way: one that is filled, some that are sent and not confirmed.
//!
//! They are confirmed in the order of sending. When one fails, it and all that were sent after it
//! are sent again in that order, so the last copy of each line is in order. Nothing is thrown away:
//! while there is no room for another request nothing is read.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millrace_lines::Request as Lines;
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{Delivery, Refused};
use millrace_tail::{FileId, Position, Tail, Ticket};
use millrace_wire::limits::Limits;
use millrace_wire::otlp::{self, Checked};
use millrace_wire::{Signal, WireError};

use crate::way::{SEND_BACKOFF, Way};

/// A request's bytes: with a last record of up to 40,000 it is under the 1,000,000 of a Kafka
/// exporter's `maxMessageBytes`, so it goes as one message; a longer one is cut in two, which takes
/// a third of this thread's time.
pub(super) const REQUEST_BYTES: usize = 960_000;

/// The time between two requests that aren't full: 5 a second cost little.
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// How long a record waits for others where no request has just gone: a program writes the lines of
/// one event in less.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// Requests that are sent and not confirmed: 8 of 1 MB in a broker's usual 10 ms are 800 MB/s, and
/// 8 MB are the most that a kill repeats, with the one that is filled.
const FLIGHTS_MAX: usize = 8;

struct Flight {
    lines: Lines,
    checked: Checked,
    tickets: Vec<Ticket>,
    stage: Stage,
    /// For the copy kept here until it is confirmed.
    _kept: Reservation,
}

enum Stage {
    /// It is to be sent, or sent again, and so are all behind it.
    Unsent,
    Sent(Delivery),
    Confirmed,
}

struct Filling {
    lines: Lines,
    kept: Reservation,
    since: Option<Instant>,
    /// The files with records in it, and from where each is read on.
    files: BTreeMap<FileId, Position>,
}

/// All requests.
pub(super) struct Outbox {
    way: Way,
    /// Woken by answers.
    waker: Waker,
    filling: Option<Filling>,
    flights: VecDeque<Flight>,
    spare: Vec<Lines>,
    /// When the last request was lined up.
    closed_at: Option<Instant>,
    backoff: Backoff,
    not_before: Option<Instant>,
    slack_bytes: usize,
}

impl Outbox {
    /// `slack_bytes` is by how much the last records may pass [`REQUEST_BYTES`].
    pub(super) fn new(way: Way, waker: Waker, slack_bytes: usize) -> Self {
        Self {
            way,
            waker,
            filling: None,
            flights: VecDeque::new(),
            spare: Vec::new(),
            closed_at: None,
            backoff: Backoff::new(SEND_BACKOFF, u64::from(std::process::id())),
            not_before: None,
            slack_bytes,
        }
    }

    /// The request that is filled, if there may be one: its bytes are reserved before.
    pub(super) fn filling(&mut self) -> Option<&mut Lines> {
        if self.filling.is_none() {
            if self.flights.len() >= FLIGHTS_MAX {
                return None;
            }
            let bytes = REQUEST_BYTES + self.slack_bytes;
            let kept = self.way.budget.try_reserve(bytes as u64)?;
            let lines = self.spare.pop().unwrap_or_else(|| Lines::with_limit(REQUEST_BYTES));
            self.filling = Some(Filling { lines, kept, since: None, files: BTreeMap::new() });
        }
        self.filling.as_mut().map(|filling| &mut filling.lines)
    }

    /// Records of a file were written to the request that is filled.
    pub(super) fn fed(&mut self, file: FileId, position: Position, now: Instant) {
        if let Some(filling) = &mut self.filling {
            filling.files.insert(file, position);
            filling.since.get_or_insert(now);
        }
    }

    /// Whether the request that is filled should go.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.lines.is_full())
            || self.filled_until().is_some_and(|at| now >= at)
    }

    /// When the request that is filled goes, full or not.
    fn filled_until(&self) -> Option<Instant> {
        Some(goes_at(self.filling.as_ref()?.since?, self.closed_at))
    }

    /// When something is to be done without anything happening before.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waits = self.not_before.filter(|_| self.has_unsent());
        [self.filled_until(), waits].into_iter().flatten().min()
    }

    fn has_unsent(&self) -> bool {
        self.flights.iter().any(|flight| matches!(flight.stage, Stage::Unsent))
    }

    /// Whether there are records that aren't confirmed.
    pub(super) fn is_waiting(&self) -> bool {
        !self.flights.is_empty() || self.filled_until().is_some()
    }

    /// Whether everything that was read is confirmed.
    pub(super) fn is_empty(&self) -> bool {
        self.filling.is_none() && self.flights.is_empty()
    }

    /// Ends the request that is filled, and lines it up.
    pub(super) fn close(&mut self, tail: &mut Tail, now: Instant) {
        let Some(Filling { mut lines, mut kept, files, .. }) = self.filling.take() else { return };
        self.closed_at = Some(now);
        let tickets = files.into_iter().filter_map(|(file, position)| tail.sent(file, position));
        let tickets: Vec<Ticket> = tickets.collect();
        let checked = if lines.is_empty() { None } else { check(&lines) };
        let Some(checked) = checked else {
            // Lines that are no records: read, and nothing to send.
            tickets.into_iter().for_each(|ticket| tail.acknowledge(ticket));
            lines.clear();
            self.spare.push(lines);
            return;
        };
        // Shrinking, but for a record longer than foreseen: then it is covered in part.
        let _ = kept.try_resize(lines.bytes().len() as u64);
        let stage = Stage::Unsent;
        self.flights.push_back(Flight { lines, checked, tickets, stage, _kept: kept });
    }

    /// Sends what waits, and takes what is confirmed. Whether anything changed.
    pub(super) fn advance(&mut self, tail: &mut Tail, now: Instant) -> bool {
        let mut changed = self.take_answers(tail, now);
        if self.not_before.is_some_and(|at| now < at) {
            return changed;
        }
        self.not_before = None;
        let is_unsent = |flight: &&mut Flight| matches!(flight.stage, Stage::Unsent);
        let mut refused = None;
        for flight in self.flights.iter_mut().filter(is_unsent) {
            match self.way.send(Signal::Logs, flight.lines.bytes(), &flight.checked) {
                Ok(delivery) => {
                    flight.stage = Stage::Sent(delivery);
                    changed = true;
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = refused {
            self.wait(&error, now);
        }
        changed
    }

    /// Confirms what is confirmed and all before it. A request that failed goes again, and all that
    /// were sent after it, so that their order stays: also while one before it waits for its
    /// answer, since nothing may be sent behind it meanwhile. Whether anything was confirmed.
    fn take_answers(&mut self, tail: &mut Tail, now: Instant) -> bool {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        let mut failed: Option<Refused> = None;
        for flight in &mut self.flights {
            if failed.is_some() {
                flight.stage = Stage::Unsent;
                continue;
            }
            let Stage::Sent(delivery) = &mut flight.stage else { continue };
            match Pin::new(delivery).poll(&mut context) {
                Poll::Pending => {}
                Poll::Ready(Ok(_)) => flight.stage = Stage::Confirmed,
                Poll::Ready(Err(refused)) => {
                    flight.stage = Stage::Unsent;
                    failed = Some(refused);
                }
            }
        }
        let mut changed = false;
        let is_confirmed = |flight: &Flight| matches!(flight.stage, Stage::Confirmed);
        while self.flights.front().is_some_and(is_confirmed)
            && let Some(mut flight) = self.flights.pop_front()
        {
            changed = true;
            self.backoff.reset();
            flight.tickets.drain(..).for_each(|ticket| tail.acknowledge(ticket));
            flight.lines.clear();
            self.spare.push(flight.lines);
            self.spare.truncate(2);
        }
        if let Some(refused) = failed {
            self.wait(&refused, now);
        }
        changed
    }

    fn wait(&mut self, refused: &Refused, now: Instant) {
        if self.backoff.tries() == 0 {
            tracing::warn!(%refused, "lines of files are not taken: reading stops until they are");
        }
        self.not_before = Some(now + self.backoff.next_wait());
    }
}

/// What the request comes to. None, with a word in the log, if it isn't well-formed: that would be
/// a fault of ours, and sending it again would not help.
fn check(lines: &Lines) -> Option<Checked> {
    let checked: Result<Checked, WireError> =
        otlp::check(Signal::Logs, lines.bytes(), &Limits::default());
    checked
        .inspect_err(|error| {
            tracing::error!(%error, records = lines.count(), "a request made of lines is malformed");
        })
        .ok()
}

/// When a request whose first record came at `since` goes, by when the last one went.
fn goes_at(since: Instant, last: Option<Instant>) -> Instant {
    let next = last.map_or(since, |last| last + REQUEST_INTERVAL);
    next.max(since + FIRST_WAIT)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::goes_at;

    /// Scenario: a record after a long silence, one 50 ms after a request, one just before the next
    /// request is due. Guarantee: the first goes almost at once; under load requests are 200 ms
    /// apart; each waits a little for the lines of the same event.
    #[test]
    fn a_lone_record_waits_less_than_one_under_load() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(goes_at(at(0), None), at(20));
        assert_eq!(goes_at(at(5_000), Some(at(0))), at(5_020));
        assert_eq!(goes_at(at(50), Some(at(0))), at(200));
        assert_eq!(goes_at(at(190), Some(at(0))), at(210));
    }
}
