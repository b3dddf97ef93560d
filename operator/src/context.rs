//! What a reconcile may use: the API, the clock, events, metrics, and outside systems.
//!
//! Outside systems are trait objects, so that tests can replace them. What is cached of objects
//! (failures in a row, sizing, verified children) only saves work, and pods' figures are sampled
//! again: losing it undoes no decision.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use millrace_coordination::observation::Counters;

use crate::cache::access::Access;
use crate::cache::baseline::Baseline;
use crate::cache::by_pool::ByPool;
use crate::cache::children::Seen;
use crate::cache::claims::Claims;
use crate::cache::failures::Failures;
use crate::cache::holders::Holders;
use crate::cache::inserts::Inserts;
use crate::cache::objects::Stores;
use crate::cache::queue_time::QueueTimes;
use crate::cache::scraping::Scraping;
use crate::cache::secret_references::References;
use crate::cache::shown::Shown;
use crate::cache::sizing::Sizing;
use crate::clickhouse::Tables;
use crate::clickhouse::migrations::Migrations;
use crate::coordination::Coordinators;
use crate::discovery::Discovery;
use crate::kafka::Brokers;
use crate::kafka::lag_board::LagSource;
use crate::outbound::Outbound;
use crate::pods::{MetricsApi, PodSource, ShareSource};
use crate::report::events::Events;
use crate::telemetry::metrics::Metrics;

/// The current time, for conditions and sizing windows.
pub trait Clock: Send + Sync {
    /// The time now.
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

/// The digest that a collector's tag stands for: `TAG=sha256:` and 64 hex digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagDigest {
    /// Version and allocator, for example `0.1.0-system`.
    pub tag: String,
    /// With its algorithm, as image names have it.
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
    /// Repository without tag, for example `millrace/collector`.
    pub collector_repository: String,
    /// Digests by tag, of images in that repository.
    pub collector_digests: BTreeMap<String, String>,
    /// Version used where a spec does not name one.
    pub collector_version_default: String,
    /// User and group of their pods; none where the cluster assigns them.
    pub user: Option<i64>,
}

/// Everything a reconcile may touch.
pub struct Context {
    /// The Kubernetes API.
    pub client: Client,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Events on the user's objects.
    pub events: Events,
    /// The operator's figures.
    pub metrics: Metrics,
    /// Failures in a row, per object.
    pub failures: Failures,
    /// Where images come from.
    pub images: Images,
    /// Consumer lag, from the broker.
    pub lag: Arc<dyn LagSource>,
    /// Topics, in Kafka.
    pub brokers: Arc<dyn Brokers>,
    /// Allowed hosts, and the budget for their answers.
    pub outbound: Outbound,
    /// Tables, in ClickHouse.
    pub tables: Arc<dyn Tables>,
    /// Keeper's and ZooKeeper's servers.
    pub coordination: Arc<dyn Coordinators>,
    /// What ClickHouse servers had counted of their requests to these at the last look, by a
    /// schema's uid and by endpoint.
    pub coordination_counts: ByPool<BTreeMap<String, Counters>>,
    /// What pods say of themselves.
    pub pods: Arc<dyn PodSource>,
    /// What pods say of the targets that they scrape.
    pub shares: Arc<dyn ShareSource>,
    /// What the last round of sharing out found of each pool.
    pub scraping: ByPool<Scraping>,
    /// The metrics API, for silent pods.
    pub metered: MetricsApi,
    /// What is remembered of each pool's sizing.
    pub sizings: ByPool<Sizing>,
    /// What the console shows and no status holds.
    pub shown: Shown,
    /// Versions of children from watches, and which were verified.
    pub seen: Arc<Seen>,
    /// Who holds which topics, groups and tables.
    pub claims: Claims,
    /// Records of claims in Kafka and ClickHouse, for claimants that this process can't see.
    pub holders: Holders,
    /// Which pools refer to which Secrets.
    pub references: Arc<References>,
    /// Whether the operator may watch Secrets, and does.
    pub watches_secrets: bool,
    /// Since when objects wait for their reconcile.
    pub queue_times: Arc<QueueTimes>,
    /// Objects of our own kinds, from their controllers' stores.
    pub stores: Stores,
    /// Who may watch pods.
    pub pod_access: Access,
    /// Who may watch namespaces.
    pub namespace_access: Access,
    /// The ClusterRole with which pods that scrape read their shares; none if that right is given
    /// by others.
    pub share_role: Option<String>,
    /// Which tables are being migrated.
    pub migrations: Migrations,
    /// How fast pools insert into tables.
    pub inserts: Inserts,
    /// What pods did, for judging rollouts.
    pub baselines: ByPool<Baseline>,
    /// What is found in the cluster for pools that scrape.
    pub discovery: Discovery,
    /// Whether Secrets that monitors name may be gathered into Secrets of pools.
    pub gathers_secrets: bool,
}
