//! The threads that decompress, translate JSON, check requests and pass them on: off the I/O
//! threads, few, and with a bounded queue.
//!
//! Each thread owns one decompressor and its reused buffers, so after warm-up a request costs no
//! allocation here. The byte budget covers the buffers.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::{Delivery, Publish, Request};
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::decompress::{DecompressError, Decompressor};
use millrace_wire::framing::Format;
use millrace_wire::limits::Limits;
use millrace_wire::otlp::json::{self, JsonErrorKind};
use millrace_wire::{Signal, otlp};
use tokio::sync::oneshot;

use super::body::{Collected, Intake, Layout, Room};
use super::denied::{Denied, reason};
use super::scratch::{Scratch, Unreadable};

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
    pub(crate) body: Collected,
    /// Where in the body the message is, and how it is written.
    pub(crate) layout: Layout,
    /// The longest message, expanded.
    pub(crate) limit_bytes: usize,
    pub(crate) answer: oneshot::Sender<Result<Delivery, Denied>>,
}

/// What all threads share.
pub(crate) struct Shared {
    pub(crate) budget: Budget,
    pub(crate) intake: Intake,
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
    reader: Reader,
    kept_bytes: usize,
}

/// Turns messages into plain protobuf.
#[derive(Default)]
struct Reader {
    decompressor: Decompressor,
    /// A message decompressed.
    plain: Scratch,
    /// A message turned into protobuf.
    protobuf: Scratch,
}

impl Worker {
    fn new(shared: Arc<Shared>, kept_bytes: usize) -> Self {
        Self { shared, reader: Reader::default(), kept_bytes }
    }

    fn run(mut self, jobs: &Mutex<Receiver<Job>>) {
        loop {
            // Whoever holds the lock waits for the next job; the others wait for the lock.
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(job) = job else { return };
            self.work(job);
        }
    }

    fn work(&mut self, job: Job) {
        let Job { signal, body, layout, limit_bytes, answer } = job;
        if answer.is_closed() {
            // The client is gone or was told to come back: don't store what it will send again.
            return;
        }
        let Collected { bytes, room: Room { reservation, unread } } = body;
        let message = bytes.get(layout.start..).unwrap_or_default();
        let Self { shared, reader, .. } = self;
        let result = reader
            .read(&shared.budget, signal, layout, message, limit_bytes)
            .map_err(|(denied, refusal)| (denied, refusal, None))
            .and_then(|plain| publish(shared, signal, plain, limit_bytes, reservation));
        let result = result.map_err(|(denied, refusal, records)| {
            shared.telemetry.refused(signal, refusal, records.unwrap_or(1));
            if records.is_none() {
                // What can't be read counts as one record in, so that the sums still agree.
                shared.telemetry.records_in(signal, 1);
            }
            denied
        });
        // Before the answer: whoever has it may count on the memory being given back.
        drop((bytes, unread));
        self.reader.plain.trim(self.kept_bytes);
        self.reader.protobuf.trim(self.kept_bytes);
        // Nobody there any more: the delivery goes on and is counted by the publisher.
        let _ = answer.send(result);
    }
}

impl Reader {
    /// Undoes compression and JSON, as far as there are any; what is left is protobuf.
    fn read<'s>(
        &'s mut self,
        budget: &Budget,
        signal: Signal,
        layout: Layout,
        message: &'s [u8],
        limit_bytes: usize,
    ) -> Result<&'s [u8], (Denied, Refusal)> {
        let Self { decompressor, plain, protobuf } = self;
        let plain = match layout.encoding {
            None => message,
            Some(encoding) => {
                let expected = message.len().saturating_mul(EXPECTED_RATIO);
                let expected = expected.max(LEAST_EXPANSION_BYTES);
                plain.fill(budget, expected, limit_bytes, |cap_bytes, out| {
                    let result = decompressor.decompress(encoding, message, cap_bytes, out);
                    result.map_err(|error| match error {
                        DecompressError::TooLong { .. } => Unreadable::TooLong(error.to_string()),
                        _ => Unreadable::Malformed(error.to_string()),
                    })
                })?;
                plain.bytes()
            }
        };
        match layout.format {
            Format::Protobuf => Ok(plain),
            Format::Json => {
                if plain.len() > limit_bytes {
                    return Err((over(limit_bytes), Refusal::TooLarge));
                }
                // Seldom is protobuf longer than the JSON it came from.
                protobuf.fill(budget, plain.len(), limit_bytes, |cap_bytes, out| {
                    let result = json::transcode(signal, plain, cap_bytes, out);
                    result.map_err(|error| match error.kind() {
                        JsonErrorKind::TooLong { .. } => Unreadable::TooLong(error.to_string()),
                        _ => Unreadable::Malformed(error.to_string()),
                    })
                })?;
                Ok(protobuf.bytes())
            }
        }
    }
}

fn over(limit_bytes: usize) -> Denied {
    Denied::too_large(format!(
        "the request has more than {limit_bytes} bytes; send smaller batches"
    ))
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
        return Err((over(limit_bytes), Refusal::TooLarge, None));
    }
    let limits = Limits { message_bytes: limit_bytes, ..Limits::default() };
    let checked = otlp::check(signal, plain, &limits)
        .map_err(|error| (Denied::malformed(error.to_string()), Refusal::Malformed, None))?;
    failpoint::hit("after-decode");
    let records = checked.records;
    shared.telemetry.records_in(signal, records);
    if !reservation.try_resize(plain.len() as u64) {
        return Err((Denied::full(), Refusal::Full, Some(records)));
    }
    let request = Request { signal, bytes: plain, checked, reservation };
    shared.publisher.publish(request).map_err(|refused| {
        let refusal = reason(&refused);
        (refused.into(), refusal, Some(records))
    })
}
