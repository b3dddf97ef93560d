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

mod clickhouse;
mod document;
mod kafka;
mod logs;
mod otlp;
mod own_telemetry;
mod process;
mod processing;
mod prometheus;
mod record_times;
mod values;

pub use clickhouse::{AcknowledgeInsert, Attributes, Batch, ClickHouseExporter, Credentials};
pub use document::check::{Checked, CollectorMode, EdgeExporter, ExporterNames};
pub use document::problem::{ConfigError, Problem};
pub use kafka::{
    Acknowledge, Compression, Delivery, DiskBuffer, GroupProtocol, KafkaAwsMskIam, KafkaConnection,
    KafkaExporter, KafkaOAuth, KafkaReceiver, MAX_MESSAGE_BYTES, PartitionBy, Sasl, SaslMechanism,
    Topics,
};
pub use logs::containers::{ContainersReceiver, NamespaceWeight, PodMetadata};
pub use logs::files::{Encoding, FilesReceiver};
pub use logs::kernel::KernelReceiver;
pub use logs::log_records::{
    Multiline, Parse, ParseFormat, StackTraces, StartAt, TimeFormat, Timestamp,
};
pub use otlp::{GrpcListener, HttpListener, OtlpLimits, OtlpReceiver, ServerTls};
pub use own_telemetry::{OwnOtlp, OwnTelemetry};
pub use process::{Admin, Memory, Positions, Shutdown};
pub use prometheus::http_access::{Authorization, BasicAuth, HttpAccess, HttpTls, OAuth2, Proxy};
pub use prometheus::relabel::{RelabelAction, RelabelRule};
pub use prometheus::target_list::{
    ListError, ListTextError, ListedAddress, ListedName, ListedValue, TARGET_LIST_BYTES_MAX,
    TARGETS_MAX, TargetGroup,
};
pub use prometheus::{
    HttpTargets, PrometheusReceiver, ScrapeJob, ScrapeLimits, ScrapeShare, path_and_query,
    push_encoded,
};
pub use record_times::{MessageTimes, RecordTimes};
pub use values::names::{EnvName, GroupId, Identifier, NameError, TopicName};
pub use values::network::{BootstrapServer, EndpointError, HttpEndpoint, TargetAddress};
pub use values::secret::{ClientTls, MAX_SECRET_BYTES, Secret, SecretError, SecretFile};
pub use values::selector::{LabelOperator, LabelRequirement, LabelSelector};
pub use values::units::{ByteSize, ByteSizeError};
pub use values::url::{HttpUrl, NoProxy, NoProxyError, Scheme, UrlError};

use document::check::Checker;
use document::lines::Lines;
use document::section::section;

/// The longest document read, in bytes. A ConfigMap holds at most 1 MiB.
pub const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;

section! {
    /// Settings of a collector, as written in YAML.
    ///
    /// Omitted fields take their defaults, and fields that equal their default are omitted when the
    /// document is rendered, so a rendered document holds what its author decided and no more.
    pub struct Config {
        /// The listener for probes and metrics.
        pub admin: Admin = Admin::default(),
        /// Memory that records may use.
        pub memory: Memory = Memory::default(),
        /// Behavior at shutdown.
        pub shutdown: Shutdown = Shutdown::default(),
        /// Traces and logs of the process itself.
        pub telemetry: OwnTelemetry = OwnTelemetry::default(),
        /// Where the read positions in files and in the kernel log are stored.
        pub positions: Positions = Positions::default(),
        /// Rules that run on records before they are sent, in order: statements, conditions for
        /// dropping, redaction, sampling. Only edges run them.
        pub processing: millrace_processing::Config = millrace_processing::Config::default(),
        /// Sources of records: `kafka` alone, or any of the others.
        pub receivers: Receivers = Receivers::default(),
        /// Destination of records: exactly one is required.
        pub exporters: Exporters = Exporters::default(),
    }
}

section! {
    /// Sources of records.
    pub struct Receivers {
        /// OTLP over gRPC and HTTP, from clients: makes this collector an edge, or, with ClickHouse
        /// as the exporter, edge and gateway in one process.
        pub otlp: Option<OtlpReceiver> = None,
        /// OTLP requests read from Kafka: makes this collector a gateway.
        pub kafka: Option<KafkaReceiver> = None,
        /// Logs of this node's containers.
        pub containers: Option<ContainersReceiver> = None,
        /// Log files of the host or of a volume.
        pub files: Vec<FilesReceiver> = Vec::new(),
        /// Log of this machine's kernel.
        pub kernel: Option<KernelReceiver> = None,
        /// Prometheus targets to scrape.
        pub prometheus: Option<PrometheusReceiver> = None,
    }
}

