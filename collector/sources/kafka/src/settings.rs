//! The settings of a Kafka source, resolved from the configuration, and their form for librdkafka.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{Batch, GroupProtocol, KafkaReceiver, MessageTimes, SecretError};
use millrace_kafka_tokens::TokenSettings;
use millrace_pipeline::batch::BatchLimits;
use millrace_pipeline::kafka_client::{Property, client_properties};
use millrace_wire::Signal;
use millrace_wire::otlp::TimeRange;
use rdkafka::ClientConfig;

use millrace_pipeline::record_times::message_times;

/// The maximum heartbeat interval, Kafka's own default. Members learn of a rebalance by their next
/// heartbeat, and until then the others' commits wait with their requests to join: all members stop
/// for that long.
const HEARTBEAT_MAX: Duration = Duration::from_secs(3);
/// The longest answer of a broker that is received: 512 MiB. Brokers send no more than
/// `fetch.max.bytes` unless a single batch is longer.
const MAX_RESPONSE_BYTES: u64 = 512 << 20;

/// The shortest limit for an answer: librdkafka's minimum for its longest message.
const MIN_RESPONSE_BYTES: u64 = 1_000;

/// When an insert may be sent, relative to the commit that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    /// At once. After a crash some of the last batches may be stored twice.
    AtLeastOnce,
    /// After a commit has named its offsets: a restart repeats exactly the same inserts and the
    /// tables drop them. It costs one small commit per round of inserts.
    EffectivelyOnce,
}

/// One topic and its signal.
#[derive(Clone, Debug)]
pub struct SourceTopic {
    /// Its name.
    pub name: Arc<str>,
    /// The signal of its messages.
    pub signal: Signal,
}

/// All settings of a source.
#[derive(Clone)]
pub struct SourceSettings {
    /// The properties of the connection; they may hold secrets, hence no `Debug`.
    pub(super) connection: Vec<Property>,
    /// Where tokens are from, if the connection authenticates by them.
    pub(super) tokens: Option<TokenSettings>,
    pub(super) group: Arc<str>,
    pub(super) instance: Option<String>,
    pub(super) topics: Vec<SourceTopic>,
    pub(super) workers: u16,
    pub(super) fetch_queue_bytes: u64,
    pub(super) session_timeout: Duration,
    pub(super) protocol: GroupProtocol,
    pub(super) batch: BatchLimits,
    pub(super) delivery: DeliveryMode,
    pub(super) record_times: MessageTimes,
}

impl SourceSettings {
    /// Returns whether a commit names each batch before it is sent.
    pub(super) fn announces_batches(&self) -> bool {
        self.delivery == DeliveryMode::EffectivelyOnce
    }

    /// Returns the heartbeat interval: a member may miss three before the group evicts it, and
    /// never longer than [`HEARTBEAT_MAX`].
    fn heartbeat_interval(&self) -> Duration {
        (self.session_timeout / 4).min(HEARTBEAT_MAX)
    }

    /// Resolves the configuration. `instance` is the value of the variable that
    /// `groupInstanceIdEnv` names; `cores` decides the number of workers if the configuration
    /// doesn't. Secret files are read now.
    ///
    /// # Errors
    /// A secret file can't be used.
    pub fn new(
        receiver: &KafkaReceiver,
        batch: &Batch,
        instance: Option<String>,
        cores: NonZeroU16,
        delivery: DeliveryMode,
    ) -> Result<Self, SecretError> {
        let topics = receiver.topics.configured_topics().filter_map(|(signal, topic)| {
            Some(SourceTopic { name: topic.as_str().into(), signal: signal.parse().ok()? })
        });
        Ok(Self {
            connection: client_properties(&receiver.connection)?,
            tokens: TokenSettings::of_connection(&receiver.connection),
            group: receiver.group_id.as_str().into(),
            instance,
            topics: topics.collect(),
            workers: receiver.workers.unwrap_or(cores).get(),
            fetch_queue_bytes: receiver.fetch_queue_bytes.get(),
            session_timeout: Duration::from_secs(receiver.session_timeout_seconds.into()),
            protocol: receiver.group_protocol,
            batch: batch.into(),
            delivery,
            record_times: receiver.record_times.clone(),
        })
    }

    /// Returns the times that records of a message may have. They follow from its time in Kafka, so
    /// that another attempt makes the same rows. Records of a message without a time may have any.
    pub(super) fn accepted_times(&self, message_millis: Option<i64>) -> TimeRange {
        match message_millis.and_then(|millis| u64::try_from(millis).ok()) {
            None | Some(0) => TimeRange::ALL,
            Some(millis) => message_times(&self.record_times, millis.saturating_mul(1_000_000)),
        }
    }

    /// Returns the client settings of one worker in the group.
    pub(super) fn group_client(&self, worker: u16) -> ClientConfig {
        let mut client = self.reading_client();
        if let Some(instance) = &self.instance {
            client.set("group.instance.id", format!("{instance}-{worker}"));
        }
        match self.protocol {
            GroupProtocol::Classic => {
                client
                    .set("partition.assignment.strategy", "cooperative-sticky")
                    .set("session.timeout.ms", self.session_timeout.as_millis().to_string())
                    .set(
                        "heartbeat.interval.ms",
                        self.heartbeat_interval().as_millis().to_string(),
                    );
            }
            // The broker decides timeouts and assignment.
            GroupProtocol::Consumer => {
                client.set("group.protocol", "consumer");
            }
        }
        client.set("auto.offset.reset", "earliest");
        client
    }

    /// Returns client settings for reading partitions by number, outside the group.
    pub(super) fn reading_client(&self) -> ClientConfig {
        let queue_bytes = self.fetch_queue_bytes;
        let answer_bytes = (queue_bytes / 8).max(MIN_RESPONSE_BYTES).to_string();
        let mut client = ClientConfig::new();
        for (name, value) in &self.connection {
            client.set(*name, value.as_str());
        }
        client
            .set("group.id", self.group.as_ref())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("isolation.level", "read_committed")
            .set("allow.auto.create.topics", "false")
            // A topic created after the start is soon discovered.
            .set("topic.metadata.refresh.interval.ms", "10000")
            // A broker's checks end at its disk, and TCP's 16 bits at every hop. Undetected damage
            // would be stored permanently. The check costs about 5 ns a span.
            .set("check.crcs", "true")
            // Fetching stops at half of the queue's bytes. One answer is at most an eighth of them
            // as sent, and expands to about five times that for OTLP: the sum stays near the
            // complete size.
            .set("queued.max.messages.kbytes", (queue_bytes / 2 / 1024).max(1).to_string())
            .set("fetch.max.bytes", answer_bytes.as_str())
            // A producer's setting, but librdkafka never requests less than this at once.
            .set("message.max.bytes", answer_bytes.as_str())
            // A message longer than the other limits is still sent, alone; an answer longer than
            // this one would break its connection repeatedly.
            .set("receive.message.max.bytes", MAX_RESPONSE_BYTES.to_string())
            .set("fetch.message.max.bytes", (queue_bytes / 8).clamp(1, 1 << 20).to_string())
            // librdkafka's default of a second is too long for a queue of a few MiB.
            .set("fetch.queue.backoff.ms", "10")
            .set("fetch.wait.max.ms", "250");
        client
    }
}
