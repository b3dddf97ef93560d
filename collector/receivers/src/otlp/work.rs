//! The threads that undo compression, check requests and hand them on: off the I/O threads, few,
//! and with a bounded queue.
//!
//! Each thread owns one decompressor and one buffer, both reused, so in steady state a request
//! costs no allocation here. The buffer is covered by the byte budget like everything else.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::publish::{Delivery, Publish, Request};
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::decompress::{DecompressError, Decompressor, Encoding};
use millrace_wire::limits::Limits;
use millrace_wire::{Signal, otlp};
use tokio::sync::oneshot;

use super::body::Collected;
use super::denied::{Denied, reason};

/// Requests that may wait for a thread. Their bytes are in the budget already; the number bounds
/// the time a request waits: 256 of the usual 0.1 MB, at 800 MB/s of gunzip, are 0.03 s of one
/// thread.
const QUEUE_LENGTH: usize = 256;

/// The most a thread's buffer keeps between requests, in bytes: gRPC's usual message limit.
const KEPT_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// What compressed requests are first taken to expand to, as a multiple. Most expand by less, and
/// the rest are done again with the full limit reserved.
const EXPECTED_RATIO: usize = 16;

/// The least that is reserved for an expansion, in bytes.
const LEAST_EXPANSION_BYTES: usize = 64 * 1024;

/// A request to be worked on.
pub(crate) struct Job {
    pub(crate) signal: Signal,
    pub(crate) encoding: Option<Encoding>,
    pub(crate) body: Collected,
    /// Where in the body the message begins.
    pub(crate) message_start: usize,
    /// The longest message, expanded.
    pub(crate) limit_bytes: usize,
    pub(crate) answer: oneshot::Sender<Result<Delivery, Denied>>,
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) budget: Budget,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) publisher: Arc<dyn Publish>,
}

/// The threads. They end when this is dropped and the queue is empty.
pub(crate) struct Pool {
    queue: SyncSender<Job>,
}

impl Pool {
    /// Starts `threads` of them.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(threads: usize, shared: Arc<Shared>) -> io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE_LENGTH);
        let jobs = Arc::new(Mutex::new(jobs));
        let share = shared.budget.limit_bytes() / 16 / threads as u64;
        let kept_bytes = usize::try_from(share).unwrap_or(usize::MAX).min(KEPT_BUFFER_BYTES);
        for index in 0..threads {
            let worker = Worker::new(Arc::clone(&shared), kept_bytes);
            let jobs = Arc::clone(&jobs);
            thread::Builder::new()
                .name(format!("otlp-work-{index}"))
                .spawn(move || worker.run(&jobs))?;
        }
        Ok(Self { queue })
    }

    /// Hands a request to the threads, or refuses it when too many wait.
    pub(crate) fn submit(&self, job: Job) -> Result<(), (Signal, Denied)> {
        self.queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(job) => (job.signal, Denied::full()),
            TrySendError::Disconnected(job) => {
                (job.signal, Denied::unavailable("the collector's workers have ended"))
            }
        })
    }
}

struct Worker {
    shared: Arc<Shared>,
    decompressor: Decompressor,
    plain: Vec<u8>,
    /// Covers `plain`; none until it is first needed.
    held: Option<Reservation>,
    kept_bytes: usize,
}

impl Worker {
    fn new(shared: Arc<Shared>, kept_bytes: usize) -> Self {
        Self {
            shared,
            decompressor: Decompressor::new(),
            plain: Vec::new(),
            held: None,
            kept_bytes,
        }
    }

