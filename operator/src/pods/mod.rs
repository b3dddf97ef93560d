//! Metrics of collectors: scrapes `/metrics` of each pod of a pool, and queries those that scrape
//! targets for their shares (`/share`).
//!
//! [`HttpPods`] scrapes, [`PodSampleCache`] returns cached answers without waiting, [`MetricsApi`]
//! is the fallback for silent pods, [`PodRates`] computes rates from two samples. A missing figure
//! is missing, never zero. Judges nothing. Limits: [`PODS_MAX`] pods at once, [`SCRAPE_MAX`] each.

mod http;
mod metered;
pub mod pages;
mod pod_state;
mod rates;
mod sample_cache;
mod share;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use millrace_figures::TextError;

pub use http::HttpPods;
pub use metered::{MetricsApi, PodUsage, UsageByPod};
pub use pod_state::{PodState, read_pod_state};
pub use rates::PodRates;
pub use sample_cache::PodSampleCache;
pub use share::{ShareReport, ShareResponses, ShareSource, TargetReport};
pub use text::parse_sample;

pub use millrace_crds::pods::{ADMIN_PORT, CONTAINER};

/// Maximum number of pods that one scrape queries at once; each is one socket for at most two
/// seconds.
pub const PODS_MAX: usize = 100;
/// The timeout of a pod: a healthy one answers in milliseconds.
pub const SCRAPE_MAX: Duration = Duration::from_secs(2);
/// Maximum size of an answer. A collector with 200 partitions of three topics writes 100 kB.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A pod to query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTarget {
    /// The pod's name.
    pub pod: String,
    /// The pod's address.
    pub address: IpAddr,
}

/// One pod's figures. Counters start with its process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSample {
    /// When it was queried, in seconds.
    pub at: i64,
    /// Records received.
    pub records_in: u64,
    /// Records that the next system has confirmed.
    pub records_out: u64,
    /// Records refused, or stored as dead letters.
    pub records_rejected: u64,
    /// Records that rules dropped.
    pub records_dropped: u64,
    /// Records that route steps sent to other topics, by step.
    pub records_routed: BTreeMap<String, u64>,
    /// Records held now.
    pub records_held: u64,
    /// When its process started, in seconds, if reported.
    pub started_at: Option<i64>,
    /// Messages that Kafka deleted before they were read, by topic.
    pub lost_to_retention: BTreeMap<String, u64>,
    /// Records stored as dead letters, by signal; `records_apart` includes them.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory now, in bytes.
    pub resident_bytes: Option<u64>,
    /// The budget for in-flight records, in bytes.
    pub budget_bytes: Option<u64>,
    /// The bytes of in-flight records now.
    pub in_flight_bytes: Option<u64>,
    /// Attempted inserts, including refused ones.
    pub inserts: u64,
    /// The total duration of these, in seconds.
    pub insert_seconds: f64,
    /// Retried inserts, by the class of the response (`slow_down`, `retry_same`, ...).
    pub insert_retries: BTreeMap<String, u64>,
    /// Stored inserts, by table.
    pub table_inserts: BTreeMap<String, u64>,
    /// How many inserts each live table remembers.
    pub table_remembers_inserts: BTreeMap<String, u64>,
    /// For how many seconds each table remembers inserts at most, if reported.
    pub table_remembers_seconds: BTreeMap<String, u64>,
    /// The lag in messages of the partitions that this pod reads, by topic and partition.
    pub lag_messages: BTreeMap<(String, i32), u64>,
    /// The figures of its node's logs, if it reads any.
    pub node_logs: NodeLogsSample,
    /// Whether the API server refuses its watch of pods, without the right; `None` if it has none.
    pub is_refused_pods: Option<bool>,
    /// Whether the API server refuses its watch of namespaces; `None` if it has none.
    pub is_refused_namespaces: Option<bool>,
}

