//! The gateway's dead letters: records that can't be stored, written unchanged to a topic.
//!
//! A dead letter is retried indefinitely, because its offset may only be committed when it is safe.
//! The number in flight is bounded; past it the caller retains the others. A dead letter that is
//! too long for its topic is finally sent without its bytes: its headers name their origin.

pub(crate) mod recent;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_config::{Compression, KafkaConnection, Topics};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::clock::now_unix_nanos;
use millrace_pipeline::dead_letter;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{Completion, DeadLetter, DeadLetterSink, DeliveryOutcome, QueueFull};
use millrace_wire::Signal;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};

use crate::dead_letters::recent::{RecentDeadLetters, StoredDeadLetter};
use crate::produce::failure::Class;
use crate::produce::producer::{
    Producer, ProducerError, Shipment, StoredPosition, Traits, code_of, create_producer,
};
use crate::topics::topic::topic_of;

/// The maximum dead letters of one signal in flight. Each signal has its own topic, so one whose
/// topic is missing uses no capacity of the others.
const MAX_DEAD_LETTERS: usize = 333;

/// The maximum bytes of one signal's dead letters in flight: two messages of the greatest length
/// that is read, 48 MiB for three signals.
const MAX_DEAD_LETTER_BYTES: usize = 16 * 1024 * 1024;

/// The length of the queue of retries. It is never full: a dead letter in flight is in it at most
/// once.
const RETRY_QUEUE_LENGTH: usize = MAX_DEAD_LETTERS * Signal::ALL.len() + 1;

/// The backoff between attempts of one dead letter.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), longest: Duration::from_secs(10) };

/// How often a topic may refuse a dead letter as too long before its bytes are omitted. The first
/// time it may have shared a batch with others.
const TOO_LARGE_TRIES: u32 = 2;

/// The longest dead letter that the client accepts, in bytes: its maximum. The broker decides
/// whether the topic accepts it.
const MAX_MESSAGE_BYTES: usize = 900_000_000;

/// Produces dead letters. Its threads end when it is dropped; dead letters then in flight are
/// abandoned.
pub struct KafkaDeadLetters {
    /// Sends dead letters again when they are due.
    thread: Option<JoinHandle<()>>,
    shared: Arc<DeadLettersInner>,
    producer: Producer<DeadLetterShipment>,
}

struct DeadLettersInner {
    topics: Topics,
    version: &'static str,
    drain: Drain,
    recent: Arc<RecentDeadLetters>,
    /// By signal.
    in_flight: [InFlight; Signal::ALL.len()],
    /// Queues retries for the thread; `None` ends it.
    retries: SyncSender<Option<Retry>>,
}

/// When a dead letter is retried, and the dead letter.
type Retry = Box<(Instant, DeadLetterShipment)>;

/// The dead letters of one signal that were accepted and aren't answered.
#[derive(Default)]
struct InFlight {
    dead_letters: AtomicUsize,
    bytes: AtomicUsize,
}

impl InFlight {
    /// Reserves capacity for a dead letter, if there is any. One of any length always fits.
    fn try_reserve(&self, bytes: usize) -> bool {
        let before_count = self.dead_letters.fetch_add(1, Ordering::AcqRel);
        let before = self.bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before_count == 0
            || (before_count < MAX_DEAD_LETTERS && before + bytes <= MAX_DEAD_LETTER_BYTES);
        if !fits {
            self.release_bytes(bytes);
        }
        fits
    }