    fn run(mut self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            // Whoever holds the lock waits for the next job; the others wait for the lock.
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            self.work(job);
            self.trim();
        }
    }

    fn work(&mut self, job: Job) {
        let Job { signal, encoding, body, message_start, limit_bytes, answer } = job;
        if answer.is_closed() {
            // The client is gone or was told to come back: don't store what it will send again.
            return;
        }
        let message = body.bytes.get(message_start..).unwrap_or_default();
        let expanded = match encoding {
            Some(encoding) => self.expand(encoding, message, limit_bytes),
            None => Ok(()),
        };
        let result = expanded.and_then(|()| {
            let plain = if encoding.is_some() { self.plain.as_slice() } else { message };
            publish(&self.shared, signal, plain, limit_bytes, body.reservation)
        });
        let result = result.map_err(|(denied, refusal, records)| {
            self.shared.telemetry.refused(signal, refusal, records.unwrap_or(1));
            if records.is_none() {
                // What can't be read counts as one record in, so that the sums still agree.
                self.shared.telemetry.records_in(signal, 1);
            }
            denied
        });
        // Nobody there any more: the delivery goes on and is counted by the publisher.
        let _ = answer.send(result);
    }

    /// Decompresses into `self.plain`, with the budget covering it before memory is taken.
    fn expand(&mut self, encoding: Encoding, body: &[u8], limit_bytes: usize) -> Failed<()> {
        let expected = body.len().saturating_mul(EXPECTED_RATIO);
        let first = expected.max(LEAST_EXPANSION_BYTES).min(limit_bytes);
        for cap_bytes in [first, limit_bytes] {
            if !self.hold(cap_bytes) {
                return Err((Denied::full(), Refusal::Full, None));
            }
            match self.decompressor.decompress(encoding, body, cap_bytes, &mut self.plain) {
                Ok(()) => return Ok(()),
                Err(DecompressError::TooLong { .. }) if cap_bytes < limit_bytes => {}
                Err(error @ DecompressError::TooLong { .. }) => {
                    let denied = Denied::too_large(format!("{error}; send smaller batches"));
                    return Err((denied, Refusal::TooLarge, None));
                }
                Err(error) => {
                    return Err((Denied::malformed(error.to_string()), Refusal::Malformed, None));
                }
            }
        }
        // The second turn's cap is the limit, so it has answered.
        Err((Denied::full(), Refusal::Full, None))
    }

    /// Makes the budget cover a buffer that may grow to `bytes`.
    fn hold(&mut self, bytes: usize) -> bool {
        // The decompressor takes one byte more, to tell a body that just fits.
        let bytes = bytes.saturating_add(1).max(self.plain.capacity()) as u64;
        match &mut self.held {
            Some(held) => held.try_resize(bytes),
            None => {
                self.held = self.shared.budget.try_reserve(bytes);
                self.held.is_some()
            }
        }
    }

    /// Gives back what the buffer took beyond what it may keep.
    fn trim(&mut self) {
        self.plain.clear();
        if self.plain.capacity() > self.kept_bytes {
            self.plain.shrink_to(self.kept_bytes);
        }
        let kept = self.plain.capacity() as u64;
        if let Some(held) = &mut self.held {
            // Shrinking can't fail.
            let _ = held.try_resize(kept);
        }
    }
}

/// A failure: the answer, its metric label, and how many records it concerns if that is known.
type Failed<T> = Result<T, (Denied, Refusal, Option<u64>)>;

/// Checks a plain request and hands it to the publisher.
fn publish(
    shared: &Shared,
    signal: Signal,
    plain: &[u8],
    limit_bytes: usize,
    mut reservation: Reservation,
) -> Failed<Delivery> {
    if plain.len() > limit_bytes {
        let message =
            format!("the request has more than {limit_bytes} bytes; send smaller batches");
        return Err((Denied::too_large(message), Refusal::TooLarge, None));
    }
    let limits = Limits { message_bytes: limit_bytes, ..Limits::default() };
    let checked = otlp::check(signal, plain, &limits)
        .map_err(|error| (Denied::malformed(error.to_string()), Refusal::Malformed, None))?;
    let records = checked.records;
    shared.telemetry.records_in(signal, records);
    if !reservation.try_resize(plain.len() as u64) {
        return Err((Denied::full(), Refusal::Full, Some(records)));
    }
    let request = Request { signal, bytes: plain, records, reservation };
    shared.publisher.publish(request).map_err(|refused| {
        let refusal = reason(&refused);
        (refused.into(), refusal, Some(records))
    })
}
