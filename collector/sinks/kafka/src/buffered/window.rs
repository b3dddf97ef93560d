//! Tracks requests from the disk in flight, and which can be acknowledged. Pure: time is passed in.
//!
//! A request that waits for its answer delays the acknowledgement of those behind it, but not their
//! sending: only the numbers of those that arrived are retained.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millrace_pipeline::publish::{PendingDelivery, PublishError};

/// The maximum number of requests in flight.
const WINDOW: usize = 128;
/// Their maximum bytes, except for one request of any length: 8 messages of the default length.
pub(super) const WINDOW_BYTES: usize = 8_000_000;
/// The maximum numbers of requests that arrived behind one that waits, of 8 bytes each; past it
/// nothing behind them is sent. A crash sends these again.
const MAX_ARRIVED: usize = 64 << 10;
/// A request without an answer for this long doesn't delay a request that failed.
const LONG_WAIT: Duration = Duration::from_secs(5);

/// The requests that were read since the queue was last rewound, and aren't acknowledged.
#[derive(Default)]
pub(super) struct AckWindow {
    /// By number. At most a window of them.
    in_flight: BTreeMap<u64, InFlight>,
    bytes: usize,
    /// The numbers that arrived, and follow one that didn't.
    arrived: BTreeSet<u64>,
    /// Greater than each number that was passed since the queue was last rewound.
    passed_below: u64,
}

struct InFlight {
    records: u64,
    bytes: usize,
    sent_at: Instant,
    /// `None` once it failed.
    delivery: Option<PendingDelivery>,
}

impl AckWindow {
    /// Returns whether another request may be read and sent.
    pub(super) fn has_capacity(&self) -> bool {
        let rereads = self.arrived.last().is_some_and(|last| *last >= self.passed_below);
        self.in_flight.len() < WINDOW
            && self.bytes < WINDOW_BYTES
            && (self.arrived.len() < MAX_ARRIVED || rereads)
    }

    /// Returns whether no answers are pending.
    pub(super) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Passes a request that arrived or is in flight, and must not be sent again. Returns false if
    /// it must.
    pub(super) fn skip_known(&mut self, number: u64) -> bool {
        let is_known = self.arrived.contains(&number) || self.in_flight.contains_key(&number);
        if is_known {
            self.passed_below = number + 1;
        }
        is_known
    }

    /// Adds a request that was sent.
    pub(super) fn push(
        &mut self,
        number: u64,
        records: u64,
        bytes: usize,
        delivery: PendingDelivery,
        sent_at: Instant,
    ) {
        self.bytes += bytes;
        self.passed_below = number + 1;
        let delivery = Some(delivery);
        self.in_flight.insert(number, InFlight { records, bytes, sent_at, delivery });
    }

    /// Adds a request that is safe without being sent.
    pub(super) fn push_arrived(&mut self, number: u64) {
        self.arrived.insert(number);
        self.passed_below = number + 1;
    }

    /// Polls the answers. Returns the numbers and records of requests that failed, and why.
    pub(super) fn poll(&mut self) -> Vec<(u64, u64, PublishError)> {
        let mut context = Context::from_waker(Waker::noop());
        let (arrived, bytes, mut failed) = (&mut self.arrived, &mut self.bytes, Vec::new());
        self.in_flight.retain(|number, request| {
            let Some(delivery) = &mut request.delivery else { return true };
            match Pin::new(delivery).poll(&mut context) {
                Poll::Pending => true,
                Poll::Ready(Ok(_)) => {
                    *bytes = bytes.saturating_sub(request.bytes);
                    arrived.insert(*number);
                    false
                }
                Poll::Ready(Err(refused)) => {
                    request.delivery = None;
                    failed.push((*number, request.records, refused));
                    true
                }
            }
        });
        failed
    }

    /// Returns the number up to which everything arrived, if that is more than before.
    pub(super) fn take_done(&mut self) -> Option<u64> {
        let front = self.in_flight.first_key_value().map_or(u64::MAX, |(number, _)| *number);
        let behind = self.arrived.split_off(&front.min(self.passed_below));
        std::mem::replace(&mut self.arrived, behind).last().copied()
    }

    /// Returns whether a request failed, which has to be read again before others are.
    pub(super) fn has_failed(&self) -> bool {
        self.in_flight.values().any(|request| request.delivery.is_none())
    }

    /// Returns whether failed requests should be read again without waiting for other answers.
    pub(super) fn can_restart(&self, now: Instant) -> bool {
        let mut waiting = self.in_flight.values().filter(|request| request.delivery.is_some());
        waiting.all(|request| now.saturating_duration_since(request.sent_at) >= LONG_WAIT)
    }

    /// Follows a rewind of the queue: failed requests are removed, and are read again.
    pub(super) fn rewind(&mut self) {
        self.in_flight.retain(|_, request| request.delivery.is_some());
        self.bytes = self.in_flight.values().map(|request| request.bytes).sum();
        self.passed_below = 0;
    }
}

#[cfg(test)]
mod tests;
