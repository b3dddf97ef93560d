//! Metrics of collectors: scrapes `/metrics` of each pod of a pool, and asks those that scrape
//! targets for their shares (`/share`).
//!
//! [`HttpPods`] scrapes, [`PodBoard`] returns cached answers without waiting, [`MetricsApi`] stands
//! in for silent pods, [`PodRates`] makes rates from two samples. A missing figure is missing,
//! never zero. Judges nothing. Limits: [`PODS_MAX`] pods at once, [`LOOK_MAX`] each.

mod board;
mod http;
mod metered;
pub mod pages;
mod pod_state;
mod rates;
mod share;
mod text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use millrace_figures::TextError;

pub use board::PodBoard;
pub use http::HttpPods;
pub use metered::{Metered, MeteredPods, MetricsApi};
pub use pod_state::{PodState, facts};
pub use rates::PodRates;
pub use share::{ShareAnswers, ShareReport, ShareSource, TargetReport};
pub use text::sample;

pub use millrace_crds::pods::{ADMIN_PORT, CONTAINER};

/// Pods asked at once by one scrape; each is one socket for at most two seconds.
pub const PODS_MAX: usize = 100;
/// Timeout of a pod: a healthy one answers in milliseconds.
pub const LOOK_MAX: Duration = Duration::from_secs(2);
/// The longest answer. A collector with 200 partitions of three topics writes 100 kB.
pub const ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;

/// A pod to be asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Its name.
    pub pod: String,
    /// Its address.
    pub address: IpAddr,
}

/// One pod's figures. Counters are since its process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When it was asked, in seconds.
    pub at: i64,
    /// Records taken in.
    pub records_in: u64,
    /// Records that the next system has confirmed.
    pub records_out: u64,
    /// Records refused, or kept as dead letters.
    pub records_apart: u64,
    /// Records held now.
    pub records_held: u64,
    /// When its process began, in seconds, if stated.
    pub started_at: Option<i64>,
    /// Messages that Kafka deleted before they were read, by topic.
    pub lost_to_retention: BTreeMap<String, u64>,
    /// Records kept as dead letters, by signal; they are among `records_apart`.
    pub dead_lettered: BTreeMap<String, u64>,
    /// Processor time, in seconds.
    pub cpu_seconds: f64,
    /// Resident memory now, in bytes.
    pub resident_bytes: Option<u64>,
    /// Bytes that records in flight may take.
    pub budget_bytes: Option<u64>,
    /// Bytes that they take now.
    pub in_flight_bytes: Option<u64>,
    /// Inserts tried, those refused among them.
    pub inserts: u64,
    /// Time that these took in sum, in seconds.
    pub insert_seconds: f64,
    /// Inserts sent again, by the class of the answer (`slow_down`, `retry_same`, ...).
    pub insert_retries: BTreeMap<String, u64>,
    /// Inserts stored, by table.
    pub table_inserts: BTreeMap<String, u64>,
    /// Inserts that each live table remembers.
    pub table_remembers_inserts: BTreeMap<String, u64>,
    /// For at most how many seconds, if stated.
    pub table_remembers_seconds: BTreeMap<String, u64>,
    /// Messages behind the last committed one, by topic and partition: those this pod reads.
    pub lag_messages: BTreeMap<(String, i32), u64>,
    /// Of its node's logs, if it reads any.
    pub node_logs: NodeLogsSample,
}

/// One pod's figures of its node's logs. Counters are since its process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeLogsSample {
    /// Bytes of files that are there and not yet confirmed; none if it reads no files.
    pub behind_bytes: Option<u64>,
    /// Bytes of files that came into records; none if the release doesn't say.
    pub taken_bytes: Option<u64>,
    /// Those of them that are confirmed.
    pub confirmed_bytes: Option<u64>,
    /// For how many seconds the oldest of them have waited at least, if stated.
    pub behind_seconds: Option<u64>,
    /// Bytes of files that went before they were read.
    pub lost_bytes: u64,
    /// Records of the kernel's log that were overwritten before they were read; none if it doesn't
    /// read that.
    pub lost_records: Option<u64>,
    /// Whether the API server refuses to tell it about pods, for want of a right.
    pub is_refused_pods: bool,
    /// Whether it refuses to tell about namespaces.
    pub is_refused_namespaces: bool,
}

impl NodeLogsSample {
    /// Whether the pod reads any.
    #[must_use]
    pub fn reads(&self) -> bool {
        self.behind_bytes.is_some() || self.lost_records.is_some()
    }
}

impl Sample {
    /// Inserts sent again, for whatever reason.
    #[must_use]
    pub fn insert_failures(&self) -> u64 {
        self.insert_retries.values().sum()
    }
}

/// Why a pod could not be asked, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScrapeError {
    /// No answer, or not a whole one.
    #[error("pod {pod} at {address} does not answer on its admin port: {cause}")]
    Unreachable {
        /// The pod.
        pod: String,
        /// Its address.
        address: IpAddr,
        /// The client's error text.
        cause: String,
    },
    /// An answer that isn't metrics.
    #[error("pod {pod} at {address} gives no metrics: {cause}")]
    Unreadable {
        /// The pod.
        pod: String,
        /// Its address.
        address: IpAddr,
        /// What is wrong with them.
        cause: TextError,
    },
    /// An answer that says nothing of a share.
    #[error("pod {pod} at {address} does not say what it scrapes: {cause}")]
    NoShare {
        /// The pod.
        pod: String,
        /// Its address.
        address: IpAddr,
        /// What is wrong with the answer.
        cause: String,
    },
}

/// One scrape of a pool's pods, by name.
pub type Look = BTreeMap<String, Result<Sample, ScrapeError>>;

/// Something that can ask pods.
pub trait PodSource: Send + Sync {
    /// Asks all of them, [`PODS_MAX`] at once, each within [`LOOK_MAX`].
    fn look<'a>(&'a self, targets: &'a [Target], now: Timestamp) -> BoxFuture<'a, Look>;
}

/// What pods count by signal and reason, by name: more than sizing needs, for reports.
pub type Figures = BTreeMap<String, Result<millrace_reports::facts::Sample, ScrapeError>>;

/// Something that can ask pods for what reports need.
pub trait FigureSource: Send + Sync {
    /// Asks all of them now, [`PODS_MAX`] at once, each within [`LOOK_MAX`].
    fn figures<'a>(&'a self, targets: &'a [Target]) -> BoxFuture<'a, Figures>;
}
