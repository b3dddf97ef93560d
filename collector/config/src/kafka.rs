//! The Kafka sections: one connection type for both directions, the receiver and the exporter.

use std::num::NonZeroU16;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::names::{EnvName, GroupId, TopicName};
use crate::network::BootstrapServer;
use crate::secret::{ClientTls, SecretFile};
use crate::section::section;
use crate::units::ByteSize;

section! {
    /// How to reach a Kafka cluster.
    pub struct KafkaConnection {
        /// Brokers to begin with, as `host:port`: one at least.
        pub bootstrap_servers: Vec<BootstrapServer> = Vec::new(),
        /// TLS towards the brokers; plain text when absent.
        pub tls: Option<ClientTls> = None,
        /// Who to log in as; nobody when absent.
        pub sasl: Option<Sasl> = None,
    }
}

/// A SASL log-in.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sasl {
    /// The mechanism. `PLAIN` needs `tls`.
    pub mechanism: SaslMechanism,
    /// A file with the user name.
    pub username_file: SecretFile,
    /// A file with the password.
    pub password_file: SecretFile,
}

/// The SASL mechanisms spoken, under Kafka's own names.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaslMechanism {
    /// Salted challenge-response over SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// Salted challenge-response over SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// The password in clear: inside TLS only.
    #[serde(rename = "PLAIN")]
    Plain,
}

impl SaslMechanism {
    /// The name that Kafka and librdkafka know it by.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::Plain => "PLAIN",
        }
    }
}

/// The topic of each signal. A block that is written holds the signals that flow, and no others.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Topics {
    /// Traces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traces: Option<TopicName>,
    /// Logs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logs: Option<TopicName>,
    /// Metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<TopicName>,
}

impl Topics {
    /// All signals under the names the OpenTelemetry world shares.
    #[must_use]
    pub fn all() -> Self {
        Self {
            traces: Some(TopicName::of_literal("otlp_traces")),
            logs: Some(TopicName::of_literal("otlp_logs")),
            metrics: Some(TopicName::of_literal("otlp_metrics")),
        }
    }

    /// The topics given, with the signal's name, in a fixed order.
    pub fn given(&self) -> impl Iterator<Item = (&'static str, &TopicName)> {
        let Self { traces, logs, metrics } = self;
        [("traces", traces), ("logs", logs), ("metrics", metrics)]
            .into_iter()
            .filter_map(|(signal, topic)| Some((signal, topic.as_ref()?)))
    }
}

section! {
    /// OTLP requests read from Kafka.
    pub struct KafkaReceiver {
        /// The cluster.
        pub connection: KafkaConnection = KafkaConnection::default(),
        /// The consumer group.
        pub group_id: GroupId = GroupId::of_literal("millrace-gateway"),
        /// The environment variable that holds this member's fixed name, such as `POD_NAME`: the
        /// group then waits for a restarted member instead of moving its partitions. None when
        /// absent.
        pub group_instance_id_env: Option<EnvName> = None,
        /// What is read.
        pub topics: Topics = Topics::all(),
        /// Where records go that can't be stored. For a signal not named here it is the signal's
        /// topic with `_dead_letter` behind it.
        pub dead_letter_topics: Topics = Topics::default(),
        /// Consumers, each on a thread of its own; one per core when absent.
        pub workers: Option<NonZeroU16> = None,
        /// What one consumer may have fetched and not yet handed over, at most; all consumers
        /// together take at most a quarter of the memory budget. It counts in the budget.
        pub fetch_queue_bytes: ByteSize = ByteSize::mib(8),
        /// How the group agrees on who reads what.
        pub group_protocol: GroupProtocol = GroupProtocol::Classic,
        /// How long the group waits for a silent member, in seconds, 6 to 300. With the `Consumer`
        /// protocol it is the broker's `group.consumer.session.timeout.ms` that counts.
        pub session_timeout_seconds: u32 = 45,
        /// What a crash may do to rows.
        pub delivery: Delivery = Delivery::EffectivelyOnce,
    }
}