impl Receivers {
    /// Returns the names of the sections of an edge that are set, in their order in the document.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let Self { otlp, kafka: _, containers, files, kernel, prometheus } = self;
        let sections = [
            ("otlp", otlp.is_some()),
            ("containers", containers.is_some()),
            ("files", !files.is_empty()),
            ("kernel", kernel.is_some()),
            ("prometheus", prometheus.is_some()),
        ];
        sections.into_iter().filter_map(|(name, is_set)| is_set.then_some(name)).collect()
    }

    fn check(&self, admin: &Admin, checker: &mut Checker<'_>) {
        let Self { otlp, kafka, containers, files, kernel, prometheus } = self;
        if let Some(otlp) = otlp {
            checker.check_otlp(admin, otlp);
        }
        if let Some(kafka) = kafka {
            checker.check_kafka_receiver(kafka);
        }
        if let Some(containers) = containers {
            checker.check_containers(containers);
        }
        for (index, files) in files.iter().enumerate() {
            checker.check_files(&format!("receivers.files[{index}]"), files);
        }
        if let Some(kernel) = kernel {
            checker.check_kernel(kernel);
        }
        if let Some(prometheus) = prometheus {
            checker.check_prometheus(prometheus);
        }
    }

    /// Whether logs are read from where they have positions.
    #[must_use]
    pub fn has_positions(&self) -> bool {
        self.containers.is_some() || !self.files.is_empty() || self.kernel.is_some()
    }
}

section! {
    /// Destination of records.
    pub struct Exporters {
        /// Kafka topics, one per signal.
        pub kafka: Option<KafkaExporter> = None,
        /// ClickHouse tables.
        pub clickhouse: Option<ClickHouseExporter> = None,
    }
}

impl Exporters {
    fn check(&self, checker: &mut Checker<'_>) {
        let Self { kafka, clickhouse } = self;
        if let Some(kafka) = kafka {
            checker.check_kafka_exporter(kafka);
        }
        if let Some(clickhouse) = clickhouse {
            checker.check_clickhouse(clickhouse);
        }
    }
}

impl Config {
    /// Reads a document and checks it.
    ///
    /// # Errors
    /// All problems found, each with its field, line and column.
    pub fn load(text: &str) -> Result<Checked, ConfigError> {
        let config = Self::parse(text)?;
        document::check::check_config(config, &Lines::from_text(text))
    }

    /// Reads a document without checking it completely: types, names and unknown fields only.
    ///
    /// # Errors
    /// The first thing that is not a settings document: broken YAML, an unknown field, a value of
    /// the wrong type or outside its alphabet.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        if text.len() > MAX_DOCUMENT_BYTES {
            return Err(ConfigError::from_problem(Problem::of_document(format!(
                "the document has {} bytes; at most {MAX_DOCUMENT_BYTES} are allowed",
                text.len()
            ))));
        }
        // An empty file is an empty mapping, which then fails for what it lacks, by name.
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            return Ok(Self::default());
        }
        serde_norway::from_str(text)
            .map_err(|error| ConfigError::from_problem(Problem::of_yaml(&error)))
    }

    /// Checks the complete document and decides the mode. Used where there is no text, as in the
    /// operator: problems name fields but no lines.
    ///
    /// # Errors
    /// All problems found.
    pub fn check(self) -> Result<Checked, ConfigError> {
        document::check::check_config(self, &Lines::default())
    }

    /// The document as YAML, without fields that equal their defaults.
    ///
    /// # Errors
    /// When the YAML writer fails, which it shouldn't for a `Config`.
    pub fn render(&self) -> Result<String, ConfigError> {
        serde_norway::to_string(self)
            .map_err(|error| ConfigError::from_problem(Problem::of_document(error.to_string())))
    }
}

#[cfg(test)]
mod arbitrary {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::Strategy;

    use super::{Exporters, Receivers};
    use crate::clickhouse::arbitrary::clickhouse;
    use crate::kafka::arbitrary::{kafka_exporter, kafka_receiver};
    use crate::logs::containers::arbitrary::containers;
    use crate::logs::files::arbitrary::files;
    use crate::logs::kernel::arbitrary::kernel;
    use crate::otlp::arbitrary::otlp;
    use crate::prometheus::arbitrary::prometheus;

    pub(crate) fn receivers() -> impl Strategy<Value = Receivers> {
        let logs = (option::of(containers()), vec(files(), 0..3), option::of(kernel()));
        let requests = (option::of(otlp().boxed()), option::of(kafka_receiver().boxed()));
        (requests, logs, option::of(prometheus().boxed())).prop_map(
            |((otlp, kafka), (containers, files, kernel), prometheus)| Receivers {
                otlp,
                kafka,
                containers,
                files,
                kernel,
                prometheus,
            },
        )
    }

    pub(crate) fn exporters() -> impl Strategy<Value = Exporters> {
        (option::of(kafka_exporter().boxed()), option::of(clickhouse().boxed()))
            .prop_map(|(kafka, clickhouse)| Exporters { kafka, clickhouse })
    }
}
