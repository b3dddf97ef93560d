//! The edge's publisher: a topic for each signal, also of each route, one idempotent producer, and
//! a thread that sends messages that have waited long enough.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use millrace_config::{Acknowledge, KafkaExporter, PartitionBy, TopicName};
use millrace_pipeline::component::{RouteOptions, RunningExporter};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::failpoint;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::readiness::ReadinessPart;
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;
use millrace_wire::otlp::Bucket;
use rdkafka::producer::{Producer as _, PurgeConfig};

use crate::produce::message::Message;
use crate::produce::producer::{Producer, ProducerError, Traits, create_producer};
use crate::produce::queue_thread::QueueThread;
use crate::request::pieces::{Pieces, cut_request, outline_of, sort_by_trace};
use crate::request::request_part::{RequestPart, Waiter};
use crate::topics::destination::{Destination, PublishTo, TopicKey, route_publishers};
use crate::topics::monitor::{Monitor, PROOF_AGE, start_monitor};
use crate::topics::topic::{DeliveryContext, TopicOptions, TopicPublisher, topic_of};

/// The first reservation for sorting by trace, as a multiple of a request: one copy, and what is
/// repeated around its spans, at most twice the request. Afterwards the exact size is known.
const SORTED_FACTOR: u64 = 3;

/// The memory of a message from the client library's acceptance to its answer, as quarters of its
/// bytes: the library stores it, and once it was sent also its compressed form. OTLP is compressed
/// to a fifth or less of its length; data that can't be is rare.
const RETAINED_QUARTERS: u64 = 5;

/// Returns the maximum memory of a request while it is published, as quarters of its length: the
/// bytes it arrived in, and one of the two above.
pub(crate) fn request_quarters(settings: &KafkaExporter) -> u64 {
    match settings.partition_by {
        PartitionBy::TraceId => 4 + 4 * SORTED_FACTOR,
        PartitionBy::Any => 4 + RETAINED_QUARTERS,
    }
}

/// How often overdue messages are searched for; they may be noticed that much later.
const TEND_INTERVAL: Duration = Duration::from_secs(1);

/// The bounds of how long a broker's answer may take before its connection is closed and the
/// request repeated on another, which stores no duplicates. Within them it is the delivery timeout.
const ANSWER_TIMEOUT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// Publishes requests to Kafka. Its threads end when it is dropped.
pub struct KafkaPublisher {
    // The fields are dropped in this order: no new queries, no new messages, then the producer with
    // the topics.
    _monitor: Monitor,
    /// Sends old messages. A value wakes it: a message was opened since its last check.
    linger: QueueThread<()>,
    shared: Arc<PublisherInner>,
    max_message_bytes: usize,
    acknowledge: Acknowledge,
    route_count: usize,
}

struct PublisherInner {
    /// A few: three, and one for each route.
    topics: Vec<(TopicKey, Arc<TopicPublisher>)>,
    producer: Producer<DeliveryContext>,
    /// Set when the last messages were sent: nothing is accepted from then on.
    closed: AtomicBool,
}

impl KafkaPublisher {
    /// Sets everything up and begins to watch Kafka. It accepts no requests before Kafka was
    /// reached.
    ///
    /// # Errors
    /// The producer can't be set up, or no thread be started.
    pub fn start(
        settings: &KafkaExporter,
        routes: &[RouteOptions],
        telemetry: &Arc<Telemetry>,
        part: ReadinessPart,
        drain: &Drain,
    ) -> Result<Self, ProducerError> {
        let KafkaExporter {
            connection,
            topics,
            compression,
            max_message_bytes,
            linger_millis,
            partition_by,
            acknowledge,
            delivery_timeout_seconds,
            // The buffered publisher, which wraps this one, uses it.
            buffer: _,
        } = settings;
        let max_message_bytes = max_message_bytes.as_usize();
        let delivery_timeout = Duration::from_secs(u64::from(*delivery_timeout_seconds));
        let time_out = match acknowledge {
            Acknowledge::AfterKafka => Some(delivery_timeout),
            // No client will send it again, so it is never abandoned.
            Acknowledge::AfterBuffering => None,
        };
        let traits = Traits {
            compression: *compression,
            max_message_bytes,
            // The topic's limit applies to batches: so a message is refused only for its own
            // length.
            messages_per_batch: 1,
            // Timeouts are handled in `topic`.
            delivery_timeout: None,
            response_timeout: delivery_timeout.clamp(ANSWER_TIMEOUT.0, ANSWER_TIMEOUT.1),
        };
        let producer: Producer<DeliveryContext> = create_producer(connection, &traits)?;
        let linger = Duration::from_millis(u64::from(*linger_millis));
        let publisher = |key: TopicKey, name: &TopicName| {
            let signal = key.signal;
            let options = TopicOptions {
                signal,
                name: name.clone(),
                producer: producer.clone(),
                telemetry: Arc::clone(telemetry),
                max_message_bytes,
                linger,
                time_out,
                by_trace: signal == Signal::Traces && *partition_by == PartitionBy::TraceId,
            };
            (key, TopicPublisher::new(options))
        };
        let own = |signal| Some(publisher(TopicKey::own(signal), topic_of(topics, signal)?));
        let routed = |(position, route): (usize, &RouteOptions)| {
            let destination = Destination::Route(position);
            publisher(TopicKey { destination, signal: route.signal }, &route.topic)
        };
        let routed = routes.iter().enumerate().map(routed);
        let topics: Vec<_> = Signal::ALL.into_iter().filter_map(own).chain(routed).collect();
        let closed = AtomicBool::new(false);
        let shared = Arc::new(PublisherInner { topics, producer, closed });
        let watched = shared.all_topics().cloned().collect();
        let monitor = start_monitor(shared.producer.clone(), watched, part, drain.clone())?;
        let sending = Arc::clone(&shared);
        let linger = QueueThread::start("kafka-linger", 1, move |woken| sending.send_off(woken))?;
        let (acknowledge, route_count) = (*acknowledge, routes.len());
        Ok(Self { _monitor: monitor, linger, shared, max_message_bytes, acknowledge, route_count })
    }

