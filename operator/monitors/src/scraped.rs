//! What discovery finds: jobs, their targets, and faults of monitors.

use std::collections::BTreeMap;
use std::fmt;

use millrace_config::ScrapeJob;

/// What discovery finds for one pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scraped {
    /// Settings by the job's name, without targets and without rules for targets: those are
    /// applied here, so that dropped targets are never shared out.
    pub jobs: BTreeMap<String, ScrapeJob>,
    /// Targets in order, none twice.
    pub targets: Vec<ScrapedTarget>,
    /// What of the monitors can't be used.
    pub faults: Vec<Fault>,
    /// How many monitors there are.
    pub counts: Counts,
}

/// How many monitors a pool selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that are taken whole.
    pub taken: usize,
    /// Those of which something is left out.
    pub broken: usize,
}

/// A target as it is scraped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScrapedTarget {
    /// Its job, by name.
    pub job: String,
    /// `host:port`, IPv6 in brackets.
    pub address: String,
    /// Its labels after all rules, `job` and `instance` among them. Where they differ from the
    /// job's settings also `__scheme__`, `__metrics_path__`, `__param_NAME`,
    /// `__scrape_interval__`, `__scrape_timeout__`. At most [`millrace_shares::LABELS_MAX`].
    pub labels: BTreeMap<String, String>,
    /// The zone that it is in, if that is known.
    pub zone: Option<String>,
}

/// A kind of monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MonitorKind {
    /// Services, by labels.
    ServiceMonitor,
    /// Pods, by labels.
    PodMonitor,
    /// Addresses that a prober asks.
    Probe,
    /// A job as in a Prometheus file.
    ScrapeConfig,
    /// A pod with annotations `prometheus.io/...`.
    Pod,
    /// A Service with annotations `prometheus.io/...`.
    Service,
}

impl MonitorKind {
    /// Its name in Kubernetes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ServiceMonitor => "ServiceMonitor",
            Self::PodMonitor => "PodMonitor",
            Self::Probe => "Probe",
            Self::ScrapeConfig => "ScrapeConfig",
            Self::Pod => "Pod",
            Self::Service => "Service",
        }
    }
}

/// One monitor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonitorId {
    /// Its kind.
    pub kind: MonitorKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl fmt::Display for MonitorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name } = self;
        write!(f, "{} {namespace}/{name}", kind.as_str())
    }
}

/// What a fault leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// The field is ignored; the rest is scraped.
    Ignored,
    /// What the field belongs to (an endpoint, a target, the monitor) is not scraped.
    LeftOut,
}

/// Something of a monitor that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{monitor}, {field}: {why}")]
pub struct Fault {
    /// The monitor.
    pub monitor: MonitorId,
    /// The field, as in `spec.endpoints[0].tlsConfig.caFile`.
    pub field: String,
    /// What is wrong and what to do.
    pub why: String,
    /// What it leads to.
    pub effect: Effect,
}
