//! The settings of a Kafka source, resolved from the configuration, and their form for librdkafka.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{Batch, GroupProtocol, KafkaReceiver, SecretError};
use millrace_pipeline::batch::BatchLimits;
use millrace_pipeline::kafka_client::{Property, properties};
use millrace_wire::Signal;
use rdkafka::ClientConfig;

/// Members learn of a rebalance by their next heartbeat, and while one is awaited the others'
/// commits wait with their requests to join: everybody stands still for so long. Kafka's own
/// default.
const HEARTBEAT_MAX: Duration = Duration::from_secs(3);
/// The longest answer of a broker that is received: 512 MiB. Brokers send no more than
/// `fetch.max.bytes` unless a single batch is longer.
const MAX_ANSWER_BYTES: u64 = 512 << 20;

/// The shortest limit for an answer: librdkafka's least for its longest message.
const MIN_ANSWER_BYTES: u64 = 1_000;

/// When an insert may be sent, relative to the commit that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// At once. After a crash some of the last batches may be stored twice.
    AtLeastOnce,
    /// After a commit has named its offsets: a restart repeats exactly the same inserts and the
    /// tables drop them. Costs one small commit per round of inserts.
    EffectivelyOnce,
}

/// One topic and what is in it.
#[derive(Clone, Debug)]
pub struct SourceTopic {
    /// Its name.
    pub name: Arc<str>,
    /// What its messages hold.
    pub signal: Signal,
}

/// Everything a source is told.
#[derive(Clone)]
pub struct SourceSettings {
    /// Properties of the connection; may hold secrets, hence no `Debug`.
    pub(super) connection: Vec<Property>,
    pub(super) group: Arc<str>,
    pub(super) instance: Option<String>,
    pub(super) topics: Vec<SourceTopic>,
    pub(super) workers: u16,
    pub(super) fetch_queue_bytes: u64,
    pub(super) session_timeout: Duration,
    pub(super) protocol: GroupProtocol,
    pub(super) batch: BatchLimits,
    pub(super) delivery: Delivery,
}

impl SourceSettings {
    /// Three misses before the group gives up on a member, and never longer than
    /// [`HEARTBEAT_MAX`].
    fn heartbeat(&self) -> Duration {
        (self.session_timeout / 4).min(HEARTBEAT_MAX)
    }

    /// From the configuration. `instance` is the value of the variable that
    /// `groupInstanceIdEnv` names; `cores` decides the number of workers where the configuration
    /// doesn't. Secret files are read now.
    ///
    /// # Errors
    /// When a secret file can't be used.
    pub fn new(
        receiver: &KafkaReceiver,
        batch: &Batch,
        instance: Option<String>,
        cores: NonZeroU16,
        delivery: Delivery,
    ) -> Result<Self, SecretError> {
        let topics = receiver.topics.given().filter_map(|(signal, topic)| {
            Some(SourceTopic { name: topic.as_str().into(), signal: signal.parse().ok()? })
        });
        Ok(Self {
            connection: properties(&receiver.connection)?,
            group: receiver.group_id.as_str().into(),
            instance,
            topics: topics.collect(),
            workers: receiver.workers.unwrap_or(cores).get(),
            fetch_queue_bytes: receiver.fetch_queue_bytes.get(),
            session_timeout: Duration::from_secs(receiver.session_timeout_seconds.into()),
            protocol: receiver.group_protocol,
            batch: batch.into(),
            delivery,
        })
    }

    /// The client of one worker in the group.
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
                    .set("heartbeat.interval.ms", self.heartbeat().as_millis().to_string());
            }
            // Time-outs and the way of assigning are the broker's.
            GroupProtocol::Consumer => {
                client.set("group.protocol", "consumer");
            }
        }
        client.set("auto.offset.reset", "earliest");
        client
    }

    /// A client that reads partitions by number and is no member of the group.
    pub(super) fn reading_client(&self) -> ClientConfig {
        let queue_bytes = self.fetch_queue_bytes;
        let answer_bytes = (queue_bytes / 8).max(MIN_ANSWER_BYTES).to_string();
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
            // A topic made after us is seen soon.
            .set("topic.metadata.refresh.interval.ms", "10000")
            // A broker's checks end at its disk, and TCP's 16 bits at every hop. What would pass is
            // stored for good. Costs about 5 ns a span.
            .set("check.crcs", "true")
            // Fetching stops at half of the queue's bytes. One answer is at most an eighth of
            // them as sent, and unpacks to about five times that for OTLP: the sum stays near
            // the whole.
            .set("queued.max.messages.kbytes", (queue_bytes / 2 / 1024).max(1).to_string())
            .set("fetch.max.bytes", answer_bytes.as_str())
            // Of producers, but librdkafka asks for no less than this at once.
            .set("message.max.bytes", answer_bytes.as_str())
            // A message longer than the other limits comes all the same, alone; an answer longer
            // than this one would break its connection again and again.
            .set("receive.message.max.bytes", MAX_ANSWER_BYTES.to_string())
            .set("fetch.message.max.bytes", (queue_bytes / 8).clamp(1, 1 << 20).to_string())
            // librdkafka's default of a second is an eternity for a queue of a few MiB.
            .set("fetch.queue.backoff.ms", "10")
            .set("fetch.wait.max.ms", "250");
        client
    }
}