/// How a consumer group agrees on who reads what.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupProtocol {
    /// Members agree among themselves, partition by partition (cooperative sticky). Any broker.
    Classic,
    /// The broker assigns, and members that keep their partitions never wait (KIP-848). Kafka 4.0
    /// and later. A group changes over once all its members have left.
    Consumer,
}

/// What a crash may do to rows.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// Some rows may be stored twice.
    AtLeastOnce,
    /// Inserts repeat exactly, and tables that remember their last inserts drop the second.
    EffectivelyOnce,
}

impl KafkaReceiver {
    /// Where records of each signal read go when they can't be stored.
    ///
    /// [`Config::check`](crate::Config::check) has made sure that the suffix leaves a legal name.
    #[must_use]
    pub fn resolved_dead_letter_topics(&self) -> Topics {
        let resolve = |own: &Option<TopicName>, topic: &Option<TopicName>| {
            let topic = topic.as_ref()?;
            own.clone().or_else(|| TopicName::new(format!("{topic}{DEAD_LETTER_SUFFIX}")).ok())
        };
        let (own, read) = (&self.dead_letter_topics, &self.topics);
        Topics {
            traces: resolve(&own.traces, &read.traces),
            logs: resolve(&own.logs, &read.logs),
            metrics: resolve(&own.metrics, &read.metrics),
        }
    }
}

/// What is put behind a topic's name to name its dead-letter topic.
pub(crate) const DEAD_LETTER_SUFFIX: &str = "_dead_letter";

section! {
    /// OTLP requests written to Kafka.
    pub struct KafkaExporter {
        /// The cluster.
        pub connection: KafkaConnection = KafkaConnection::default(),
        /// Where each signal goes. A signal without a topic is refused at the receiver.
        pub topics: Topics = Topics::all(),
        /// How messages are compressed.
        pub compression: Compression = Compression::Zstd,
        /// The longest message, before compression; at most the topic's `max.message.bytes`.
        /// Kafka's own default is 1,048,588, so 1,000,000 leaves room for headers.
        pub max_message_bytes: ByteSize = ByteSize::bytes(1_000_000),
        /// How long requests wait for others to share a message with, in milliseconds, 0 to 1,000.
        pub linger_millis: u32 = 10,
        /// Which spans share a partition.
        pub partition_by: PartitionBy = PartitionBy::Any,
        /// When the client is answered.
        pub acknowledge: Acknowledge = Acknowledge::AfterKafka,
        /// How long a message may take to be stored, in seconds, 1 to 600; the client is then told
        /// to send again, and whether its records may be stored already. Keep it under the
        /// receiver's `requestSeconds`.
        pub delivery_timeout_seconds: u32 = 25,
        /// A buffer on disk for when Kafka is away. None when absent: clients keep their records
        /// then.
        pub buffer: Option<DiskBuffer> = None,
    }
}

/// A buffer on disk. Needs `acknowledge: AfterKafka`, which then means: after Kafka or the disk.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiskBuffer {
    /// A folder of its own for each process, as an absolute path. It is made if need be.
    pub path: PathBuf,
    /// What it may take: 16 MiB to 1 TiB, and four of the longest messages at least.
    #[serde(default = "default_buffer_bytes")]
    pub max_bytes: ByteSize,
    /// Whether a process that stops sends what is on disk first, as far as its deadline allows:
    /// for a folder that is removed with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = false)))]
    pub drain: bool,
}

/// At 100 bytes a record of OTLP, ten million records.
fn default_buffer_bytes() -> ByteSize {
    ByteSize::mib(1024)
}

/// How messages are compressed.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// The smallest messages: about a fifth of the size.
    Zstd,
    /// About a third of the size for less work.
    Lz4,
    /// As they are.
    None,
}

/// Which spans share a partition. Logs and metrics go to any.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionBy {
    /// Those that came together: full messages, least work.
    Any,
    /// Those of one trace, from whichever edge: spans are sorted at the edge, messages are as many
    /// as the topic has partitions, and smaller. More partitions later move traces.
    TraceId,
}

/// When a client is answered.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acknowledge {
    /// After every in-sync replica has the message. A crash of this process loses nothing answered.
    AfterKafka,
    /// Once the request is checked and in memory. Faster answers; a crash loses what was in memory.
    AfterBuffering,
}
