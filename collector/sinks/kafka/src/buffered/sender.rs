//! Sends a topic's records from the disk to Kafka: a window of requests in order, acknowledged
//! from its front.
//!
//! It never blocks. When a request fails, the sender remembers those that arrived or wait, so that
//! they are not sent again when reading restarts at the front. A failed request is sent in a
//! separate message; one that fails repeatedly while its topic accepts others is set aside, so that
//! it delays no other.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_buffer::{AppendError, Disk, Queue, QueuedRecord, is_unreadable};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::publish::{PublishError, PublishRequest};
use millrace_pipeline::random_seed::random_seed;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::otlp::RequestOutline;

use super::window::{AckWindow, WINDOW_BYTES};
use crate::publisher::KafkaPublisher;
use crate::request::pieces::outline_of;
use crate::topics::destination::TopicKey;

/// The maximum bytes that one step reads, except for one request of any length: after a failure
/// most of what is read is not sent again.
const STEP_BYTES: usize = WINDOW_BYTES;
/// The failures of one request while its topic accepts others, after which it is set aside.
const MAX_FAILURES: u32 = 5;
/// The failed reads in a row after which a request that the disk can't read is skipped: some 30 s.
const MAX_READ_FAILURES: u32 = 8;
/// The backoff after a failure.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), longest: Duration::from_secs(10) };

/// Sends a topic's records from the disk.
pub(super) struct Sender {
    topic: TopicKey,
    kafka: Arc<KafkaPublisher>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    window: AckWindow,
    /// The failures of requests, by number. At most a window of them.
    failures: BTreeMap<u64, u32>,
    /// A request that was read, and not yet accepted by the publisher.
    held: Option<QueuedRecord>,
    /// Failed reads in a row.
    read_failures: u32,
    backoff: Backoff,
    not_before: Instant,
}

impl Sender {
    pub(super) fn new(
        topic: TopicKey,
        kafka: Arc<KafkaPublisher>,
        budget: Budget,
        telemetry: Arc<Telemetry>,
    ) -> Self {
        Self {
            topic,
            kafka,
            budget,
            telemetry,
            window: AckWindow::default(),
            failures: BTreeMap::new(),
            held: None,
            read_failures: 0,
            backoff: Backoff::new(BACKOFF, random_seed()),
            not_before: Instant::now(),
        }
    }

    /// Returns whether answers are pending, or more can be sent at once.
    pub(super) fn is_busy(&self) -> bool {
        !self.window.is_empty()
    }

    /// Polls answers, acknowledges, and sends more if `more` is true; requests that are never
    /// accepted go to `aside`.
    ///
    /// # Errors
    /// The disk fails; nothing is lost, and another step may succeed.
    pub(super) fn run_step<D: Disk>(
        &mut self,
        queue: &mut Queue<D>,
        aside: &mut Queue<D>,
        more: bool,
    ) -> io::Result<()> {
        self.collect_results(queue)?;
        let now = Instant::now();
        let failed = self.window.has_failed();
        if failed && self.window.can_restart(now) {
            self.restart_reading(queue);
        } else if !failed && more && self.not_before <= now {
            self.send_next(queue, aside)?;
        }
        Ok(())
    }

    /// Polls answers and acknowledges arrived requests, from the front on.
    ///
    /// # Errors
    /// The disk fails.
    pub(super) fn collect_results<D: Disk>(&mut self, queue: &mut Queue<D>) -> io::Result<()> {
        let is_healthy = self.kafka.is_healthy(self.topic);
        for (number, records, refused) in self.window.poll() {
            tracing::warn!(%refused,
                "Kafka did not accept a request from the buffer on disk; retrying");
            // The publisher has counted it as refused; it is still buffered, and is sent again.
            self.telemetry.records_in(self.topic.signal, records);
            self.telemetry.add_buffered(self.topic.signal, records as i64);
            // If the topic accepts nothing, the request isn't at fault.
            *self.failures.entry(number).or_default() += u32::from(is_healthy);
        }
        let Some(number) = self.window.take_done() else { return Ok(()) };
        self.backoff.reset();
        self.failures = self.failures.split_off(&(number + 1));
        queue.ack_through(number)
    }

    /// Restarts after a failure: the window is read again from its front, later. Requests that wait
    /// still do.
    fn restart_reading<D: Disk>(&mut self, queue: &mut Queue<D>) {
        self.held = None;
        queue.rewind();
        self.window.rewind();
        self.not_before = Instant::now() + self.backoff.next_wait();
    }

