//! Manages requests: one that is filled, and those that are sent and not confirmed.
//!
//! Requests are confirmed in the order of sending. When one fails, it and all requests sent after
//! it are sent again in that order, so the last copy of each line is in order. Nothing is dropped:
//! while there is no capacity for another request, nothing is read.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millrace_lines::LogsRequest as Lines;
use millrace_pipeline::backoff::Backoff;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{PendingDelivery, PublishError};
use millrace_pipeline::random_seed::random_seed;
use millrace_tail::{FileId, Position, Tail, Ticket};
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{self, RequestOutline};
use millrace_wire::{Signal, WireError};

use millrace_pipeline::delivery_path::{DeliveryPath, SEND_BACKOFF};

/// The maximum bytes of a request: with a last record of up to 40,000 it is under the 1,000,000 of
/// a Kafka exporter's `maxMessageBytes`, so it is sent as one message; a longer one is split in
/// two, which takes a third of this thread's time.
pub(super) const REQUEST_BYTES: usize = 960_000;

/// The time between two requests that aren't full: 5 a second cost little.
const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// How long a record waits for others if no request was just sent: a program writes the lines of
/// one event in less.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// The maximum requests that are sent and not confirmed: 8 of 1 MB in a broker's usual 10 ms are
/// 800 MB/s, and a kill repeats at most 8 MB and the request that is filled.
const FLIGHTS_MAX: usize = 8;

struct InFlightRequest {
    lines: Lines,
    checked: RequestOutline,
    tickets: Vec<Ticket>,
    stage: RequestStage,
    /// Covers the copy that is retained until it is confirmed.
    _reservation: Reservation,
}

enum RequestStage {
    /// To be sent, or sent again, as are all requests after it.
    Unsent,
    Sent(PendingDelivery),
    Confirmed,
}

struct FillingRequest {
    lines: Lines,
    reservation: Reservation,
    since: Option<Instant>,
    /// The files with records in the request, and the positions from which each is read on.
    files: BTreeMap<FileId, Position>,
}

pub(super) struct Outbox {
    delivery: DeliveryPath,
    /// Woken by deliveries' results.
    waker: Waker,
    filling: Option<FillingRequest>,
    in_flight: VecDeque<InFlightRequest>,
    spare: Vec<Lines>,
    /// When the last request was closed and queued.
    closed_at: Option<Instant>,
    backoff: Backoff,
    not_before: Option<Instant>,
    slack_bytes: usize,
}

impl Outbox {
    /// `slack_bytes` is how far the last records may exceed [`REQUEST_BYTES`].
    pub(super) fn new(delivery: DeliveryPath, waker: Waker, slack_bytes: usize) -> Self {
        Self {
            delivery,
            waker,
            filling: None,
            in_flight: VecDeque::new(),
            spare: Vec::new(),
            closed_at: None,
            backoff: Backoff::new(SEND_BACKOFF, random_seed()),
            not_before: None,
            slack_bytes,
        }
    }

    /// The request to fill; its bytes are reserved first. None if there is no capacity.
    pub(super) fn filling_lines(&mut self) -> Option<&mut Lines> {
        if self.filling.is_none() {
            if self.in_flight.len() >= FLIGHTS_MAX {
                return None;
            }
            let bytes = REQUEST_BYTES + self.slack_bytes;
            let reservation = self.delivery.budget.try_reserve(bytes as u64)?;
            let lines = self.spare.pop().unwrap_or_else(|| Lines::with_limit(REQUEST_BYTES));
            self.filling =
                Some(FillingRequest { lines, reservation, since: None, files: BTreeMap::new() });
        }
        self.filling.as_mut().map(|filling| &mut filling.lines)
    }

    /// Records that the request being filled has records of a file up to a position.
    pub(super) fn record_written(&mut self, file: FileId, position: Position, now: Instant) {
        if let Some(filling) = &mut self.filling {
            filling.files.insert(file, position);
            filling.since.get_or_insert(now);
        }
    }

