//! The edge's publisher with a buffer on disk for when Kafka is away.
//!
//! While a topic accepts records, requests go directly to it. While it doesn't, they go to
//! the disk, and their clients are answered once they are synced. So do requests that wait for the
//! topic and would miss their clients' deadlines. When the topic is back, the disk's records are
//! sent to it in order, alongside new ones, and are acknowledged one by one: a crash repeats at
//! most those in flight. The queue to the disk and the disk have limits, and past them clients get
//! a retryable answer.

mod buffers;
mod disk_writer;
mod job;
mod sender;
mod window;

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millrace_buffer::FolderError;
use millrace_config::{DiskBuffer, KafkaExporter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::RouteOptions;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::readiness::{Readiness, ReadinessPart};
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};
use millrace_wire::Signal;

use super::destination::{Destination, PublishTo, TopicKey, route_publishers};
use super::pieces::{Pieces, cut_request};
use super::producer::ProducerError;
use super::publisher::KafkaPublisher;
use buffers::DiskBuffers;
use disk_writer::{DiskWriter, WriterStop};
use job::{WriteCaller, WriteJob};
use sender::Sender;

/// The maximum number of requests that wait for the disk. The budget covers their bytes; this
/// number bounds the wait: a sync takes milliseconds, and all waiting requests share it.
const QUEUE_LENGTH: usize = 256;

/// The part of the flush time, as a divisor, that is left for messages to Kafka when a buffer that
/// ends with its process is emptied first.
const FLUSH_SHARE: u32 = 4;

