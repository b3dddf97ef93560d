//! The threads that decompress, convert JSON, check requests and pass them on: off the I/O threads,
//! few, and with a bounded queue.
//!
//! Each thread owns one decompressor and reuses its buffers, so after warm-up a request allocates
//! nothing here. The byte budget covers the buffers.

use std::fmt::Display;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use millrace_config::RecordTimes;
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::failpoint;
use millrace_pipeline::memory_shares::MemoryShares;
use millrace_pipeline::mutex::lock;
use millrace_pipeline::publish::{DeliveryReceipt, PendingDelivery, Publish, PublishRequest};
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};
use millrace_wire::decompress::{DecompressError, Decompressor};
use millrace_wire::framing::MessageFormat;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::json::{self, JsonErrorKind};
use millrace_wire::otlp::{RequestOutline, TimeRange};
use millrace_wire::{Signal, otlp};
use tokio::sync::oneshot;

use crate::answers::denied::Denial;
use crate::answers::out_of_range_log::OutOfRangeLog;
use crate::requests::body::{BodyMemory, CollectedBody, Intake, MessageLayout};
use crate::requests::scratch::Scratch;
use millrace_pipeline::clock::now_unix_nanos;
use millrace_pipeline::record_times::edge_times;

/// The requests that may wait for a thread. The budget already covers their bytes; this number
/// bounds the wait: 256 of the usual 0.1 MB, at 800 MB/s of gunzip, are 0.03 s of one thread.
const QUEUE_LENGTH: usize = 256;

/// The ratio that compressed requests are first expected to expand by. Most expand by less, and the
/// others are decompressed again with the full limit reserved.
const EXPECTED_RATIO: usize = 16;

/// The minimum reservation for an expansion, in bytes.
const LEAST_EXPANSION_BYTES: usize = 64 * 1024;

/// A request for the threads.
pub(crate) struct RequestJob {
    pub(crate) signal: Signal,
    pub(crate) body: CollectedBody,
    /// The position of the message in the body, and its encoding.
    pub(crate) layout: MessageLayout,
    /// The limit of the decompressed message.
    pub(crate) limit_bytes: usize,
    /// Receives the delivery, and how many records were excluded for their times.
    pub(crate) answer: oneshot::Sender<Result<(PendingDelivery, u64), Denial>>,
    pub(crate) cancellation: Cancellation,
    /// The client's address.
    pub(crate) client: IpAddr,
}

/// The state that all threads share.
pub(crate) struct WorkerContext {
    pub(crate) budget: Budget,
    pub(crate) intake: Intake,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) publisher: Arc<dyn Publish>,
    pub(crate) record_times: RecordTimes,
    pub(crate) out_of_range_log: OutOfRangeLog,
}

/// The threads. They end when this is dropped and the queue is empty.
pub(crate) struct Pool {
    queue: SyncSender<RequestJob>,
}

impl Pool {
    /// Starts `threads` of them.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(crate) fn start(threads: usize, shared: Arc<WorkerContext>) -> io::Result<Self> {
        let (queue, jobs) = sync_channel(QUEUE_LENGTH);
        let jobs = Arc::new(Mutex::new(jobs));
        let shares = MemoryShares::of_budget(shared.budget.limit_bytes());
        let retained_bytes =
            usize::try_from(shares.retained_buffer_bytes(threads)).unwrap_or(usize::MAX);
        for index in 0..threads {
            let worker = RequestWorker::new(Arc::clone(&shared), retained_bytes);
            let jobs = Arc::clone(&jobs);
            thread::Builder::new()
                .name(format!("otlp-work-{index}"))
                .spawn(move || worker.run(&jobs))?;
        }
        Ok(Self { queue })
    }

    /// Queues a request for the threads, or refuses it when too many wait.
    pub(crate) fn submit_job(&self, job: RequestJob) -> Result<(), Denial> {
        self.queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Denial::full(),
            TrySendError::Disconnected(_) => {
                let message = "the collector's workers have stopped";
                Denial::new(RefusalReason::Unavailable, message)
            }
        })
    }
}

struct RequestWorker {
    shared: Arc<WorkerContext>,
    reader: MessageReader,
}

