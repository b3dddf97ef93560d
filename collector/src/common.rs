//! What all modes work with, and why one cannot run.

use std::sync::Arc;

use millrace_config::ByteSize;
use millrace_exporters::clickhouse::SinkError;
use millrace_exporters::kafka::{BufferError, ProducerError};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::{Part, Readiness};
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_receivers::kafka::StartError;
use millrace_receivers::otlp::OtlpError;
use millrace_receivers::prometheus::Board;

use crate::admin::AdminError;

/// The version, as in image tags.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a collector cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The admin listener.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// The OTLP receiver.
    #[error(transparent)]
    Otlp(#[from] OtlpError),
    /// The receiver of files.
    #[error("files: {0}")]
    Files(#[from] millrace_receivers::files::StartError),
    /// The receiver of the kernel's log.
    #[error("kernel: {0}")]
    Kernel(#[from] millrace_receivers::kernel::StartError),
    /// The receiver of scraped targets.
    #[error("prometheus: {0}")]
    Prometheus(#[from] millrace_receivers::prometheus::StartError),
    /// The variables that a watch of pods needs.
    #[error(
        "receivers.containers.watchPods: the variable {0} is not set or is empty: pods can be watched \
         only from within a pod, whose {0} it is"
    )]
    Pods(&'static str),
    /// The variables that a share needs.
    #[error(
        "receivers.prometheus.share: the variable {0} is not set or is empty: a share can be read \
         only from within a pod, whose {0} it is; give jobs instead"
    )]
    Share(&'static str),
    /// A Kafka producer.
    #[error("kafka: {0}")]
    Producer(#[from] ProducerError),
    /// The edge's buffer on disk.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The Kafka source.
    #[error("kafka: {0}")]
    Source(#[from] StartError),
    /// A secret of the Kafka source.
    #[error("kafka: {0}")]
    Secret(#[from] millrace_config::SecretError),
    /// The ClickHouse sink.
    #[error("clickhouse: {0}")]
    Sink(#[from] SinkError),
    /// The variable with the member's name.
    #[error("receivers.kafka.groupInstanceIdEnv: the variable {0} is not set or is empty")]
    Instance(String),
    /// The budget cannot hold what the limits allow.
    #[error(
        "the memory budget of {budget_bytes} bytes cannot hold a request of {needed_bytes} bytes, \
         which is {copies} times the longest that receivers.otlp.limits allows: write \
         memory.limitBytes: {limit} (or give the pod that memory), or {largest} in \
         receivers.otlp.limits for {fields}"
    )]
    SmallBudget {
        /// What there is.
        budget_bytes: u64,
        /// What one request may take.
        needed_bytes: u64,
        /// How many times over that is.
        copies: u64,
        /// The memory limit that is enough.
        limit: ByteSize,
        /// The longest request that the budget holds.
        largest: ByteSize,
        /// The fields that allow longer ones.
        fields: String,
    },
    /// The metrics.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Threads or signals.
    #[error("the system refuses a thread or a signal: {0}")]
    System(#[from] std::io::Error),
    /// A part ended the process from inside.
    #[error("a part of the collector failed for good; its reason is above")]
    Failed,
    /// The deadline came before everything was safe.
    #[error("the drain's deadline came before everything was safe; what wasn't is sent again")]
    Deadline,
    /// A gateway ended before all it had taken was stored and committed.
    #[error(
        "of {partitions} partitions, not everything taken is known to be stored and committed; \
         their next owners read it again"
    )]
    LeftBehind {
        /// How many.
        partitions: usize,
    },
}

/// What all modes work with.
pub(crate) struct Common {
    pub(crate) budget: Budget,
    /// The share of the memory limit that the budget is.
    pub(crate) budget_percent: u8,
    pub(crate) drain: Drain,
    pub(crate) readiness: Readiness,
    /// Ready once every other part is registered: probes are answered before that, and a process
    /// without parts would be ready at once.
    pub(crate) starting: Part,
    pub(crate) telemetry: Arc<Telemetry>,
    /// What is known of targets that are scraped.
    pub(crate) board: Board,
}
