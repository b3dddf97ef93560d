//! The gateway's dead letters: records that can't be stored, kept in a topic unchanged.
//!
//! A dead letter is retried indefinitely, because its offset may only be committed when it is safe.
//! The number in flight is bounded; past it the caller keeps the rest. A dead letter that is too
//! long for its topic is finally sent without its bytes: its headers say where they are.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_config::{Compression, KafkaConnection, Topics};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::dead_letter;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{Completion, DeadLetter, DeadLetters, Outcome, Returned};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};

use super::failure::Class;
use super::producer::{Producer, ProducerError, Shipment, Traits, code_of, create};
use super::publisher::topic_of;

/// Letters on their way at once. Each is one message of at most a few megabytes, and a gateway that
/// meets more bad messages than this at once is held back by its worst partition only.
const MAX_LETTERS: usize = 1000;

/// Bytes of letters on their way at once: one message of the greatest length that is read, 64 MiB.
const MAX_LETTER_BYTES: usize = 64 * 1024 * 1024;

/// Waits between attempts for one letter.
const BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), longest: Duration::from_secs(10) };

/// Times that a topic may say a letter is too long before its bytes are left out. The first time it
/// may have shared a batch with others.
const TOO_LARGE_TRIES: u32 = 2;

/// The longest letter the client takes, in bytes: its maximum. Whether the topic takes it is for
/// the broker to say.
const MAX_MESSAGE_BYTES: usize = 900_000_000;

/// Produces dead letters. Everything it started ends when it is dropped; letters then on their way
/// are abandoned.
pub struct KafkaDeadLetters {
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
    producer: Producer<Letter>,
}

struct Shared {
    topics: Topics,
    version: &'static str,
    drain: Drain,
    open: AtomicUsize,
    open_bytes: AtomicUsize,
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// Letters to be tried again; at most `MAX_LETTERS`, since only open letters wait.
    letters: VecDeque<(Instant, Letter)>,
    stop: bool,
}

/// A letter on its way.
struct Letter {
    letter: Arc<DeadLetter>,
    completion: Option<Completion>,
    backoff: Backoff,
    /// Times that its topic said it is too long.
    too_large: u32,
    /// Its part of the bytes on their way.
    bytes: usize,
    shared: Arc<Shared>,
}

impl KafkaDeadLetters {
    /// Makes the producer. `topics` has a dead-letter topic for each signal that is read, and
    /// `version` is the collector's, for a header.
    ///
    /// # Errors
    /// When the producer cannot be set up or no thread be started.
    pub fn start(
        connection: &KafkaConnection,
        topics: Topics,
        version: &'static str,
        drain: &Drain,
    ) -> Result<Self, ProducerError> {
        let traits = Traits {
            compression: Compression::Zstd,
            max_message_bytes: MAX_MESSAGE_BYTES,
            // The client library's default.
            messages_per_batch: 10_000,
            delivery_timeout: Some(Duration::from_secs(60)),
            answer_timeout: Duration::from_secs(60),
        };
        let producer: Producer<Letter> = create(connection, &traits)?;
        let shared = Arc::new(Shared {
            topics,
            version,
            drain: drain.clone(),
            open: AtomicUsize::new(0),
            open_bytes: AtomicUsize::new(0),
            waiting: Mutex::default(),
            wake: Condvar::new(),
        });
        let thread = {
            let (shared, producer) = (Arc::clone(&shared), producer.clone());
            let again = move || shared.try_again(&producer);
            thread::Builder::new().name("dead-letters".into()).spawn(again)?
        };
        Ok(Self { thread: Some(thread), shared, producer })
    }

    /// Waits until all letters on their way are safe, at most for `time`; the rest are abandoned.
    /// False when there was a rest.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        self.producer.flush(time).is_ok() && self.shared.open.load(Ordering::Acquire) == 0
    }
}

impl DeadLetters for KafkaDeadLetters {
    fn submit(
        &self,
        letter: DeadLetter,
        completion: Completion,
    ) -> Result<(), Box<Returned<DeadLetter>>> {
        let bytes = letter.bytes();
        if !self.shared.open(bytes) {
            return Err(Box::new(Returned { work: letter, completion }));
        }
        let seed = letter.offset as u64 ^ (u64::from(letter.partition as u32) << 48);
        let letter = Letter {
            letter: Arc::new(letter),
            completion: Some(completion),
            backoff: Backoff::new(BACKOFF, seed),
            too_large: 0,
            bytes,
            shared: Arc::clone(&self.shared),
        };
        send(&self.producer, letter);
        Ok(())
    }
}

