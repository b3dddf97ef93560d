//! The pipeline under construction: values of the file so far, and values that every pipeline
//! needs.

use std::collections::BTreeMap;
use std::str::FromStr;

use millrace_crds::InvalidText;
use millrace_crds::v1alpha1::{
    ClickHouseTarget, CollectorSettings, DeletionPolicy, EdgeMode, EdgeSettings, GatewaySettings,
    KafkaConnection, Ownership, PerSignal, PipelineEdge, PipelineSignal, PipelineSignals,
    ProcessingStep, RolloutSettings, SchemaApproval, Signal, SignalDefaults, TelemetryPipelineSpec,
};

use crate::account::Account;

/// The pool that clients send to.
pub(crate) const CLIENTS: &str = "clients";
/// The pool with a pod on each node.
pub(crate) const NODES: &str = "nodes";
/// The pool that scrapes.
pub(crate) const SCRAPER: &str = "scraper";

/// Maximum edge pools of a pipeline.
pub(crate) const POOLS_MAX: usize = 8;

/// The placeholder for addresses that the file lacks. RFC 2606 reserves the name for this.
const KAFKA_PLACEHOLDER: &str = "kafka.example:9092";
const CLICKHOUSE_PLACEHOLDER: &str = "http://clickhouse.example:8123";

/// How the Collector runs, as far as the file states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeploymentMode {
    #[default]
    Unsaid,
    Deployment,
    DaemonSet,
    Sidecar,
}

impl DeploymentMode {
    /// Returns the mode of the pool that receives OTLP.
    pub(crate) const fn of_pool(self) -> EdgeMode {
        match self {
            Self::DaemonSet => EdgeMode::DaemonSet,
            Self::Unsaid | Self::Deployment | Self::Sidecar => EdgeMode::Deployment,
        }
    }
}

/// The pipeline so far.
#[derive(Debug)]
pub(crate) struct PipelineDraft {
    pub(crate) mode: DeploymentMode,
    pub(crate) kafka: KafkaConnection,
    pub(crate) clickhouse: ClickHouseTarget,
    pub(crate) signals: PerSignal<PipelineSignal>,
    /// What all signals have.
    pub(crate) defaults: SignalDefaults,
    /// The steps so far, each with its processor's id.
    pub(crate) steps: Vec<(String, ProcessingStep)>,
    /// The steps of all pools, in order.
    pub(crate) processing: Vec<ProcessingStep>,
    pub(crate) edges: Vec<PipelineEdge>,
    pub(crate) gateway: GatewaySettings,
}

impl PipelineDraft {
    /// Creates a pipeline of these signals.
    pub(crate) fn new(signals: &[Signal]) -> Self {
        let used = |signal| signals.contains(&signal).then(PipelineSignal::default);
        Self {
            mode: DeploymentMode::default(),
            kafka: KafkaConnection {
                bootstrap_servers: Vec::new(),
                tls: None,
                authentication: None,
                admin: None,
            },
            clickhouse: ClickHouseTarget {
                endpoints: Vec::new(),
                shards: None,
                database: None,
                table_prefix: None,
                cluster: None,
                distributed: None,
                authentication: None,
                admin: None,
                tls: None,
                coordination: None,
            },
            signals: PerSignal {
                traces: used(Signal::Traces),
                logs: used(Signal::Logs),
                metrics: used(Signal::Metrics),
            },
            defaults: SignalDefaults::default(),
            steps: Vec::new(),
            processing: Vec::new(),
            edges: Vec::new(),
            gateway: GatewaySettings::default(),
        }
    }

    /// Returns a signal's settings, if it is used.
    pub(crate) fn signal_settings(
        &mut self,
        signal_settings: Signal,
    ) -> Option<&mut PipelineSignal> {
        match signal_settings {
            Signal::Traces => self.signals.traces.as_mut(),
            Signal::Logs => self.signals.logs.as_mut(),
            Signal::Metrics => self.signals.metrics.as_mut(),
        }
    }

    /// Returns the name of the pool that receives OTLP.
    pub(crate) fn otlp_pool(&self) -> &'static str {
        match self.mode {
            DeploymentMode::DaemonSet => NODES,
            DeploymentMode::Unsaid | DeploymentMode::Deployment | DeploymentMode::Sidecar => {
                CLIENTS
            }
        }
    }

    /// Returns a pool's settings, and creates the pool if necessary. `None` if the name is invalid,
    /// or the pipeline has the maximum of pools.
    pub(crate) fn pool_settings(
        &mut self,
        name: &str,
        mode: EdgeMode,
    ) -> Option<&mut EdgeSettings> {
        let index = match self.edges.iter().position(|edge| edge.name.as_str() == name) {
            Some(index) => index,
            None if self.edges.len() == POOLS_MAX => return None,
            None => {
                let settings = EdgeSettings { mode, ..EdgeSettings::default() };
                self.edges.push(PipelineEdge { name: name.parse().ok()?, settings });
                self.edges.len() - 1
            }
        };
        self.edges.get_mut(index).map(|edge| &mut edge.settings)
    }

    /// Returns the spec, with placeholders for values that the file lacks, each with an entry.
    pub(crate) fn into_spec(mut self, account: &mut Account) -> TelemetryPipelineSpec {
        if self.kafka.bootstrap_servers.is_empty() {
            self.kafka.bootstrap_servers.extend(checked_name(KAFKA_PLACEHOLDER));
            report_missing(
                account,
                "spec.kafka.bootstrapServers",
                "Kafka's bootstrap brokers, host:port",
            );
        }
        if self.clickhouse.endpoints.is_empty() {
            self.clickhouse.endpoints.extend(checked_name(CLICKHOUSE_PLACEHOLDER));
            let what = "ClickHouse's HTTP interface, http://host:8123 or https://host:8443";
            report_missing(account, "spec.clickhouse.endpoints", what);
        }
        let order = |edge: &PipelineEdge| match edge.name.as_str() {
            CLIENTS => 0,
            SCRAPER => 2,
            _ => 1,
        };
        self.edges.sort_by_key(order);
        TelemetryPipelineSpec {
            kafka: self.kafka,
            clickhouse: self.clickhouse,
            signals: PipelineSignals { defaults: self.defaults, each: self.signals },
            schema: SchemaApproval::default(),
            processing: self.processing,
            resource_attributes: BTreeMap::new(),
            edges: self.edges,
            gateway: self.gateway,
            collector: CollectorSettings::default(),
            rollout: RolloutSettings::default(),
            deletion_policy: DeletionPolicy::default(),
            ownership: Ownership::Exclusive,
            paused: false,
        }
    }
}

/// Adds an entry, unless a value of the file is to be filled in there already.
pub(crate) fn report_missing(account: &mut Account, to: &str, what: &str) {
    if !account.entries.iter().any(|entry| entry.target_field() == Some(to)) {
        account.missing(to, what);
    }
}

/// Returns a text of this crate as a checked name; a test ensures that each is valid.
pub(crate) fn checked_name<T: FromStr<Err = InvalidText>>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// Returns the path of a pool in the pipeline.
pub(crate) fn pool_path(name: &str) -> String {
    format!("spec.edges[{name}]")
}