/// A publisher that could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum BufferError {
    /// The producer for Kafka.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// The folder.
    #[error("exporters.kafka.buffer.path: {0}")]
    Folder(#[from] FolderError),
    /// The folder's content, or the thread.
    #[error("exporters.kafka.buffer.path: cannot open the buffer: {0}")]
    Open(#[from] std::io::Error),
}

/// The parts that a buffered publisher works with.
pub struct BufferedParts {
    /// Counts the bytes that are read from the disk and in flight.
    pub budget: Budget,
    /// Counts requests and records.
    pub telemetry: Arc<Telemetry>,
    /// The exporter's readiness.
    pub part: ReadinessPart,
    /// Signals when to stop.
    pub drain: Drain,
}

/// Publishes to Kafka, or to the disk. All its threads end when it is dropped.
pub struct BufferedPublisher {
    kafka: Arc<KafkaPublisher>,
    telemetry: Arc<Telemetry>,
    /// `None` once the thread was requested to end.
    jobs: Option<SyncSender<WriteJob>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<WriterStop>,
    /// The folder ends with the process: its records are sent before.
    drains: bool,
}

impl BufferedPublisher {
    /// Opens and reads the buffer, and starts the publisher to Kafka.
    ///
    /// # Errors
    /// The folder can't be used, or one of the parts can't be set up.
    pub fn start(
        settings: &KafkaExporter,
        routes: &[RouteOptions],
        buffer: &DiskBuffer,
        parts: BufferedParts,
    ) -> Result<Self, BufferError> {
        let BufferedParts { budget, telemetry, part, drain } = parts;
        // Kafka may be away: the buffer has its own readiness.
        let behind = Readiness::default();
        let reached = behind.add_part("kafka");
        let kafka = Arc::new(KafkaPublisher::start(settings, routes, &telemetry, reached, &drain)?);
        let (jobs, waiting) = sync_channel(QUEUE_LENGTH);
        let stop = Arc::new(WriterStop::default());
        let sender = |topic: TopicKey| {
            let (kafka, telemetry) = (Arc::clone(&kafka), Arc::clone(&telemetry));
            let is_configured = kafka.has_topic(topic);
            (Sender::new(topic, kafka, budget.clone(), telemetry), is_configured)
        };
        let routes: Vec<&str> = routes.iter().map(|route| route.topic.as_str()).collect();
        let (max_bytes, message_bytes) = (buffer.max_bytes.get(), kafka.max_message_bytes());
        let buffers = DiskBuffers::open(
            &buffer.path,
            &routes,
            (max_bytes, message_bytes),
            &telemetry,
            sender,
        )?;
        let keeper =
            DiskWriter::new(Arc::clone(&kafka), buffers, Arc::clone(&telemetry), part, behind);
        let thread = {
            let stop = Arc::clone(&stop);
            let run = move || keeper.run(&waiting, &stop);
            thread::Builder::new().name("kafka-buffer".into()).spawn(run)?
        };
        let (jobs, thread, drains) = (Some(jobs), Some(thread), buffer.drain);
        Ok(Self { kafka, telemetry, jobs, thread, stop, drains })
    }

    /// Makes accepted records safe, in Kafka or on the disk, within `time`. Nothing is accepted
    /// afterwards; records on disk stay there, or are sent first if the folder ends with the
    /// process. Returns false when some records may not be safe.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        // First the disk sends nothing more, then requests in flight end.
        let started = Instant::now();
        let left = || time.saturating_sub(started.elapsed());
        let emptied = !self.drains || self.stop.wait_empty(time - time / FLUSH_SHARE);
        if !emptied {
            tracing::error!("records remain in a buffer on disk that is removed with this process");
        }
        self.stop.request_stop();
        let confirmed = self.kafka.flush(left());
        self.stop.wait_quiet(left());
        confirmed && emptied
    }

    /// Returns a publisher to each route, in their order.
    #[must_use]
    pub fn route_publishers(self: &Arc<Self>) -> Vec<Arc<dyn Publish>> {
        route_publishers(self, self.kafka.route_count())
    }

    fn buffer_request(
        &self,
        jobs: &SyncSender<WriteJob>,
        destination: Destination,
        request: PublishRequest<'_>,
    ) -> Result<PendingDelivery, PublishError> {
        let PublishRequest { signal, bytes, checked, mut reservation, cancellation, .. } = request;
        let Pieces { pieces, rejected_records } =
            cut_request(signal, bytes.into(), checked, self.kafka.max_message_bytes())?;
        if !reservation.try_resize(pieces.iter().map(|(bytes, _)| bytes.len() as u64).sum()) {
            return Err(PublishError::Full);
        }
        if rejected_records > 0 {
            self.telemetry.record_refused(signal, RefusalReason::TooLarge, rejected_records);
        }
        let (answer, delivery) = PendingDelivery::new_pair();
        let result = DeliveryReceipt::with_rejected(rejected_records);
        if pieces.is_empty() {
            answer.finish_with(Ok(result));
            return Ok(delivery);
        }
        let pieces =
            pieces.into_iter().map(|(bytes, checked)| (bytes.into_owned(), checked.records));
        let client = WriteCaller::Request { result, answer, cancellation, reservation };
        let topic = TopicKey { destination, signal };
        let job = WriteJob { topic, pieces: pieces.collect(), client };
        match jobs.try_send(job) {
            Ok(()) => Ok(delivery),
            Err(TrySendError::Full(_)) => Err(PublishError::Full),
            Err(TrySendError::Disconnected(_)) => Err(PublishError::Draining),
        }
    }
}

impl PublishTo for BufferedPublisher {
    fn publish_to(
        &self,
        destination: Destination,
        request: PublishRequest<'_>,
    ) -> Result<PendingDelivery, PublishError> {
        let topic = TopicKey { destination, signal: request.signal };
        if self.kafka.is_healthy(topic) || !self.kafka.has_topic(topic) {
            return self.kafka.publish_to(destination, request);
        }
        match &self.jobs {
            Some(jobs) if !self.stop.is_requested() => {
                self.buffer_request(jobs, destination, request)
            }
            _ => Err(PublishError::Draining),
        }
    }

    fn has_topic(&self, topic: TopicKey) -> bool {
        self.kafka.has_topic(topic)
    }
}

impl Publish for BufferedPublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        self.publish_to(Destination::Own, request)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        self.kafka.accepts_signal(signal)
    }
}

impl Drop for BufferedPublisher {
    fn drop(&mut self) {
        self.stop.request_stop();
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // It can only have panicked, which ends the process.
            let _ = thread.join();
        }
    }
}
