//! Discovers the scrape targets of a Kubernetes cluster from its monitors: ServiceMonitor,
//! PodMonitor, Probe, ScrapeConfig (`monitoring.coreos.com`) and annotations `prometheus.io/...`.
//! Pure: no clock, no I/O.
//!
//! - [`Monitor::new`] reads a monitor's JSON once, by tables of its fields ([`supported_fields`]
//!   lists them all), and names the fields that can't be used.
//! - [`Cluster`] has the parts of pods, Services, EndpointSlices and nodes that meta labels need.
//! - [`discover_targets`] joins the two and applies the rules as prometheus-operator and Prometheus
//!   would, so that it returns only targets that are scraped ([`DiscoveryResult`]).
//! - [`SecretUse`] names keys of Secrets and ConfigMaps. Their content never passes through here.

mod annotations;
mod cluster;
mod meta;
mod monitor;
mod scrape;
mod scraped;
mod selector;

pub use annotations::{ANNOTATIONS, AnnotationSources};
pub use cluster::{
    Cluster, Container, Node, OBJECTS_MAX, Objects, PodObject, Port, ServiceObject, SliceEndpoint,
    SliceObject, TEXT_BYTES_MAX, TEXTS_MAX, Texts, retained_texts,
};
pub use monitor::Monitor;
pub use monitor::fields::{ENTRIES_MAX, FAULTS_MAX};
pub use monitor::secrets::{Holder, SECRETS_FOLDER, SecretUse};
pub use monitor::supported::{SupportedField, supported_fields};
pub use scrape::{DiscoveryInput, JOBS_MAX, TARGETS_MAX, discover_targets};
pub use scraped::{
    DiscoveryResult, FaultEffect, MonitorCounts, MonitorFault, MonitorId, MonitorKind,
    ScrapedTarget,
};
pub use selector::{Holds, Namespaces, Requirement, Selector};