/// Converts messages to plain protobuf. Each step's input is released before the next one, so that
/// at most two copies of a message exist at a time.
struct MessageReader {
    decompressor: Decompressor,
    /// The decompressed message.
    plain: Scratch,
    /// The message converted to protobuf.
    protobuf: Scratch,
    /// The bytes that each of the two may retain for the next message.
    retained_bytes: usize,
}

impl RequestWorker {
    fn new(shared: Arc<WorkerContext>, retained_bytes: usize) -> Self {
        let [plain, protobuf] = [(); 2].map(|()| Scratch::new(&shared.budget));
        let decompressor = Decompressor::default();
        Self { shared, reader: MessageReader { decompressor, plain, protobuf, retained_bytes } }
    }

    fn run(mut self, jobs: &Mutex<Receiver<RequestJob>>) {
        loop {
            // The thread that has the lock waits for the next job; the others wait for the lock.
            let job = lock(jobs).recv();
            let Ok(job) = job else { return };
            self.process_job(job);
        }
    }

    fn process_job(&mut self, mut job: RequestJob) {
        let signal = job.signal;
        if job.cancellation.is_cancelled() {
            // The client disconnected or got a retryable answer: don't store what it will send
            // again.
            self.shared.telemetry.records_in(signal, 1);
            self.shared.telemetry.record_refused(signal, RefusalReason::Timeout, 1);
            return;
        }
        let result = self.publish_request(&mut job).map_err(|(denied, records)| {
            self.shared.telemetry.record_refused(signal, denied.reason, records.unwrap_or(1));
            if records.is_none() {
                // An unreadable request counts as one record in, so that the sums still agree.
                self.shared.telemetry.records_in(signal, 1);
            }
            denied
        });
        // Free the memory before the answer: its receiver may rely on that.
        drop(job.body);
        self.reader.trim();
        // If the client is gone, the delivery continues and the publisher counts it.
        let _ = job.answer.send(result);
    }

    /// Reads and checks a request, and passes it to the publisher without the records whose times
    /// are not accepted. Returns how many these are.
    fn publish_request(&mut self, job: &mut RequestJob) -> PublishResult<(PendingDelivery, u64)> {
        let Self { shared, reader } = self;
        let RequestJob { signal, body, layout, limit_bytes, cancellation, client, .. } = job;
        let (signal, cancellation, client) = (*signal, cancellation.clone(), Some(*client));
        let CollectedBody { bytes: body, memory: room } = body;
        let plain = reader
            .read(signal, *layout, body, room, *limit_bytes)
            .map_err(|denied| (denied, None))?;
        let now = now_unix_nanos();
        let times = edge_times(&shared.record_times, now);
        let limits = WireLimits { message_bytes: *limit_bytes, times, ..WireLimits::default() };
        let mut checked = check(shared, signal, plain, &limits, now)?;
        let (records, out_of_range) = (checked.records, std::mem::take(&mut checked.out_of_range));
        if out_of_range == 0 {
            let reservation = room.reservation.split_off(u64::MAX);
            let request =
                PublishRequest { signal, bytes: plain, checked, reservation, cancellation, client };
            return Ok((hand_over(shared, request)?, 0));
        }
        if records == 0 {
            let delivery = PendingDelivery::delivered(DeliveryReceipt::default());
            return Ok((delivery, out_of_range));
        }
        let (bytes, _copy) = retain_accepted(&shared.budget, signal, plain, &limits.times)
            .map_err(|denied| (denied, Some(records)))?;
        // The copy replaces the request, so the request needs no more memory than any other.
        room.release_body(body);
        reader.trim();
        let reservation = room.reservation.split_off(u64::MAX);
        let bytes = &bytes;
        let request = PublishRequest { signal, bytes, checked, reservation, cancellation, client };
        Ok((hand_over(shared, request)?, out_of_range))
    }
}

impl MessageReader {
    /// Empties the buffers, and frees what exceeds the retained size.
    fn trim(&mut self) {
        self.plain.release_excess(self.retained_bytes);
        self.protobuf.release_excess(self.retained_bytes);
    }