    fn release_bytes(&self, bytes: usize) {
        self.dead_letters.fetch_sub(1, Ordering::AcqRel);
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// A dead letter in flight.
struct DeadLetterShipment {
    dead_letter: Arc<DeadLetter>,
    completion: Option<Completion>,
    backoff: Backoff,
    /// How often its topic refused it as too long.
    too_large: u32,
    /// Its part of the bytes in flight.
    bytes: usize,
    shared: Arc<DeadLettersInner>,
}

impl KafkaDeadLetters {
    /// Creates the producer. `topics` has a dead-letter topic for each signal that is read,
    /// `version` is the collector's, for a header, and `recent` gets each one that is stored.
    ///
    /// # Errors
    /// The producer can't be set up, or no thread be started.
    pub fn start(
        connection: &KafkaConnection,
        topics: Topics,
        version: &'static str,
        drain: &Drain,
        recent: Arc<RecentDeadLetters>,
    ) -> Result<Self, ProducerError> {
        let traits = Traits {
            compression: Compression::Zstd,
            max_message_bytes: MAX_MESSAGE_BYTES,
            // The client library's default.
            messages_per_batch: 10_000,
            delivery_timeout: Some(Duration::from_secs(60)),
            response_timeout: Duration::from_secs(60),
        };
        let producer: Producer<DeadLetterShipment> = create_producer(connection, &traits)?;
        let (retries, scheduled) = sync_channel(RETRY_QUEUE_LENGTH);
        let shared = Arc::new(DeadLettersInner {
            topics,
            version,
            drain: drain.clone(),
            recent,
            in_flight: Default::default(),
            retries,
        });
        let again = producer.clone();
        let again = move || send_retries(&scheduled, &again);
        let thread = thread::Builder::new().name("dead-letters".into()).spawn(again)?;
        Ok(Self { thread: Some(thread), shared, producer })
    }

    /// Waits until all dead letters in flight are safe, at most for `time`; the others are
    /// abandoned. Returns whether all are safe.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        let none = |of: &InFlight| of.dead_letters.load(Ordering::Acquire) == 0;
        self.producer.flush(time).is_ok() && self.shared.in_flight.iter().all(none)
    }
}

impl DeadLetterSink for KafkaDeadLetters {
    fn submit(
        &self,
        dead_letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<QueueFull<DeadLetter>>> {
        let bytes = dead_letter.memory_bytes();
        if !self.shared.in_flight[dead_letter.signal.index()].try_reserve(bytes) {
            return Err(Box::new(QueueFull { work: dead_letter, completion }));
        }
        let seed = dead_letter.offset as u64 ^ (u64::from(dead_letter.partition as u32) << 48);
        let shipment = DeadLetterShipment {
            dead_letter: Arc::new(dead_letter),
            completion: Some(completion),
            backoff: Backoff::new(BACKOFF, seed),
            too_large: 0,
            bytes,
            shared: Arc::clone(&self.shared),
        };
        send_dead_letter(&self.producer, shipment);
        Ok(())
    }
}

impl Drop for KafkaDeadLetters {
    fn drop(&mut self) {
        let _ = self.shared.retries.send(None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the thread that sends dead letters again when they are due. Those that wait at its end are
/// abandoned, as they are dropped.
fn send_retries(scheduled: &Receiver<Option<Retry>>, producer: &Producer<DeadLetterShipment>) {
    /// The longest sleep while none waits.
    const LONGEST_SLEEP: Duration = Duration::from_secs(60);
    let mut waiting: Vec<Retry> = Vec::new();
    loop {
        let now = Instant::now();
        for retry in waiting.extract_if(.., |retry| retry.0 <= now) {
            send_dead_letter(producer, retry.1);
        }
        let next = waiting.iter().map(|retry| retry.0.saturating_duration_since(now)).min();
        match scheduled.recv_timeout(next.unwrap_or(LONGEST_SLEEP)) {
            Ok(Some(retry)) => waiting.push(retry),
            Err(RecvTimeoutError::Timeout) => {}
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl DeadLetterShipment {
    /// Shortens a dead letter that the topic refuses: first without its bytes; if key and headers
    /// are still too long, without those as well.
    fn shorten_payload(&mut self) {
        self.too_large += 1;
        if self.too_large < TOO_LARGE_TRIES {
            return;
        }
        let dead_letter = Arc::make_mut(&mut self.dead_letter);
        if dead_letter.payload.is_empty() {
            dead_letter.key = None;
            dead_letter.headers.clear();
            return;
        }
        let bytes = std::mem::take(&mut dead_letter.payload).len();
        let left =
            format!("; its {bytes} bytes are too long for this topic and remain in the source");
        dead_letter.rejection.detail.push_str(&left);
    }

    /// Adds it to the newest stored ones.
    fn record_stored(&self, position: StoredPosition) {
        let dead_letter = &*self.dead_letter;
        let Some(topic) = topic_of(&self.shared.topics, dead_letter.signal) else { return };
        self.shared.recent.record_stored(StoredDeadLetter {
            signal: dead_letter.signal,
            topic: topic.clone(),
            partition: position.partition,
            offset: position.offset,
            source_topic: Arc::clone(&dead_letter.topic),
            source_partition: dead_letter.partition,
            source_offset: dead_letter.offset,
            reason: dead_letter.rejection.reason,
            payload_bytes: dead_letter.payload.len(),
            stored_at_seconds: now_unix_nanos() / 1_000_000_000,
        });
    }

    /// Queues another attempt, or abandons it at the drain's deadline.
    fn schedule_retry(mut self) {
        let shared = Arc::clone(&self.shared);
        let wait = self.backoff.next_wait();
        if shared.drain.is_begun() && shared.drain.remaining() < wait {
            return;
        }
        // Without the thread nobody would retry it, and it is abandoned.
        let _ = shared.retries.try_send(Some(Box::new((Instant::now() + wait, self))));
    }
}

impl Drop for DeadLetterShipment {
    /// A dead letter that is dropped with its completion is abandoned, which the completion reports
    /// itself.
    fn drop(&mut self) {
        self.shared.in_flight[self.dead_letter.signal.index()].release_bytes(self.bytes);
    }
}

impl Shipment for DeadLetterShipment {
    fn handle_result(mut self, result: Result<StoredPosition, (RDKafkaErrorCode, &[u8])>) {
        match result {
            Ok(position) => {
                self.record_stored(position);
                if let Some(completion) = self.completion.take() {
                    completion.finish_with(DeliveryOutcome::Stored);
                }
            }
            Err((code, _)) => {
                let class = Class::from_code(code);
                let DeadLetter { signal, topic, partition, offset, .. } = &*self.dead_letter;
                tracing::warn!(
                    %signal, %topic, partition, offset, %code, advice = class.advice(),
                    "Kafka did not accept a dead letter; retrying"
                );
                if class == Class::TooLarge {
                    self.shorten_payload();
                }
                self.schedule_retry();
            }
        }
    }
}

/// Passes a dead letter to the producer, which copies it.
fn send_dead_letter(producer: &Producer<DeadLetterShipment>, shipment: DeadLetterShipment) {
    let Some(topic) = topic_of(&shipment.shared.topics, shipment.dead_letter.signal).cloned()
    else {
        // Only signals that are read can have bad records, and each of those has a topic.
        tracing::error!(signal = %shipment.dead_letter.signal,
            "a dead letter has no dead-letter topic; retrying");
        return shipment.schedule_retry();
    };
    let content = Arc::clone(&shipment.dead_letter);
    let headers = build_headers(&content, shipment.shared.version);
    let mut record =
        BaseRecord::<[u8], [u8], _>::with_opaque_to(topic.as_str(), Box::new(shipment))
            .payload(&content.payload)
            .headers(headers);
    if let Some(key) = &content.key {
        record = record.key(key.as_slice());
    }
    if let Some(millis) = content.timestamp_millis {
        record = record.timestamp(millis);
    }
    if let Err((error, record)) = producer.send(record) {
        record.delivery_opaque.handle_result(Err((code_of(&error), &[])));
    }
}

/// Returns the record's own headers, then ours.
fn build_headers(dead_letter: &DeadLetter, version: &str) -> OwnedHeaders {
    let own = dead_letter.headers.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
    let ours = dead_letter::encode_headers(dead_letter, version);
    let ours = ours.iter().map(|(key, value)| (*key, Some(value.as_bytes())));
    let room = dead_letter.headers.len() + dead_letter::NAMES.len();
    own.chain(ours).fold(OwnedHeaders::new_with_capacity(room), |headers, (key, value)| {
        headers.insert(Header { key, value })
    })
}
