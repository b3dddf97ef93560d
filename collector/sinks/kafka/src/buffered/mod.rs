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
#[cfg(test)]
mod fixtures;
mod job;
mod sender;
mod window;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TrySendError};
use std::time::{Duration, Instant};

use millrace_buffer::FolderError;
use millrace_config::{DiskBuffer, KafkaExporter};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::{RouteOptions, RunningExporter};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::readiness::{Readiness, ReadinessPart};
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};
use millrace_wire::Signal;

use crate::produce::producer::ProducerError;
use crate::produce::queue_thread::QueueThread;
use crate::publisher::KafkaPublisher;
use crate::request::pieces::{Pieces, cut_request};
use crate::request::request_part::{RequestPart, Waiter};
use crate::topics::destination::{Destination, PublishTo, TopicKey, route_publishers};
use buffers::DiskBuffers;
use disk_writer::{DiskWriter, WriterStop};
use job::WriteJob;
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
    /// The disk's thread. It is dropped before the publisher that it uses.
    writer: QueueThread<WriteJob>,
    kafka: Arc<KafkaPublisher>,
    telemetry: Arc<Telemetry>,
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
        let writer =
            DiskWriter::new(Arc::clone(&kafka), buffers, Arc::clone(&telemetry), part, behind);
        let stopped = Arc::clone(&stop);
        let run = move |jobs: &Receiver<WriteJob>| writer.run(jobs, &stopped);
        let writer = QueueThread::start("kafka-buffer", QUEUE_LENGTH, run)?;
        Ok(Self { writer, kafka, telemetry, stop, drains: buffer.drain })
    }

    fn buffer_request(
        &self,
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
        let result = DeliveryReceipt::with_rejected(rejected_records);
        if pieces.is_empty() {
            return Ok(PendingDelivery::delivered(result));
        }
        let (answer, delivery) = PendingDelivery::new_pair();
        let pieces =
            pieces.into_iter().map(|(bytes, checked)| (bytes.into_owned(), checked.records));
        let waiter = Waiter::Client(answer, cancellation);
        let parts = RequestPart::new_parts(1, result, waiter, reservation).collect();
        let topic = TopicKey { destination, signal };
        let job = WriteJob { topic, pieces: pieces.collect(), parts };
        match self.writer.try_send(job) {
            Ok(()) => Ok(delivery),
            Err(TrySendError::Full(_)) => Err(PublishError::Full),
            Err(TrySendError::Disconnected(_)) => Err(PublishError::Draining),
        }
    }
}

impl RunningExporter for BufferedPublisher {
    /// Makes accepted records safe, in Kafka or on the disk. Records on disk stay there, or are
    /// sent first if the folder ends with the process.
    fn flush(&self, time: Duration) -> bool {
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

    fn route_publishers(self: Arc<Self>) -> Vec<Arc<dyn Publish>> {
        route_publishers(&self, self.kafka.route_count())
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
        if self.stop.is_requested() {
            return Err(PublishError::Draining);
        }
        self.buffer_request(destination, request)
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
    }
}
