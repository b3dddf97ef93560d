//! The result of discovery: jobs, their targets, and faults of monitors.

use std::collections::BTreeMap;
use std::fmt;

use millrace_config::ScrapeJob;

/// The result of discovery for one pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiscoveryResult {
    /// Settings by the job's name, without targets and without rules for targets: discovery applies
    /// those, so that dropped targets are never shared out.
    pub jobs: BTreeMap<String, ScrapeJob>,
    /// Targets in order, without duplicates.
    pub targets: Vec<ScrapedTarget>,
    /// The parts of monitors that can't be used.
    pub faults: Vec<MonitorFault>,
    /// The numbers of monitors.
    pub counts: MonitorCounts,
}

/// How many monitors a pool selects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorCounts {
    /// Monitors that are applied completely.
    pub applied: usize,
    /// Monitors of which a part is omitted.
    pub broken: usize,
}

/// A target, resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScrapedTarget {
    /// The name of its job.
    pub job: String,
    /// `host:port`, IPv6 in brackets.
    pub address: String,
    /// Its labels after all rules, `job` and `instance` among them. Where they differ from the
    /// job's settings also `__scheme__`, `__metrics_path__`, `__param_NAME`, `__scrape_interval__`,
    /// `__scrape_timeout__`. At most [`millrace_share_documents::LABELS_MAX`].
    pub labels: BTreeMap<String, String>,
    /// Its zone, if known.
    pub zone: Option<String>,
}

/// A kind of monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MonitorKind {
    /// Selects Services by labels.
    ServiceMonitor,
    /// Selects pods by labels.
    PodMonitor,
    /// Addresses that a prober queries.
    Probe,
    /// A job as in a Prometheus file.
    ScrapeConfig,
    /// A pod with annotations `prometheus.io/...`.
    Pod,
    /// A Service with annotations `prometheus.io/...`.
    Service,
}

impl MonitorKind {
    /// Returns its name in Kubernetes.
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

/// The consequence of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FaultEffect {
    /// The field is ignored; everything else is scraped.
    Ignored,
    /// The owner of the field (an endpoint, a target, the monitor) is not scraped.
    NotScraped,
}

/// A part of a monitor that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{monitor}, {field}: {why}")]
pub struct MonitorFault {
    /// The monitor.
    pub monitor: MonitorId,
    /// The field, as in `spec.endpoints[0].tlsConfig.caFile`.
    pub field: String,
    /// The problem and its fix.
    pub why: String,
    /// The consequence.
    pub effect: FaultEffect,
}
