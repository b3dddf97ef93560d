//! Scrape targets of a Kubernetes cluster, as its monitors describe them: ServiceMonitor,
//! PodMonitor, Probe, ScrapeConfig (`monitoring.coreos.com`) and annotations `prometheus.io/...`.
//! Pure: no clock, no I/O.
//!
//! - [`Monitor::new`] reads a monitor's JSON once, by tables of its fields ([`supported`] lists
//!   them all), and names what can't be used by field.
//! - [`Cluster`] has what meta labels need of pods, Services, EndpointSlices and nodes.
//! - [`scrape`] joins the two: rules are applied here, as prometheus-operator and Prometheus would
//!   do it, so that only targets that are scraped come out ([`Scraped`]).
//! - [`SecretUse`] names keys of Secrets and ConfigMaps. Their content never passes through here.

mod access;
mod annotations;
mod by_address;
mod by_labels;
mod cluster;
mod endpoint;
mod fields;
mod meta;
mod monitor;
mod rules;
mod scrape;
mod scraped;
mod secrets;
mod selector;
mod supported;

pub use annotations::{ANNOTATIONS, Annotated};
pub use cluster::{
    Cluster, Container, Node, OBJECTS_MAX, Objects, Pod, Port, Service, Slice, SliceEndpoint,
    TEXT_BYTES_MAX, TEXTS_MAX, Texts, kept,
};
pub use fields::{ENTRIES_MAX, FAULTS_MAX};
pub use monitor::Monitor;
pub use scrape::{Input, JOBS_MAX, TARGETS_MAX, scrape};
pub use scraped::{Counts, Effect, Fault, MonitorId, MonitorKind, Scraped, ScrapedTarget};
pub use secrets::{Holder, SECRETS_FOLDER, SecretUse};
pub use selector::{Holds, Namespaces, Requirement, Selector};
pub use supported::{Supported, supported};