impl Drop for KafkaDeadLetters {
    fn drop(&mut self) {
        self.shared.waiting().stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Makes room for a letter, if there is any. One letter of any length always fits.
    fn open(&self, bytes: usize) -> bool {
        let letters = self.open.fetch_add(1, Ordering::AcqRel);
        let before = self.open_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = letters == 0 || (letters < MAX_LETTERS && before + bytes <= MAX_LETTER_BYTES);
        if !fits {
            self.close(bytes);
        }
        fits
    }

    fn close(&self, bytes: usize) {
        self.open.fetch_sub(1, Ordering::AcqRel);
        self.open_bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: sends letters again when their time has come.
    fn try_again(&self, producer: &Producer<Letter>) {
        /// How late a letter may be noticed that was put before the others.
        const LONGEST_SLEEP: Duration = Duration::from_millis(200);
        loop {
            let mut waiting = self.waiting();
            if waiting.stop {
                // Dropping them says "abandoned".
                let letters = std::mem::take(&mut waiting.letters);
                drop(waiting);
                return drop(letters);
            }
            let now = Instant::now();
            let (due, later) = std::mem::take(&mut waiting.letters)
                .into_iter()
                .partition::<VecDeque<_>, _>(|(when, _)| *when <= now);
            waiting.letters = later;
            if due.is_empty() {
                let asleep = |waiting: &mut Waiting| !waiting.stop && waiting.letters.is_empty();
                let woken = if waiting.letters.is_empty() {
                    self.wake.wait_while(waiting, asleep).unwrap_or_else(PoisonError::into_inner)
                } else {
                    let woken = self.wake.wait_timeout(waiting, LONGEST_SLEEP);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                };
                drop(woken);
                continue;
            }
            drop(waiting);
            for (_, letter) in due {
                send(producer, letter);
            }
        }
    }
}

impl Letter {
    /// The topic doesn't take it. Without its bytes it does; where even key and headers are too
    /// long, without those as well.
    fn shorten(&mut self) {
        self.too_large += 1;
        if self.too_large < TOO_LARGE_TRIES {
            return;
        }
        let letter = Arc::make_mut(&mut self.letter);
        if letter.payload.is_empty() {
            letter.key = None;
            letter.headers.clear();
            return;
        }
        let bytes = std::mem::take(&mut letter.payload).len();
        let left =
            format!("; its {bytes} bytes are too long for this topic and left in the source");
        letter.rejection.detail.push_str(&left);
    }

    /// Waits for another try, or gives up at the drain's deadline.
    fn again(mut self) {
        let shared = Arc::clone(&self.shared);
        let wait = self.backoff.next_wait();
        if shared.drain.is_begun() && shared.drain.remaining() < wait {
            return;
        }
        let mut waiting = shared.waiting();
        if waiting.stop {
            // Nobody would retry it. Unlock first: dropping it may call back.
            return drop(waiting);
        }
        waiting.letters.push_back((Instant::now() + wait, self));
        drop(waiting);
        shared.wake.notify_one();
    }
}

impl Drop for Letter {
    /// A letter that is dropped with its completion is abandoned, which the completion says itself.
    fn drop(&mut self) {
        self.shared.close(self.bytes);
    }
}

impl Shipment for Letter {
    fn ended(mut self, result: Result<(), RDKafkaErrorCode>) {
        match result {
            Ok(()) => {
                if let Some(completion) = self.completion.take() {
                    completion.finish(Outcome::Stored);
                }
            }
            Err(code) => {
                let class = Class::of(code);
                let DeadLetter { signal, topic, partition, offset, .. } = &*self.letter;
                tracing::warn!(
                    %signal, %topic, partition, offset, %code, advice = class.advice(),
                    "a dead letter was not taken; it is sent again"
                );
                if class == Class::TooLarge {
                    self.shorten();
                }
                self.again();
            }
        }
    }
}

/// Hands a letter to the producer, which copies it for its way.
fn send(producer: &Producer<Letter>, letter: Letter) {
    let Some(topic) = topic_of(&letter.shared.topics, letter.letter.signal).cloned() else {
        // Only signals that are read can have bad records, and each of those has a topic.
        tracing::error!(signal = %letter.letter.signal, "no dead-letter topic; the record is kept");
        return letter.again();
    };
    let content = Arc::clone(&letter.letter);
    let headers = headers(&content, letter.shared.version);
    let mut record = BaseRecord::<[u8], [u8], _>::with_opaque_to(topic.as_str(), Box::new(letter))
        .payload(&content.payload)
        .headers(headers);
    if let Some(key) = &content.key {
        record = record.key(key.as_slice());
    }
    if let Some(millis) = content.timestamp_millis {
        record = record.timestamp(millis);
    }
    if let Err((error, record)) = producer.send(record) {
        record.delivery_opaque.ended(Err(code_of(&error)));
    }
}

/// The record's own headers, then ours.
fn headers(letter: &DeadLetter, version: &str) -> OwnedHeaders {
    let own = letter.headers.iter().map(|(key, value)| (key.as_str(), value.as_deref()));
    let ours = dead_letter::written(letter, version);
    let ours = ours.iter().map(|(key, value)| (*key, Some(value.as_bytes())));
    let room = letter.headers.len() + dead_letter::NAMES.len();
    own.chain(ours).fold(OwnedHeaders::new_with_capacity(room), |headers, (key, value)| {
        headers.insert(Header { key, value })
    })
}
