//! Sends the disk's records to Kafka: a window of requests in order, acknowledged from its front.
//!
//! Never blocks. When one of them fails, those behind it that arrived are remembered, so that they
//! are not sent again when reading restarts at the front.

use std::collections::{BTreeSet, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use millrace_buffer::{Disk, Entry, Queue};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::publish::{Delivery, Publish, Request};
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;

use crate::kafka::publisher::{KafkaPublisher, outline_of};

/// Requests under way at once.
const WINDOW: usize = 128;
/// Their bytes, at most, but for one of any length: 8 messages of the default length.
const WINDOW_BYTES: usize = 8_000_000;
/// Waits after a failure.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), longest: Duration::from_secs(10) };

/// Sends what is on disk.
pub(super) struct Sender {
    kafka: Arc<KafkaPublisher>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    window: VecDeque<Sent>,
    bytes: usize,
    /// Numbers behind the front that arrived before a failure. At most a window of them.
    arrived: BTreeSet<u64>,
    /// Read, and not yet taken by the publisher.
    held: Option<Entry>,
    backoff: Backoff,
    not_before: Instant,
}

struct Sent {
    number: u64,
    signal: Signal,
    records: u64,
    bytes: usize,
    state: State,
}

enum State {
    Waiting(Delivery),
    Arrived,
    Failed,
}

impl Sender {
    pub(super) fn new(
        kafka: Arc<KafkaPublisher>,
        budget: Budget,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self {
            kafka,
            budget,
            telemetry,
            window: VecDeque::new(),
            bytes: 0,
            arrived: BTreeSet::new(),
            held: None,
            backoff: Backoff::new(BACKOFF, 0),
            not_before: Instant::now(),
        }
    }

    /// Whether answers are awaited, or more can be sent at once.
    pub(super) fn is_busy(&self) -> bool {
        !self.window.is_empty()
    }

    /// Takes answers, acknowledges, and sends more if `more` may be. True when something was
    /// acknowledged.
    ///
    /// # Errors
    /// When the disk fails; nothing is lost, and another step may succeed.
    pub(super) fn step<D: Disk>(&mut self, queue: &mut Queue<D>, more: bool) -> io::Result<bool> {
        let acknowledged = self.settle(queue)?;
        let failed = self.window.iter().any(|sent| matches!(sent.state, State::Failed));
        let waits = self.window.iter().any(|sent| matches!(sent.state, State::Waiting(_)));
        if failed && !waits {
            self.begin_anew(queue);
        } else if !failed && more && self.not_before <= Instant::now() && self.kafka.is_reachable()
        {
            self.send(queue)?;
        }
        Ok(acknowledged)
    }

    /// Takes answers and acknowledges what arrived, from the front on.
    ///
    /// # Errors
    /// When the disk fails.
    pub(super) fn settle<D: Disk>(&mut self, queue: &mut Queue<D>) -> io::Result<bool> {
        let mut context = Context::from_waker(Waker::noop());
        for sent in &mut self.window {
            let State::Waiting(delivery) = &mut sent.state else { continue };
            match Pin::new(delivery).poll(&mut context) {
                Poll::Pending => {}
                Poll::Ready(Ok(_)) => sent.state = State::Arrived,
                Poll::Ready(Err(refused)) => {
                    tracing::warn!(%refused, "kafka did not take a request from the buffer");
                    // The publisher has counted it as refused; it is held here still, and comes
                    // again.
                    self.telemetry.records_in(sent.signal, sent.records);
                    self.telemetry.buffered(sent.signal, sent.records as i64);
                    sent.state = State::Failed;
                }
            }
        }
        let mut done = None;
        while let Some(sent) = self.window.front()
            && matches!(sent.state, State::Arrived)
        {
            self.bytes = self.bytes.saturating_sub(sent.bytes);
            done = Some(sent.number);
            self.window.pop_front();
        }
        let Some(number) = done else { return Ok(false) };
        self.backoff = Backoff::new(BACKOFF, number);
        queue.ack(number)?;
        Ok(true)
    }

    /// After a failure: the window is read again from its front, later.
    fn begin_anew<D: Disk>(&mut self, queue: &mut Queue<D>) {
        let window = std::mem::take(&mut self.window);
        let arrived = window.into_iter().filter(|sent| matches!(sent.state, State::Arrived));
        self.arrived.extend(arrived.map(|sent| sent.number));
        self.bytes = 0;
        self.held = None;
        queue.rewind();
        self.not_before = Instant::now() + self.backoff.next_wait();
    }

    fn send<D: Disk>(&mut self, queue: &mut Queue<D>) -> io::Result<()> {
        while self.window.len() < WINDOW && self.bytes < WINDOW_BYTES {
            let entry = match self.held.take() {
                Some(entry) => entry,
                None => match queue.read()? {
                    Some(entry) => entry,
                    None => return Ok(()),
                },
            };
            let Some(signal) = Signal::ALL.get(usize::from(entry.tag)).copied() else {
                tracing::error!(number = entry.number, "a request of no known signal is left out");
                self.push(&entry, Signal::Traces, State::Arrived);
                continue;
            };
            if self.arrived.remove(&entry.number) {
                self.push(&entry, signal, State::Arrived);
                continue;
            }
            let Some(reservation) = self.budget.try_reserve(entry.payload.len() as u64) else {
                self.held = Some(entry);
                return Ok(());
            };
            let records = u64::from(entry.count);
            let checked = outline_of(signal, &entry.payload, records);
            let request = Request { signal, bytes: &entry.payload, checked, reservation };
            match self.kafka.publish(request) {
                Ok(delivery) => {
                    // The publisher counts it as held from here on.
                    self.telemetry.buffered(signal, -(records as i64));
                    self.push(&entry, signal, State::Waiting(delivery));
                }
                Err(refused) => {
                    tracing::debug!(%refused, "the buffer waits");
                    self.held = Some(entry);
                    self.not_before = Instant::now() + self.backoff.next_wait();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: &Entry, signal: Signal, state: State) {
        let (number, records, bytes) = (entry.number, u64::from(entry.count), entry.payload.len());
        self.bytes += bytes;
        self.window.push_back(Sent { number, signal, records, bytes, state });
    }
}
