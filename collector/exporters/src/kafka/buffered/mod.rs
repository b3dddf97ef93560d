//! The edge's publisher with a buffer on disk for when Kafka is away.
//!
//! While Kafka is reached, requests go straight to it. While it isn't, they go to the disk, and
//! their clients are answered once they are synced. When Kafka is back, the disk's records go to it
//! in order, beside new ones, and are acknowledged one by one: a crash repeats at most those in
//! flight. Nothing waits without bound: the queue to the disk and the disk have limits, and past
//! them clients are asked to retry.

mod keeper;
mod sender;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_buffer::{Folder, FolderError, Limits, Queue};
use millrace_config::{DiskBuffer, KafkaExporter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{Delivered, Delivery, Publish, Refused, Request};
use millrace_pipeline::readiness::{Part, Readiness};
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::Signal;

use super::producer::ProducerError;
use super::publisher::{KafkaPublisher, Pieces, pieces};
use keeper::{Job, Keeper, Stop};
use sender::Sender;

/// Requests that may wait for the disk. Their bytes are in the budget; the number bounds the time
/// one waits: a sync takes milliseconds, and all that wait share it.
const QUEUE_LENGTH: usize = 256;

/// The part of the time for flushing that is left for what is on its way to Kafka when a buffer
/// that ends with its process is emptied first.
const FLUSH_SHARE: u32 = 4;

/// How long a message from the disk may take, in seconds: the longest there is. Nobody waits for
/// it, and one that is given up and sent again may arrive twice.
const DISK_DELIVERY_SECONDS: u32 = 600;

/// A publisher that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// The way to Kafka.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The folder.
    #[error("exporters.kafka.buffer.path: {0}")]
    Folder(#[from] FolderError),
    /// What is in the folder, or the thread.
    #[error("exporters.kafka.buffer.path: the buffer cannot be opened: {0}")]
    Open(#[from] std::io::Error),
}

/// What a buffered publisher works with.
pub struct BufferedParts {
    /// Where bytes on their way from the disk are counted.
    pub budget: Budget,
    /// Where everything is counted.
    pub telemetry: Arc<Telemetry>,
    /// The exporter's readiness.
    pub part: Part,
    /// When to stop.
    pub drain: Drain,
}

/// Publishes to Kafka, or to the disk. Everything it started ends when it is dropped.
pub struct BufferedPublisher {
    kafka: KafkaPublisher,
    /// The way from the disk: a producer of its own, with a longer time-out. What takes too long is
    /// taken back from a producer with all that it has under way, so with one for both a request
    /// that is given up would have the disk's messages sent twice.
    from_disk: Arc<KafkaPublisher>,
    telemetry: Arc<Telemetry>,
    /// None once the thread was asked to end.
    jobs: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<Stop>,
    /// The folder ends with the process: what is in it is sent before.
    drains: bool,
}

impl BufferedPublisher {
    /// Opens the buffer, reads what is in it, and makes the way to Kafka.
    ///
    /// # Errors
    /// When the folder can't be used, or one of the parts not be set up.
    pub fn start(
        settings: &KafkaExporter,
        buffer: &DiskBuffer,
        parts: BufferedParts,
    ) -> Result<Self, BufferError> {
        let BufferedParts { budget, telemetry, part, drain } = parts;
        let folder = Folder::open(&buffer.path)?;
        let limits = Limits::of(buffer.max_bytes.get());
        let (mut queue, recovery) = Queue::open(folder, limits)?;
        let held = held(&mut queue)?;
        tracing::info!(
            path = %buffer.path.display(), records = queue.stats().count,
            bytes = queue.stats().file_bytes, unreadable_bytes = recovery.unreadable_bytes,
            damaged_messages = recovery.damaged_records, "the buffer on disk is open"
        );
        // Kafka may be away: the buffer has its own readiness.
        let behind = Readiness::default();
        let reached = behind.part("kafka");
        let kafka = KafkaPublisher::start(settings, &telemetry, reached, &drain)?;
        let patient =
            KafkaExporter { delivery_timeout_seconds: DISK_DELIVERY_SECONDS, ..settings.clone() };
        let unheard = Readiness::default().part("kafka");
        let from_disk = KafkaPublisher::start(&patient, &telemetry, unheard, &drain)?;
        let from_disk = Arc::new(from_disk);
        let (jobs, waiting) = sync_channel(QUEUE_LENGTH);
        let stop = Arc::new(Stop::default());
        let sender = Sender::new(Arc::clone(&from_disk), budget, Arc::clone(&telemetry));
        let keeper = Keeper::new(queue, sender, Arc::clone(&telemetry), part, behind, held);
        let thread = {
            let stop = Arc::clone(&stop);
            let run = move || keeper.run(&waiting, &stop);
            thread::Builder::new().name("kafka-buffer".into()).spawn(run)?
        };
        let (jobs, thread, drains) = (Some(jobs), Some(thread), buffer.drain);
        Ok(Self { kafka, from_disk, telemetry, jobs, thread, stop, drains })
    }

    /// Makes what was taken safe, in Kafka or on the disk, within `time`. Nothing is taken
    /// afterwards; what is on disk stays there, or is sent first if the folder ends with the
    /// process. False when something may not be safe.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        // First nothing more from the disk, then what is under way.
        let started = Instant::now();
        let left = || time.saturating_sub(started.elapsed());
        let emptied = !self.drains || self.stop.wait_empty(time - time / FLUSH_SHARE);
        if !emptied {
            tracing::error!("records are left in a buffer on disk that ends with this process");
        }
        self.stop.ask();
        let confirmed = self.kafka.flush(left());
        // What isn't confirmed of this is on disk still.
        let _ = self.from_disk.flush(left());
        self.stop.wait(left());
        confirmed && emptied
    }

    fn keep(&self, jobs: &SyncSender<Job>, request: Request<'_>) -> Result<Delivery, Refused> {
        let Request { signal, bytes, checked, mut reservation } = request;
        let Pieces { pieces, rejected_records } =
            pieces(signal, bytes.into(), checked, self.kafka.max_message_bytes())?;
        if !reservation.try_resize(pieces.iter().map(|(bytes, _)| bytes.len() as u64).sum()) {
            return Err(Refused::Full);
        }
        if rejected_records > 0 {
            self.telemetry.refused(signal, Refusal::TooLarge, rejected_records);
        }
        let (answer, delivery) = Delivery::pair();
        let result = Delivered { rejected_records };
        if pieces.is_empty() {
            answer.finish(Ok(result));
            return Ok(delivery);
        }
        let pieces =
            pieces.into_iter().map(|(bytes, checked)| (bytes.into_owned(), checked.records));
        let job = Job { signal, pieces: pieces.collect(), result, answer, reservation };
        match jobs.try_send(job) {
            Ok(()) => Ok(delivery),
            Err(TrySendError::Full(_)) => Err(Refused::Full),
            Err(TrySendError::Disconnected(_)) => Err(Refused::Draining),
        }
    }
}

impl Publish for BufferedPublisher {
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused> {
        if self.kafka.is_reachable() || !self.takes(request.signal) {
            return self.kafka.publish(request);
        }
        match &self.jobs {
            Some(jobs) if !self.stop.is_asked() => self.keep(jobs, request),
            _ => Err(Refused::Draining),
        }
    }

    fn takes(&self, signal: Signal) -> bool {
        self.kafka.takes(signal)
    }
}

impl Drop for BufferedPublisher {
    fn drop(&mut self) {
        self.stop.ask();
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It can only have panicked, which ends the process.
            let _ = thread.join();
        }
    }
}

/// How many records of each signal are on disk from an earlier process. Reads all of it once more.
fn held(queue: &mut Queue<Folder>) -> std::io::Result<[(Signal, u64); 3]> {
    let mut held = Signal::ALL.map(|signal| (signal, 0));
    while let Some(entry) = queue.read()? {
        if let Some((_, records)) = held.get_mut(usize::from(entry.tag)) {
            *records += u64::from(entry.count);
        }
    }
    queue.rewind();
    Ok(held)
}
