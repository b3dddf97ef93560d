//! The pipeline while it is written: what the file said so far, and what every pipeline needs.

use std::str::FromStr;

use millrace_crds::v1alpha1::{
    ClickHouseTarget, CollectorSettings, CredentialsRef, DeletionPolicy, EdgeMode, EdgeSettings,
    GatewaySettings, KafkaConnection, PerSignal, PipelineEdge, PipelineSignal, RolloutSettings,
    Signal, TelemetryPipelineSpec,
};
use millrace_crds::{InvalidText, SecretName};

use crate::account::Account;

/// The pool that clients send to.
pub(crate) const CLIENTS: &str = "clients";
/// The pool with a pod on each node.
pub(crate) const NODES: &str = "nodes";
/// The pool that scrapes.
pub(crate) const SCRAPER: &str = "scraper";

/// The most edge pools of a pipeline.
pub(crate) const POOLS_MAX: usize = 8;

/// Stand for addresses that the file doesn't have. RFC 2606 keeps the name for this.
const KAFKA_PLACEHOLDER: &str = "kafka.example:9092";
const CLICKHOUSE_PLACEHOLDER: &str = "http://clickhouse.example:8123";

/// How the Collector runs, as far as the file says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    #[default]
    Unsaid,
    Deployment,
    DaemonSet,
    Sidecar,
}

impl Mode {
    /// The mode of the pool that takes OTLP.
    pub(crate) const fn of_pool(self) -> EdgeMode {
        match self {
            Self::DaemonSet => EdgeMode::DaemonSet,
            Self::Unsaid | Self::Deployment | Self::Sidecar => EdgeMode::Deployment,
        }
    }
}

/// What the pipeline says so far.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) mode: Mode,
    pub(crate) kafka: KafkaConnection,
    pub(crate) clickhouse: ClickHouseTarget,
    pub(crate) signals: PerSignal<PipelineSignal>,
    pub(crate) edges: Vec<PipelineEdge>,
    pub(crate) gateway: GatewaySettings,
}

impl Draft {
    /// A pipeline of these signals.
    pub(crate) fn new(signals: &[Signal]) -> Self {
        let used = |signal| signals.contains(&signal).then(PipelineSignal::default);
        Self {
            mode: Mode::default(),
            kafka: KafkaConnection { bootstrap_servers: Vec::new(), tls: None, sasl: None },
            clickhouse: ClickHouseTarget {
                endpoints: Vec::new(),
                shards: None,
                database: None,
                table_prefix: None,
                cluster: None,
                distributed: None,
                credentials_secret_ref: None,
                tls: None,
                coordination: None,
            },
            signals: PerSignal {
                traces: used(Signal::Traces),
                logs: used(Signal::Logs),
                metrics: used(Signal::Metrics),
            },
            edges: Vec::new(),
            gateway: GatewaySettings::default(),
        }
    }

    /// A signal's settings, if it is in use.
    pub(crate) fn signal(&mut self, signal: Signal) -> Option<&mut PipelineSignal> {
        match signal {
            Signal::Traces => self.signals.traces.as_mut(),
            Signal::Logs => self.signals.logs.as_mut(),
            Signal::Metrics => self.signals.metrics.as_mut(),
        }
    }

    /// The name of the pool that takes OTLP.
    pub(crate) fn otlp_pool(&self) -> &'static str {
        match self.mode {
            Mode::DaemonSet => NODES,
            Mode::Unsaid | Mode::Deployment | Mode::Sidecar => CLIENTS,
        }
    }

    /// A pool, made if there is none of that name yet. None if the name can't be one, or the
    /// pipeline has as many as it may.
    pub(crate) fn pool(&mut self, name: &str, mode: EdgeMode) -> Option<&mut EdgeSettings> {
        let place = match self.edges.iter().position(|edge| edge.name.as_str() == name) {
            Some(place) => place,
            None if self.edges.len() == POOLS_MAX => return None,
            None => {
                let settings = EdgeSettings { mode, ..EdgeSettings::default() };
                self.edges.push(PipelineEdge { name: name.parse().ok()?, settings });
                self.edges.len() - 1
            }
        };
        self.edges.get_mut(place).map(|edge| &mut edge.settings)
    }

    /// The whole: what no part of the file said stands as a placeholder, and is told.
    pub(crate) fn finish(mut self, account: &mut Account) -> TelemetryPipelineSpec {
        if self.kafka.bootstrap_servers.is_empty() {
            self.kafka.bootstrap_servers.extend(fixed(KAFKA_PLACEHOLDER));
            tell(account, "spec.kafka.bootstrapServers", "Kafka's bootstrap brokers, host:port");
        }
        if self.clickhouse.endpoints.is_empty() {
            self.clickhouse.endpoints.extend(fixed(CLICKHOUSE_PLACEHOLDER));
            let what = "ClickHouse's HTTP interface, http://host:8123 or https://host:8443";
            tell(account, "spec.clickhouse.endpoints", what);
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
            signals: self.signals,
            edges: self.edges,
            gateway: self.gateway,
            collector: CollectorSettings::default(),
            rollout: RolloutSettings::default(),
            deletion_policy: DeletionPolicy::default(),
            shared: false,
        }
    }
}

/// Unless a value of the file is to be filled in there already.
fn tell(account: &mut Account, to: &str, what: &str) {
    if !account.entries.iter().any(|entry| entry.to() == Some(to)) {
        account.missing(to, what);
    }
}

/// A text of this crate as a checked name; a test holds that each is one.
pub(crate) fn fixed<T: FromStr<Err = InvalidText>>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A reference to a Secret that has to be made, with the usual keys.
pub(crate) fn credentials(name: &str) -> Option<CredentialsRef> {
    let name: SecretName = fixed(name)?;
    Some(CredentialsRef { name, username_key: None, password_key: None })
}

/// The path of a pool in the pipeline.
pub(crate) fn pool_path(name: &str) -> String {
    format!("spec.edges[{name}]")
}