    fn send_next<D: Disk>(&mut self, queue: &mut Queue<D>, aside: &mut Queue<D>) -> io::Result<()> {
        let mut read_bytes = 0;
        while self.window.has_capacity() && read_bytes < STEP_BYTES {
            let entry = match self.held.take() {
                Some(entry) => entry,
                None => match self.read_next(queue)? {
                    Some(entry) => entry,
                    None => return Ok(()),
                },
            };
            read_bytes += entry.payload.len();
            if self.window.skip_known(entry.number) {
                continue;
            }
            let failures = self.failures.get(&entry.number).copied().unwrap_or_default();
            // It is longer than any message since the settings changed: the publisher would drop
            // records.
            let is_too_long = entry.payload.len() > self.kafka.max_message_bytes();
            let is_unsendable = failures >= MAX_FAILURES || is_too_long;
            if is_unsendable && self.set_aside(&entry, aside) {
                self.window.push_arrived(entry.number);
            } else if is_too_long {
                self.delay_entry(entry);
                return Ok(());
            } else if !self.publish_entry(entry, failures) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the next request. One that the disk can't read is retried, then skipped, so that it
    /// doesn't stop its topic.
    fn read_next<D: Disk>(&mut self, queue: &mut Queue<D>) -> io::Result<Option<QueuedRecord>> {
        let error = match queue.read() {
            Ok(entry) => {
                self.read_failures = 0;
                return Ok(entry);
            }
            Err(error) => error,
        };
        self.not_before = Instant::now() + self.backoff.next_wait();
        self.read_failures += 1;
        if self.read_failures < MAX_READ_FAILURES || !is_unreadable(&error) {
            return Err(error);
        }
        skip_unreadable(queue, self.topic.signal.as_str(), &error)?;
        self.read_failures = 0;
        queue.read()
    }

    /// Holds a request and waits before its next attempt.
    fn delay_entry(&mut self, entry: QueuedRecord) {
        self.held = Some(entry);
        self.not_before = Instant::now() + self.backoff.next_wait();
    }

    /// Holds a request that is never accepted: one that never fits in the budget, whose limit was
    /// higher when the request was written, or one that is malformed. The next attempt sets it
    /// aside.
    fn give_up(&mut self, entry: QueuedRecord) {
        self.failures.insert(entry.number, MAX_FAILURES);
        self.delay_entry(entry);
    }

    /// Sends a request, or holds it until it can be sent.
    fn publish_entry(&mut self, entry: QueuedRecord, failures: u32) -> bool {
        let bytes = entry.payload.len() as u64;
        let Some(reservation) = self.budget.try_reserve(bytes) else {
            match bytes > self.budget.limit_bytes() {
                true => self.give_up(entry),
                false => self.held = Some(entry),
            }
            return false;
        };
        let (signal, records) = (self.topic.signal, u64::from(entry.count));
        // A request that failed is sent alone, so that it takes no other with it.
        let checked = match failures {
            0 => outline_of(signal, &entry.payload, records),
            _ => RequestOutline::unjoinable(records),
        };
        let cancellation = Cancellation::default();
        let bytes = &entry.payload;
        let request =
            PublishRequest { signal, bytes, checked, reservation, cancellation, client: None };
        match self.kafka.publish_from_disk(self.topic.destination, request) {
            Ok(delivery) => {
                // The publisher counts it as buffered from here on.
                self.telemetry.add_buffered(signal, -(records as i64));
                let (number, bytes) = (entry.number, entry.payload.len());
                self.window.push(number, records, bytes, delivery, Instant::now());
                true
            }
            Err(refused) => {
                tracing::debug!(%signal, %refused, "the buffer on disk pauses");
                match refused {
                    PublishError::TooLarge | PublishError::Malformed(_) => self.give_up(entry),
                    _ => self.delay_entry(entry),
                }
                false
            }
        }
    }

    /// Moves a request to those that are set aside. Returns false without free space: it is
    /// retried.
    fn set_aside<D: Disk>(&mut self, entry: &QueuedRecord, aside: &mut Queue<D>) -> bool {
        let QueuedRecord { number, at_millis, count, payload, .. } = entry;
        let (signal, bytes) = (self.topic.signal, payload.len());
        let appended = aside.append(payload, *at_millis, *count, signal.index() as u8);
        if let Err(error) = appended.and_then(|_| aside.sync().map_err(AppendError::Disk)) {
            tracing::warn!(%signal, %error, "cannot set aside a request that Kafka refuses");
            return false;
        }
        tracing::error!(
            %signal, number, records = count, bytes,
            "a request in the buffer on disk is longer than maxMessageBytes, needs more memory than \
             the collector has, is malformed, or Kafka refused it repeatedly while it accepted \
             others; it is set aside on disk, and sent again at the next start"
        );
        self.failures.remove(number);
        true
    }
}

/// Gives up on what the disk can't read next of a queue, and reports it.
pub(super) fn skip_unreadable<D: Disk>(
    queue: &mut Queue<D>,
    name: &str,
    error: &io::Error,
) -> io::Result<()> {
    let file = queue.skip_unreadable()?;
    tracing::error!(
        queue = name, file, %error,
        "a file of the buffer on disk can't be read: the record there, or the rest of the file, \
         is skipped; the file is renamed to end in .unreadable once its other records are sent"
    );
    Ok(())
}

#[cfg(test)]
mod tests;
