//! The dependencies of a reconcile: the API, the clock, events, metrics, and external systems.
//!
//! External systems are trait objects, so that tests can replace them. The caches of objects
//! (failures in a row, sizing, verified children) only save work, and pods' figures are sampled
//! again: losing them undoes no decision.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use millrace_coordination::observation::Counters;

use crate::cache::access::AccountBindings;
use crate::cache::baseline::Baseline;
use crate::cache::by_pool::ByPool;
use crate::cache::children::ChildCache;
use crate::cache::claims::Claims;
use crate::cache::failures::Failures;
use crate::cache::gateway::GatewayCache;
use crate::cache::holders::Holders;
use crate::cache::inserts::Inserts;
use crate::cache::objects::Stores;
use crate::cache::queue_time::QueueTimes;
use crate::cache::scraping::Scraping;
use crate::cache::secret_references::References;
use crate::cache::shown::ConsoleHistory;
use crate::cache::sizing::Sizing;
use crate::cache::slots::Slots;
use crate::clickhouse::TableAccess;
use crate::clickhouse::migrations::Migrations;
use crate::coordination::Coordinators;
use crate::discovery::Discovery;
use crate::kafka::Brokers;
use crate::kafka::lag_cache::LagSource;
use crate::outbound::Outbound;
use crate::pods::{MetricsApi, PodSource, ShareSource};
use crate::report::events::Events;
use crate::telemetry::metrics::Metrics;

/// The current time, for conditions and sizing windows.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The machine's own clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The digest of a collector's tag: `TAG=sha256:` and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagDigest {
    /// Version and allocator, for example `0.1.0-system`.
    pub tag: String,
    /// The digest with its algorithm, as in image names.
    pub digest: String,
}

impl FromStr for TagDigest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let hex = |digest: &str| digest.strip_prefix("sha256:").map(str::to_owned);
        match text.split_once('=') {
            Some((tag, digest))
                if !tag.is_empty()
                    && hex(digest).is_some_and(|hex| hex.len() == 64 && hex.bytes().all(lower)) =>
            {
                Ok(Self { tag: tag.to_owned(), digest: digest.to_owned() })
            }
            _ => Err(format!("{text:?} is not TAG=sha256:DIGEST with 64 lower-case hex digits")),
        }
    }
}

/// The repository of collector images, and the user that pods run as.
#[derive(Clone, Debug)]
pub struct Images {
    /// The repository without tag, for example `millrace/collector`.
    pub collector_repository: String,
    /// The digests of images in that repository, by tag.
    pub collector_digests: BTreeMap<String, String>,
    /// The version used where a spec does not name one.
    pub collector_version_default: String,
    /// The user and group of their pods; `None` where the cluster assigns them.
    pub user: Option<i64>,
}

/// All dependencies of a reconcile.
pub struct Context {
    /// The client of the Kubernetes API.
    pub client: Client,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Publishes events on the user's objects.
    pub events: Events,
    /// The operator's metrics.
    pub metrics: Metrics,
    /// Failures in a row, per object.
    pub failures: Failures,
    /// The collector images.
    pub images: Images,
    /// Consumer lag, from the broker.
    pub lag: Arc<dyn LagSource>,
    /// Topics, in Kafka.
    pub brokers: Arc<dyn Brokers>,
    /// The allowed hosts, and the budget for their responses.
    pub outbound: Outbound,
    /// Tables, in ClickHouse.
    pub tables: Arc<dyn TableAccess>,
    /// Keeper's and ZooKeeper's servers.
    pub coordination: Arc<dyn Coordinators>,
    /// The counts of requests to these servers that ClickHouse servers had at the last check, by a
    /// schema's uid and by endpoint.
    pub coordination_counts: ByPool<BTreeMap<String, Counters>>,
    /// The pods' figures.
    pub pods: Arc<dyn PodSource>,
    /// The pods' reports of the targets that they scrape.
    pub shares: Arc<dyn ShareSource>,
    /// The result of each pool's last round of sharing out targets.
    pub scraping: ByPool<Scraping>,
    /// The metrics API, for silent pods.
    pub metered: MetricsApi,
    /// The sizing data of each pool.
    pub sizings: ByPool<Sizing>,
    /// What the console shows and no status contains.
    pub console_history: ConsoleHistory,
    /// Versions of children from watches, and which were verified.
    pub child_cache: ChildCache,
    /// What gateway pools at rest need not read.
    pub gateway_cache: GatewayCache,
    /// The holders of topics, groups and tables.
    pub claims: Claims,
    /// Records of claims in Kafka and ClickHouse, for claimants that this process can't observe.
    pub holders: Holders,
    /// Which pools refer to which Secrets.
    pub references: References,
    /// Whether the operator may watch Secrets, and does.
    pub watches_secrets: bool,
    /// When objects began to wait for their reconcile.
    pub queue_times: QueueTimes,
    /// Objects of our own kinds, from their controllers' stores.
    pub stores: Stores,
    /// The reconciles that may run at once.
    pub slots: Slots,
    /// The accounts that may watch pods and namespaces.
    pub access: AccountBindings,
    /// The ClusterRole with which pods that scrape read their shares; `None` if that right is
    /// granted by other means.
    pub share_role: Option<String>,
    /// Which tables are being migrated.
    pub migrations: Migrations,
    /// The insert rates of pools by table.
    pub inserts: Inserts,
    /// The pods' past figures, for judging rollouts.
    pub baselines: ByPool<Baseline>,
    /// The objects discovered in the cluster for pools that scrape.
    pub discovery: Discovery,
    /// The address of the release's documentation, for statuses.
    pub docs_url: Option<String>,
    /// Whether Secrets that monitors name may be gathered into Secrets of pools.
    pub gathers_secrets: bool,
}