    /// Decompresses and converts JSON where needed, and returns protobuf. The body is released once
    /// another buffer holds its message.
    fn read<'s>(
        &'s mut self,
        signal: Signal,
        layout: MessageLayout,
        body: &'s mut Vec<u8>,
        room: &mut BodyMemory,
        limit_bytes: usize,
    ) -> Result<&'s [u8], Denial> {
        let Self { decompressor, plain, protobuf, retained_bytes } = self;
        if let Some(encoding) = layout.encoding {
            let message = body.get(layout.start..).unwrap_or_default();
            let expected = message.len().saturating_mul(EXPECTED_RATIO).max(LEAST_EXPANSION_BYTES);
            plain.fill_capped(expected, limit_bytes, |cap_bytes, out| {
                let result = decompressor.decompress(encoding, message, cap_bytes, out);
                result.map_err(|error| {
                    unreadable_denial(matches!(error, DecompressError::TooLong { .. }), error)
                })
            })?;
            room.release_body(body);
        }
        let is_compressed = layout.encoding.is_some();
        match layout.format {
            MessageFormat::Protobuf if is_compressed => Ok(plain.bytes()),
            MessageFormat::Protobuf => Ok(body.get(layout.start..).unwrap_or_default()),
            MessageFormat::Json => {
                let uncompressed = body.get(layout.start..).unwrap_or_default();
                let text = if is_compressed { plain.bytes() } else { uncompressed };
                if text.len() > limit_bytes {
                    return Err(Denial::too_large(limit_bytes));
                }
                // Protobuf is seldom longer than its JSON.
                protobuf.fill_capped(text.len(), limit_bytes, |cap_bytes, out| {
                    let result = json::transcode_request(signal, text, cap_bytes, out);
                    result.map_err(|error| {
                        let is_too_long = matches!(error.kind(), JsonErrorKind::TooLong { .. });
                        unreadable_denial(is_too_long, error)
                    })
                })?;
                plain.release_excess(*retained_bytes);
                room.release_body(body);
                Ok(protobuf.bytes())
            }
        }
    }
}

/// Returns the answer for bytes that can't be converted.
fn unreadable_denial(is_too_long: bool, error: impl Display) -> Denial {
    if is_too_long {
        let message = format!("{error}; send smaller batches");
        return Denial::new(RefusalReason::TooLarge, message);
    }
    Denial::new(RefusalReason::Malformed, error)
}

/// A failure: the answer, and the number of affected records if known.
type PublishResult<T> = Result<T, (Denial, Option<u64>)>;

/// Checks a plain request, and counts its records. Those whose times are not accepted count in the
/// check's result, and as refused.
fn check(
    shared: &WorkerContext,
    signal: Signal,
    plain: &[u8],
    limits: &WireLimits,
    now: u64,
) -> PublishResult<RequestOutline> {
    if plain.len() > limits.message_bytes {
        return Err((Denial::too_large(limits.message_bytes), None));
    }
    let checked = otlp::check_request(signal, plain, limits)
        .map_err(|error| (Denial::new(RefusalReason::Malformed, error), None))?;
    failpoint::hit("after-decode");
    shared.telemetry.records_in(signal, checked.records + checked.out_of_range);
    if checked.out_of_range > 0 {
        shared.telemetry.record_refused(
            signal,
            RefusalReason::TimeOutOfRange,
            checked.out_of_range,
        );
        shared.out_of_range_log.record_rejected(signal, checked.out_of_range, now);
    }
    Ok(checked)
}

/// Returns the request without the records whose times are not accepted, and its reservation: one
/// copy as long as the request, whatever its encoding, until it is published.
fn retain_accepted(
    budget: &Budget,
    signal: Signal,
    plain: &[u8],
    times: &TimeRange,
) -> Result<(Vec<u8>, Reservation), Denial> {
    let reservation = budget.try_reserve(plain.len() as u64).ok_or_else(Denial::full)?;
    let retained = otlp::retain_in_range(signal, plain, times)
        .map_err(|error| Denial::new(RefusalReason::Malformed, error))?;
    Ok((retained, reservation))
}

/// Passes a checked request to the publisher.
fn hand_over(
    shared: &WorkerContext,
    mut request: PublishRequest<'_>,
) -> PublishResult<PendingDelivery> {
    let records = request.checked.records;
    if !request.reservation.try_resize(request.bytes.len() as u64) {
        return Err((Denial::full(), Some(records)));
    }
    shared.publisher.publish(request).map_err(|refused| (refused.into(), Some(records)))
}

#[cfg(test)]
mod tests;
