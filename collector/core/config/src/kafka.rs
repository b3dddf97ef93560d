//! The Kafka sections: one connection type for both directions, the receiver and the exporter.

#[cfg(test)]
pub(crate) mod arbitrary;
mod check;

use std::num::NonZeroU16;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::document::section::section;
use crate::record_times::MessageTimes;
use crate::values::names::{EnvName, GroupId, TopicName};
use crate::values::network::BootstrapServer;
use crate::values::secret::{ClientTls, SecretFile};
use crate::values::units::ByteSize;
use crate::values::url::HttpUrl;

section! {
    /// How to reach a Kafka cluster.
    pub struct KafkaConnection {
        /// Bootstrap servers as `host:port`; at least one.
        pub bootstrap_servers: Vec<BootstrapServer> = Vec::new(),
        /// TLS to the brokers; plaintext when absent.
        pub tls: Option<ClientTls> = None,
        /// SASL authentication; none when absent.
        pub sasl: Option<Sasl> = None,
    }
}

/// SASL authentication. The mechanism decides which fields are required.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sasl {
    /// SASL mechanism. `PLAIN` requires `tls`.
    pub mechanism: SaslMechanism,
    /// User name. Either it or `usernameFile` is required, except with `OAUTHBEARER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// File with the user name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username_file: Option<SecretFile>,
    /// File with the password. Required, except with `OAUTHBEARER`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<SecretFile>,
    /// Provider of tokens. `OAUTHBEARER` requires either it or `awsMskIam`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oauth: Option<KafkaOAuth>,
    /// Tokens for Amazon MSK with IAM access control. `OAUTHBEARER` requires either it or `oauth`.
    /// Requires `tls`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aws_msk_iam: Option<KafkaAwsMskIam>,
}

/// Tokens for Amazon MSK with IAM access control, which this process signs. Without keys, it uses
/// the AWS identity of its pod: an IAM role of the service account (IRSA) or EKS Pod Identity.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaAwsMskIam {
    /// AWS region of the cluster, for example `eu-central-1`.
    pub region: String,
    /// File with the access key ID of an IAM user. Together with `secretAccessKeyFile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_id_file: Option<SecretFile>,
    /// File with the secret access key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_access_key_file: Option<SecretFile>,
}

/// Tokens from an OpenID Connect provider by client credentials, renewed before they expire.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KafkaOAuth {
    /// URL of the token endpoint.
    pub token_endpoint: HttpUrl,
    /// Client ID at the provider.
    pub client_id: String,
    /// File with the client secret.
    pub client_secret_file: SecretFile,
    /// Scopes to request, separated by spaces; the provider's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Trusted CA certificates of the token endpoint in PEM; the system's when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<SecretFile>,
}

/// SASL mechanisms, under Kafka's names.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SaslMechanism {
    /// Salted challenge-response over SHA-512.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// Salted challenge-response over SHA-256.
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// Password in plaintext: only within TLS.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Tokens of an OpenID Connect provider, or for Amazon MSK.
    #[serde(rename = "OAUTHBEARER")]
    OAuthBearer,
}

impl SaslMechanism {
    /// The name that Kafka and librdkafka know it by.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ScramSha512 => "SCRAM-SHA-512",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::Plain => "PLAIN",
            Self::OAuthBearer => "OAUTHBEARER",
        }
    }
}

/// Topic of each signal. If the block is set, signals without a topic are disabled.
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
    pub fn all_signals() -> Self {
        Self {
            traces: Some(TopicName::of_literal("otlp_traces")),
            logs: Some(TopicName::of_literal("otlp_logs")),
            metrics: Some(TopicName::of_literal("otlp_metrics")),
        }
    }

    /// The topics given, with the signal's name, in a fixed order.
    pub fn configured_topics(&self) -> impl Iterator<Item = (&'static str, &TopicName)> {
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
        /// Environment variable with this member's static name (`group.instance.id`), such as
        /// `POD_NAME`: the group then waits for a restarted member instead of moving its
        /// partitions. None when absent.
        pub group_instance_id_env: Option<EnvName> = None,
        /// Topics to read.
        pub topics: Topics = Topics::all_signals(),
        /// Dead-letter topics, for records that can't be stored. Without one, a signal uses its
        /// topic's name followed by `_dead_letter`.
        pub dead_letter_topics: Topics = Topics::default(),
        /// Consumers, each on a separate thread; one per core when absent.
        pub workers: Option<NonZeroU16> = None,
        /// Bytes that one consumer may have fetched and not yet handed over; all consumers together
        /// use at most a quarter of the memory budget. The bytes count in the budget.
        pub fetch_queue_bytes: ByteSize = ByteSize::mib(8),
        /// Rebalance protocol of the consumer group.
        pub group_protocol: GroupProtocol = GroupProtocol::Classic,
        /// Session timeout of the consumer group, in seconds, 6 to 300. With the `Consumer`
        /// protocol, the broker's `group.consumer.session.timeout.ms` applies.
        pub session_timeout_seconds: u32 = 45,
        /// Delivery guarantee after a crash.
        pub delivery: Delivery = Delivery::EffectivelyOnce,
        /// Accepted record times, relative to the time of their message. One more day is accepted
        /// on both sides, since messages wait in an edge's buffer and clocks differ. All records of
        /// a resource in a message become a dead letter if one of them has another time.
        pub record_times: MessageTimes = MessageTimes::default(),
    }
}