    /// Returns the number of routes.
    pub(crate) fn route_count(&self) -> usize {
        self.route_count
    }

    /// Returns whether Kafka is expected to accept a topic's requests now.
    pub(crate) fn is_healthy(&self, topic: TopicKey) -> bool {
        self.topic_for(topic).is_some_and(|topic| topic.is_healthy())
    }

    /// Returns the longest message, in bytes.
    pub(crate) fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    fn topic_for(&self, topic: TopicKey) -> Option<&Arc<TopicPublisher>> {
        self.shared.topics.iter().find(|(key, _)| *key == topic).map(|(_, topic)| topic)
    }

    /// Publishes a request that is on disk, and is sent again from there if it fails: it has no
    /// timeout while other messages are stored.
    pub(crate) fn publish_from_disk(
        &self,
        destination: Destination,
        request: PublishRequest<'_>,
    ) -> Result<PendingDelivery, PublishError> {
        let (sender, delivery) = PendingDelivery::new_pair();
        self.accept_request(destination, request, Waiter::Disk(sender)).map(|_| delivery)
    }

    /// Removes the clients' requests that wait for Kafka and should go elsewhere: all while the
    /// topic stores nothing, otherwise those with a deadline by `soon`.
    pub(crate) fn take_waiting(&self, topic: TopicKey, soon: Instant) -> Vec<Message> {
        self.topic_for(topic).map(|topic| topic.take_waiting(soon)).unwrap_or_default()
    }

    fn accept_request(
        &self,
        destination: Destination,
        request: PublishRequest<'_>,
        waiter: Waiter,
    ) -> Result<DeliveryReceipt, PublishError> {
        let signal = request.signal;
        let topic = self
            .topic_for(TopicKey { destination, signal })
            .ok_or(PublishError::Unconfigured(signal))?;
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(PublishError::Draining);
        }
        if !topic.is_accepting() {
            let problem = topic.problem_at(Instant::now());
            let unknown = || format!("topic {} currently accepts no records", topic.settings.name);
            return Err(PublishError::Unavailable(problem.unwrap_or_else(unknown)));
        }
        self.add_request(topic, request, waiter)
    }

    /// Adds a request to its topic's messages, divided if it is too long for one. It accepts all of
    /// the request or none.
    fn add_request(
        &self,
        topic: &Arc<TopicPublisher>,
        request: PublishRequest<'_>,
        waiter: Waiter,
    ) -> Result<DeliveryReceipt, PublishError> {
        let PublishRequest { signal, bytes, checked, mut reservation, .. } = request;
        let requests = if topic.settings.by_trace {
            if !reservation.try_resize(bytes.len() as u64 * SORTED_FACTOR) {
                return Err(PublishError::of_full_budget(
                    &reservation,
                    bytes.len() as u64 * (1 + SORTED_FACTOR),
                ));
            }
            let buckets = sort_by_trace(bytes, topic.sorted_partitions())?;
            let of_partition = |Bucket { index, part }: Bucket| {
                let checked = outline_of(signal, &part.bytes, part.records);
                (Some(index as usize), Cow::Owned(part.bytes), checked)
            };
            buckets.into_iter().map(of_partition).collect()
        } else {
            vec![(None, Cow::Borrowed(bytes), checked)]
        };
        let (mut messages, mut rejected_records) = (Vec::new(), 0);
        for (partition, bytes, checked) in requests {
            let cut: Pieces<'_> = cut_request(signal, bytes, checked, self.max_message_bytes)?;
            rejected_records += cut.rejected_records;
            let message = |(bytes, checked)| (partition, bytes, checked);
            messages.extend(cut.pieces.into_iter().map(message));
        }
        // Parts repeat what surrounds their records.
        let retained_bytes = messages.iter().map(|(_, bytes, _)| bytes.len() as u64).sum::<u64>();
        let retained_bytes = retained_bytes * RETAINED_QUARTERS / 4;
        if !reservation.try_resize(retained_bytes) {
            return Err(PublishError::of_full_budget(
                &reservation,
                bytes.len() as u64 + retained_bytes,
            ));
        }
        topic.count_rejected(rejected_records);
        let result = DeliveryReceipt::with_rejected(rejected_records);
        let parts = RequestPart::new_parts(messages.len(), result.clone(), waiter, reservation);
        let mut opened = false;
        for ((partition, bytes, checked), part) in messages.iter().zip(parts) {
            opened |= topic.add_request(*partition, bytes, checked, part);
        }
        if opened {
            // A full queue wakes the thread too.
            let _ = self.linger.try_send(());
        }
        Ok(result)
    }
}