/// One pod's figures of its node's logs. Counters start with its process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLogsSample {
    /// Unconfirmed bytes of existing files; `None` if it reads no files.
    pub behind_bytes: Option<u64>,
    /// Bytes of files that were read into records; `None` if the release doesn't report it.
    pub accepted_bytes: Option<u64>,
    /// Confirmed bytes among them.
    pub confirmed_bytes: Option<u64>,
    /// The minimum age of the oldest unconfirmed bytes, in seconds, if reported.
    pub behind_seconds: Option<u64>,
    /// Bytes of files that were deleted before they were read.
    pub lost_bytes: u64,
    /// Records of the kernel's log that were overwritten before they were read; `None` if it
    /// doesn't read that.
    pub lost_records: Option<u64>,
}

impl NodeLogsSample {
    /// Returns whether the pod reads any of its node's logs.
    #[must_use]
    pub fn reads_logs(&self) -> bool {
        self.behind_bytes.is_some() || self.lost_records.is_some()
    }
}

impl PodSample {
    /// Returns the number of retried inserts, for all reasons.
    #[must_use]
    pub fn insert_failures(&self) -> u64 {
        self.insert_retries.values().sum()
    }
}

/// Why a pod could not be queried, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeError {
    /// The pod gave no answer, or an incomplete one.
    #[error("pod {pod} at {address} does not answer on its admin port: {cause}")]
    Unreachable {
        /// The pod.
        pod: String,
        /// The pod's address.
        address: IpAddr,
        /// The client's error text.
        cause: String,
    },
    /// The answer isn't metrics.
    #[error("pod {pod} at {address} serves no metrics: {cause}")]
    Unreadable {
        /// The pod.
        pod: String,
        /// The pod's address.
        address: IpAddr,
        /// The fault in the metrics.
        cause: TextError,
    },
    /// The answer isn't an estimate of producers.
    #[error("pod {pod} at {address} does not report which services send it records: {cause}")]
    NoProducers {
        /// The pod.
        pod: String,
        /// The pod's address.
        address: IpAddr,
        /// The fault in the answer.
        cause: String,
    },
    /// The answer isn't a list of dead letters.
    #[error("pod {pod} at {address} does not list its newest dead letters: {cause}")]
    NoDeadLetters {
        /// The pod.
        pod: String,
        /// The pod's address.
        address: IpAddr,
        /// The fault in the answer.
        cause: String,
    },
    /// The answer isn't a report of a share.
    #[error("pod {pod} at {address} does not report what it scrapes: {cause}")]
    NoShare {
        /// The pod.
        pod: String,
        /// The pod's address.
        address: IpAddr,
        /// The fault in the answer.
        cause: String,
    },
}

/// One scrape of a pool's pods, by name. Caches share each sample, which has some 3 kB.
pub type ScrapeResults = BTreeMap<String, Result<Arc<PodSample>, ScrapeError>>;

/// A source of pods' figures.
pub trait PodSource: Send + Sync {
    /// Queries all targets, [`PODS_MAX`] at once, each within [`SCRAPE_MAX`].
    fn scrape_pods<'a>(
        &'a self,
        targets: &'a [PodTarget],
        now: Timestamp,
    ) -> BoxFuture<'a, ScrapeResults>;
}

/// Pods' counters by signal and reason, by pod: more than sizing needs, for reports.
pub type PodCounters =
    BTreeMap<String, Result<millrace_reports::facts::CounterSample, ScrapeError>>;

/// Edge pods' estimates of which services send the most bytes, by pod.
pub type PodProducers = BTreeMap<String, Result<millrace_reports::ProducerSample, ScrapeError>>;

/// Gateway pods' newest dead letters, without their content, by pod.
pub type PodDeadLetters = BTreeMap<String, Result<millrace_reports::DeadLetterSample, ScrapeError>>;

/// A source of the figures that reports need.
pub trait FigureSource: Send + Sync {
    /// Queries all targets now, [`PODS_MAX`] at once, each within [`SCRAPE_MAX`].
    fn read_figures<'a>(&'a self, targets: &'a [PodTarget]) -> BoxFuture<'a, PodCounters>;

    /// Queries edges now which services send the most bytes, within the same limits.
    fn read_producers<'a>(&'a self, edges: &'a [PodTarget]) -> BoxFuture<'a, PodProducers>;

    /// Queries gateways now for their newest dead letters, within the same limits.
    fn read_dead_letters<'a>(&'a self, gateways: &'a [PodTarget]) -> BoxFuture<'a, PodDeadLetters>;
}