/// Rebalance protocol of a consumer group.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupProtocol {
    /// The members assign partitions among themselves, incrementally (cooperative sticky). Any
    /// broker.
    Classic,
    /// The broker assigns partitions, and members that retain their partitions never wait
    /// (KIP-848). Requires Kafka 4.0. A group changes its protocol once all its members have left.
    Consumer,
}

/// Delivery guarantee after a crash.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delivery {
    /// Some rows may be duplicated.
    AtLeastOnce,
    /// Inserts are repeated identically, and tables that remember their last inserts drop the
    /// duplicates.
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

/// The longest message, before compression, that an edge may write and that a gateway decodes:
/// 8 MiB, eight times the brokers' default. One constant for both: a longer message of an edge
/// would be acknowledged and then become a dead letter without bytes. No setting of the gateway
/// changes it, so that a second attempt at a message makes the same rows as the first.
pub const MAX_MESSAGE_BYTES: ByteSize = ByteSize::mib(8);

/// What is put behind a topic's name to name its dead-letter topic.
pub(crate) const DEAD_LETTER_SUFFIX: &str = "_dead_letter";

section! {
    /// OTLP requests written to Kafka.
    pub struct KafkaExporter {
        /// The cluster.
        pub connection: KafkaConnection = KafkaConnection::default(),
        /// Topic of each signal. Signals without a topic are refused at the receiver.
        pub topics: Topics = Topics::all_signals(),
        /// Compression of messages.
        pub compression: Compression = Compression::Zstd,
        /// Longest message before compression; at most the topic's `max.message.bytes`. Gateways
        /// accept at most 8 MiB. Kafka's default is 1,048,588, so 1,000,000 leaves space for
        /// headers.
        pub max_message_bytes: ByteSize = ByteSize::bytes(1_000_000),
        /// How long requests wait to share a message with others, in milliseconds, 0 to 1,000.
        pub linger_millis: u32 = 10,
        /// Which spans share a partition.
        pub partition_by: PartitionBy = PartitionBy::Any,
        /// When the client is answered.
        pub acknowledge: Acknowledge = Acknowledge::AfterKafka,
        /// Time within which a message must be stored, in seconds, 1 to 600. Afterwards, senders
        /// that still wait (log files, scrapes, and clients with a timeout above the receiver's
        /// `answerSeconds`) get an error that requests a retry and states whether the records may
        /// be stored already. Must be below the receiver's `requestSeconds`.
        pub delivery_timeout_seconds: u32 = 25,
        /// Buffer on disk for outages of Kafka. None when absent: clients then retain their
        /// records.
        pub buffer: Option<DiskBuffer> = None,
    }
}

/// Buffer on disk. Requires `acknowledge: AfterKafka`, which then means: after Kafka or the disk.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiskBuffer {
    /// Absolute path of a folder for this process alone. It is created if it does not exist.
    pub path: PathBuf,
    /// Size limit of the buffer: 16 MiB to 1 TiB, and at least four of the longest messages.
    #[serde(default = "default_buffer_bytes")]
    pub max_bytes: ByteSize,
    /// Whether a process that stops first sends the records on disk, within its shutdown deadline:
    /// for a folder that is removed with the process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(feature = "json-schema", schemars(extend("default" = false)))]
    pub drain: bool,
}

/// At 100 bytes a record of OTLP, ten million records.
fn default_buffer_bytes() -> ByteSize {
    ByteSize::mib(1024)
}

/// Compression of messages.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// Smallest messages: about a fifth of the size.
    Zstd,
    /// About a third of the size, with less CPU.
    Lz4,
    /// No compression.
    None,
}

/// Which spans share a partition. Logs and metrics go to any partition.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartitionBy {
    /// Spans that arrive together: full messages, least work.
    Any,
    /// Spans of one trace, from all edges: spans are sorted at the edge, into smaller messages, one
    /// for each partition of the topic. Adding partitions moves traces.
    TraceId,
}

/// When a client is answered.
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acknowledge {
    /// After every in-sync replica has the message. A crash of this process loses no acknowledged
    /// records.
    AfterKafka,
    /// Once the request is checked and in memory. Faster answers; a crash loses the records in
    /// memory.
    AfterBuffering,
}
