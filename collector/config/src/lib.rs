//! The collector's settings: one typed document, read by the collector and rendered by the
//! operator.
//!
//! [`Config`] is the document as written; [`Config::parse`] reads it and refuses unknown fields;
//! [`Config::check`] is the only way to a [`Checked`] one, in which the mode is decided and every
//! limit is inside its range. Each problem found carries the field's path, its line and column, and
//! what to write instead; all problems of a document are reported at once.
//!
//! What this crate must not do: open sockets, read the environment, or hold a secret in a type that
//! prints. It reads a file only through [`SecretFile::read`]. Documents over [`MAX_DOCUMENT_BYTES`]
//! are refused.

mod check;
mod clickhouse;
mod files;
mod http_access;
mod kafka;
mod lines;
mod names;
mod network;
mod otlp;
mod own;
mod pasted;
mod problem;
mod process;
mod prometheus;
mod relabel;
mod secret;
mod section;
mod selector;
mod target_list;
mod text;
mod units;
mod url;

pub use check::{Checked, LogSources, Mode, Sources};
pub use clickhouse::{AcknowledgeInsert, Attributes, Batch, ClickHouseExporter, Credentials};
pub use files::{
    ContainersReceiver, Encoding, FilesReceiver, KernelReceiver, Multiline, NamespaceWeight, Parse,
    ParseFormat, Positions, StartAt, TimeFormat, Timestamp, Traces,
};
pub use http_access::{Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy};
pub use kafka::{
    Acknowledge, Compression, Delivery, DiskBuffer, GroupProtocol, KafkaConnection, KafkaExporter,
    KafkaReceiver, PartitionBy, Sasl, SaslMechanism, Topics,
};
pub use names::{EnvName, GroupId, Identifier, NameError, TopicName};
pub use network::{BootstrapServer, EndpointError, HttpEndpoint, TargetAddress};
pub use otlp::{GrpcListener, HttpListener, OtlpLimits, OtlpReceiver, ServerTls};
pub use own::{OwnOtlp, OwnTelemetry};
pub use problem::{ConfigError, Problem};
pub use process::{Admin, Memory, Shutdown};
pub use prometheus::{
    HttpTargets, PrometheusReceiver, ScrapeJob, ScrapeLimits, ScrapeShare, path_and_query,
    push_encoded,
};
pub use relabel::{RelabelAction, RelabelRule};
pub use secret::{ClientTls, MAX_SECRET_BYTES, Secret, SecretError, SecretFile};
pub use selector::{LabelOperator, LabelRequirement, LabelSelector};
pub use target_list::{
    ListError, ListTextError, ListedAddress, ListedName, ListedValue, TARGET_LIST_BYTES_MAX,
    TARGETS_MAX, TargetGroup,
};
pub use units::{ByteSize, ByteSizeError};
pub use url::{HttpUrl, NoProxy, NoProxyError, Scheme, UrlError};

use lines::Lines;
use section::section;

/// The longest document read, in bytes. A ConfigMap holds at most 1 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

section! {
    /// A collector's settings as written in YAML.
    ///
    /// Fields left out take their defaults, and fields that equal their default are left out when
    /// the document is rendered, so a rendered document holds what its author decided and no more.
    pub struct Config {
        /// The listener for probes and metrics.
        pub admin: Admin = Admin::default(),
        /// How much memory records may take.
        pub memory: Memory = Memory::default(),
        /// How a shutdown goes.
        pub shutdown: Shutdown = Shutdown::default(),
        /// The process's own traces and logs.
        pub telemetry: OwnTelemetry = OwnTelemetry::default(),
        /// Where it is kept how far files, and the kernel's log, are read.
        pub positions: Positions = Positions::default(),
        /// Where records come in: `kafka` alone, or any of the others.
        pub receivers: Receivers = Receivers::default(),
        /// Where records go: exactly one must be given.
        pub exporters: Exporters = Exporters::default(),
    }
}

section! {
    /// Where records come in.
    pub struct Receivers {
        /// OTLP over gRPC and HTTP, from clients: makes this collector an edge, or, with ClickHouse
        /// as the exporter, the whole way in one process.
        pub otlp: Option<OtlpReceiver> = None,
        /// OTLP requests read from Kafka: makes this collector a gateway.
        pub kafka: Option<KafkaReceiver> = None,
        /// What this node's containers write.
        pub containers: Option<ContainersReceiver> = None,
        /// Log files of the host or of a volume.
        pub files: Vec<FilesReceiver> = Vec::new(),
        /// The log of this machine's kernel.
        pub kernel: Option<KernelReceiver> = None,
        /// Targets that are scraped.
        pub prometheus: Option<PrometheusReceiver> = None,
    }
}

section! {
    /// Where records go.
    pub struct Exporters {
        /// Kafka topics, one per signal.
        pub kafka: Option<KafkaExporter> = None,
        /// ClickHouse tables.
        pub clickhouse: Option<ClickHouseExporter> = None,
    }
}

impl Config {
    /// Reads a document and checks it.
    ///
    /// # Errors
    /// All problems found, each with its field, line and column.
    pub fn load(text: &str) -> Result<Checked, ConfigError> {
        let config = Self::parse(text)?;
        check::check(config, &Lines::of(text))
    }

    /// Reads a document without checking it as a whole: types, names and unknown fields only.
    ///
    /// # Errors
    /// The first thing that is not a settings document: broken YAML, an unknown field, a value of
    /// the wrong type or outside its alphabet.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_DOCUMENT_BYTES {
            return Err(ConfigError::one(Problem::whole(format!(
                "the document has {} bytes; the limit is {MAX_DOCUMENT_BYTES}",
                text.len()
            ))));
        }
        // An empty file is an empty mapping, which then fails for what it lacks, by name.
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_norway::from_str(text).map_err(|error| ConfigError::one(Problem::of_yaml(&error)))
    }

    /// Checks the document as a whole and decides the mode. Used where there is no text, as in the
    /// operator: problems name fields but no lines.
    ///
    /// # Errors
    /// All problems found.
    pub fn check(self) -> Result<Checked, ConfigError> {
        check::check(self, &Lines::default())
    }

    /// The document as YAML, without fields that equal their defaults.
    ///
    /// # Errors
    /// When the YAML writer fails, which it shouldn't for a `Config`.
    pub fn render(&self) -> Result<String, ConfigError> {
        serde_norway::to_string(self)
            .map_err(|error| ConfigError::one(Problem::whole(error.to_string())))
    }
}
