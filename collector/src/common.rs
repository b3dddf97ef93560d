//! The parts that all modes share, and the reasons why a mode cannot run.

use std::sync::Arc;

use millrace_config::{ByteSize, NameError};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::ComponentError;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::readiness::{Readiness, ReadinessPart};
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_rules::{Rules, RulesError};
use millrace_sink_clickhouse::SinkError;
use millrace_sink_kafka::{ProducerError, RecentDeadLetters};
use millrace_source_kafka::StartError;
use millrace_source_prometheus::TargetStatus;

use crate::admin::AdminError;
use crate::admin::producers::ProducerMeter;

/// The version, as in image tags.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Why a collector cannot run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The admin listener failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// A source or an exporter of an edge failed.
    #[error(transparent)]
    Component(#[from] ComponentError),
    /// A variable that a watch of pods needs is not set.
    #[error(
        "receivers.containers.podMetadata or an enrich step: the environment variable {0} is not \
         set or is empty: pods can be watched only from within a pod; set it in the container's \
         env if it is missing there"
    )]
    Pods(&'static str),
    /// A variable that a share needs is not set.
    #[error(
        "receivers.prometheus.share: the environment variable {0} is not set or is empty: a share \
         can be read only from within a pod; set it in the container's env, or configure jobs \
         instead"
    )]
    Share(&'static str),
    /// The rules don't compile.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A topic of a rule has a name that Kafka doesn't accept.
    #[error("processing: {0}")]
    Route(#[from] NameError),
    /// A Kafka producer failed.
    #[error("kafka: {0}")]
    Producer(#[from] ProducerError),
    /// The Kafka source failed.
    #[error("kafka: {0}")]
    Source(#[from] StartError),
    /// A secret of the Kafka source is invalid.
    #[error("kafka: {0}")]
    Secret(#[from] millrace_config::SecretError),
    /// The ClickHouse sink failed.
    #[error("clickhouse: {0}")]
    Sink(#[from] SinkError),
    /// The variable with the member's name is not set.
    #[error(
        "receivers.kafka.groupInstanceIdEnv: the environment variable {0} is not set or is empty"
    )]
    Instance(String),
    /// The budget cannot hold what the limits allow.
    #[error(
        "the memory budget of {budget_bytes} bytes cannot hold the longest request that \
         receivers.otlp.limits allows: {longest} require {needed_bytes} bytes with their copies. \
         Set memory.limitBytes: {limit} (or give the pod that memory), or {largest} in \
         receivers.otlp.limits for {fields}"
    )]
    SmallBudget {
        /// The budget.
        budget_bytes: u64,
        /// The minimum budget for one request.
        needed_bytes: u64,
        /// The longest request.
        longest: ByteSize,
        /// The memory limit that suffices.
        limit: ByteSize,
        /// The longest request that the budget holds.
        largest: ByteSize,
        /// The fields that allow longer ones.
        fields: String,
    },
    /// The metrics failed.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Threads or signals failed.
    #[error("cannot start a thread or handle signals: {0}")]
    System(#[from] std::io::Error),
    /// A part of the process failed and ended it.
    #[error("a component of the collector failed permanently; its error is logged above")]
    Failed,
    /// The deadline passed before everything was safe.
    #[error(
        "the shutdown deadline passed before all records were safe; unacknowledged records are \
         sent again"
    )]
    Deadline,
    /// A gateway ended before all received records were stored and committed.
    #[error(
        "partitions with records that are not known to be stored and committed: {partitions}; \
         their next owners read these again"
    )]
    NotCommitted {
        /// The number of partitions.
        partitions: usize,
    },
}

impl RunError {
    /// Whether the settings are the reason, however often the process starts.
    pub(crate) fn is_settings(&self) -> bool {
        match self {
            Self::Component(error) => error.is_settings(),
            Self::SmallBudget { .. }
            | Self::Rules(RulesError::Compile(_))
            | Self::Pods(_)
            | Self::Share(_)
            | Self::Instance(_) => true,
            _ => false,
        }
    }
}

/// The parts that all modes share.
pub(crate) struct Common {
    pub(crate) budget: Budget,
    /// The budget's share of the memory limit, in percent.
    pub(crate) budget_percent: u8,
    pub(crate) drain: Drain,
    pub(crate) readiness: Readiness,
    /// Ready once every other part is registered. Probes are answered before that, and a process
    /// without parts would be ready at once.
    pub(crate) starting: ReadinessPart,
    pub(crate) telemetry: Arc<Telemetry>,
    /// The status of scraped targets.
    pub(crate) target_status: TargetStatus,
    /// The rules that run before the exporter.
    pub(crate) rules: Option<Arc<Rules>>,
    /// Which services send the most bytes, for an edge.
    pub(crate) producers: Arc<ProducerMeter>,
    /// The newest dead letters, of a gateway.
    pub(crate) dead_letters: Arc<RecentDeadLetters>,
}

/// Puts rules in front of an exporter and its routes. Without rules, sources use the exporter.
pub(crate) fn with_rules(
    rules: Option<&Arc<Rules>>,
    publisher: Arc<dyn Publish>,
    routes: Vec<Arc<dyn Publish>>,
    budget: &Budget,
    telemetry: &Arc<Telemetry>,
) -> Arc<dyn Publish> {
    match rules {
        Some(rules) => rules.run_before(publisher, routes, budget.clone(), Arc::clone(telemetry)),
        None => publisher,
    }
}

/// Returns what rules add to the memory of the longest request, in quarters of its length.
pub(crate) fn rule_quarters(rules: Option<&Arc<Rules>>) -> u64 {
    rules.map_or(0, |rules| rules.request_quarters())
}