impl RunningExporter for KafkaPublisher {
    /// Sends open messages and waits until Kafka has confirmed everything.
    fn flush(&self, time: Duration) -> bool {
        failpoint::hit("in-drain");
        self.shared.closed.store(true, Ordering::Release);
        let deadline = Instant::now() + time;
        for topic in self.shared.all_topics() {
            topic.send_due(None);
        }
        self.shared.all_topics().all(|topic| topic.wait_idle(deadline))
    }

    fn route_publishers(self: Arc<Self>) -> Vec<Arc<dyn Publish>> {
        route_publishers(&self, self.route_count())
    }
}

impl PublishTo for KafkaPublisher {
    fn publish_to(
        &self,
        destination: Destination,
        request: PublishRequest<'_>,
    ) -> Result<PendingDelivery, PublishError> {
        if self.acknowledge == Acknowledge::AfterBuffering {
            if !request.cancellation.begin_send() {
                return Err(PublishError::Unavailable(
                    "its client was already answered".to_owned(),
                ));
            }
            let receipt = self.accept_request(destination, request, Waiter::Nobody)?;
            return Ok(PendingDelivery::delivered(receipt));
        }
        let (sender, delivery) = PendingDelivery::new_pair();
        let waiter = Waiter::Client(sender, request.cancellation.clone());
        self.accept_request(destination, request, waiter)?;
        Ok(delivery)
    }

    fn has_topic(&self, topic: TopicKey) -> bool {
        self.topic_for(topic).is_some()
    }
}

impl Publish for KafkaPublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        self.publish_to(Destination::Own, request)
    }

    fn accepts_signal(&self, signal: Signal) -> bool {
        self.has_topic(TopicKey::own(signal))
    }
}

impl PublisherInner {
    fn all_topics(&self) -> impl Iterator<Item = &Arc<TopicPublisher>> {
        self.topics.iter().map(|(_, topic)| topic)
    }

    /// Runs the thread that sends each message when it is due, and checks overdue ones.
    fn send_off(&self, woken: &Receiver<()>) {
        let mut tend_at = Instant::now() + TEND_INTERVAL;
        let mut due = tend_at;
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            if woken.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let now = Instant::now();
            if now >= tend_at {
                tend_at = now + TEND_INTERVAL;
                self.expire_overdue(now);
            }
            let dues = self.all_topics().filter_map(|topic| topic.send_due(Some(now)));
            due = dues.fold(tend_at, Instant::min);
        }
    }

    /// Answers clients of overdue messages, and withdraws everything once nothing else is stored:
    /// withdrawn messages aren't sent any more. The client library can only withdraw all at once,
    /// so while others are stored, the few messages of a stalled partition stay with it.
    fn expire_overdue(&self, now: Instant) {
        let has_overdue =
            self.all_topics().fold(false, |overdue, topic| topic.process_due(now) | overdue);
        let stores_nothing = |topic: &Arc<TopicPublisher>| {
            topic.healthy_in_flight(now) == 0 && !topic.has_stored_within(PROOF_AGE)
        };
        if has_overdue && self.all_topics().all(stores_nothing) {
            tracing::warn!("Kafka stores nothing; all messages in flight are withdrawn");
            // Don't wait: the library's threads may be busy.
            self.producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
    }
}