    /// Whether the request being filled should be sent.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.filling.as_ref().is_some_and(|filling| filling.lines.is_full())
            || self.filled_until().is_some_and(|at| now >= at)
    }

    /// When the request being filled is sent even if it isn't full.
    fn filled_until(&self) -> Option<Instant> {
        Some(send_time(self.filling.as_ref()?.since?, self.closed_at))
    }

    /// When the outbox next has work to do without any event.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let waits = self.not_before.filter(|_| self.has_unsent());
        [self.filled_until(), waits].into_iter().flatten().min()
    }

    fn has_unsent(&self) -> bool {
        self.in_flight.iter().any(|flight| matches!(flight.stage, RequestStage::Unsent))
    }

    /// Whether any records aren't confirmed.
    pub(super) fn is_waiting(&self) -> bool {
        !self.in_flight.is_empty() || self.filled_until().is_some()
    }

    /// Whether everything that was read is confirmed.
    pub(super) fn is_empty(&self) -> bool {
        self.filling.is_none() && self.in_flight.is_empty()
    }

    /// Closes the request being filled and queues it.
    pub(super) fn close_filling(&mut self, tail: &mut Tail, now: Instant) {
        let Some(FillingRequest { mut lines, mut reservation, files, .. }) = self.filling.take()
        else {
            return;
        };
        self.closed_at = Some(now);
        let tickets =
            files.into_iter().filter_map(|(file, position)| tail.record_sent(file, position));
        let tickets: Vec<Ticket> = tickets.collect();
        let checked = if lines.is_empty() { None } else { check_request(&lines) };
        let Some(checked) = checked else {
            // The lines that were read made no records: there is nothing to send.
            tickets.into_iter().for_each(|ticket| tail.acknowledge(ticket));
            lines.clear();
            self.spare.push(lines);
            return;
        };
        // This shrinks the reservation, except for a record longer than expected, which is then
        // only partly covered.
        let _ = reservation.try_resize(lines.bytes().len() as u64);
        let stage = RequestStage::Unsent;
        self.in_flight.push_back(InFlightRequest {
            lines,
            checked,
            tickets,
            stage,
            _reservation: reservation,
        });
    }

    /// Sends unsent requests and applies confirmations. Returns whether anything changed.
    pub(super) fn send_and_confirm(&mut self, tail: &mut Tail, now: Instant) -> bool {
        let mut changed = self.poll_deliveries(tail, now);
        if self.not_before.is_some_and(|at| now < at) {
            return changed;
        }
        self.not_before = None;
        let is_unsent =
            |flight: &&mut InFlightRequest| matches!(flight.stage, RequestStage::Unsent);
        let mut refused = None;
        for flight in self.in_flight.iter_mut().filter(is_unsent) {
            match self.delivery.send_once(Signal::Logs, flight.lines.bytes(), &flight.checked) {
                Ok(delivery) => {
                    flight.stage = RequestStage::Sent(delivery);
                    changed = true;
                }
                Err(error) => {
                    refused = Some(error);
                    break;
                }
            }
        }
        if let Some(error) = refused {
            self.back_off(&error, now);
        }
        changed
    }

    /// Applies confirmations in order. A failed request and all requests sent after it are sent
    /// again, so that their order stays, even while an earlier one waits for its result: nothing
    /// may be sent after it until then. Returns whether anything was confirmed.
    fn poll_deliveries(&mut self, tail: &mut Tail, now: Instant) -> bool {
        let waker = self.waker.clone();
        let mut context = Context::from_waker(&waker);
        let mut failed: Option<PublishError> = None;
        for flight in &mut self.in_flight {
            if failed.is_some() {
                flight.stage = RequestStage::Unsent;
                continue;
            }
            let RequestStage::Sent(delivery) = &mut flight.stage else { continue };
            match Pin::new(delivery).poll(&mut context) {
                Poll::Pending => {}
                Poll::Ready(Ok(_)) => flight.stage = RequestStage::Confirmed,
                Poll::Ready(Err(refused)) => {
                    flight.stage = RequestStage::Unsent;
                    failed = Some(refused);
                }
            }
        }
        let mut changed = false;
        let is_confirmed =
            |flight: &InFlightRequest| matches!(flight.stage, RequestStage::Confirmed);
        while self.in_flight.front().is_some_and(is_confirmed)
            && let Some(mut flight) = self.in_flight.pop_front()
        {
            changed = true;
            self.backoff.reset();
            flight.tickets.drain(..).for_each(|ticket| tail.acknowledge(ticket));
            flight.lines.clear();
            self.spare.push(flight.lines);
            self.spare.truncate(2);
        }
        if let Some(refused) = failed {
            self.back_off(&refused, now);
        }
        changed
    }

    fn back_off(&mut self, refused: &PublishError, now: Instant) {
        if self.backoff.tries() == 0 {
            tracing::warn!(%refused,
                "lines of files are not accepted: reading pauses until they are");
        }
        self.not_before = Some(now + self.backoff.next_wait());
    }
}

/// Checks a request. If it is malformed, logs an error and returns None: that is a bug in this
/// program, and sending it again would not help.
fn check_request(lines: &Lines) -> Option<RequestOutline> {
    let checked: Result<RequestOutline, WireError> =
        otlp::check_request(Signal::Logs, lines.bytes(), &WireLimits::default());
    checked
        .inspect_err(|error| {
            tracing::error!(%error, records = lines.record_count(),
                "a request built from lines is malformed");
        })
        .ok()
}

/// When to send a request whose first record came at `since`, given when the last one was sent.
fn send_time(since: Instant, last: Option<Instant>) -> Instant {
    let next = last.map_or(since, |last| last + REQUEST_INTERVAL);
    next.max(since + FIRST_WAIT)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::send_time;

    /// Scenario: a record after a long silence, one 50 ms after a request, one just before the next
    /// request is due. Guarantee: the first is sent almost at once; under load requests are 200 ms
    /// apart; each waits briefly for the lines of the same event.
    #[test]
    fn a_lone_record_waits_less_than_one_under_load() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        assert_eq!(send_time(at(0), None), at(20));
        assert_eq!(send_time(at(5_000), Some(at(0))), at(5_020));
        assert_eq!(send_time(at(50), Some(at(0))), at(200));
        assert_eq!(send_time(at(190), Some(at(0))), at(210));
    }
}
