//! Scrapes targets and converts their metrics, in Prometheus' text formats, to OTLP.
//!
//! Each target has its own task, so that one that hangs delays no other. [`millrace_scrape`] parses
//! a body piece by piece as it arrives: no body is held completely. Points belong to their time:
//! while nothing accepts them, a scrape is retried until the next one is due, then abandoned and
//! counted. Nothing is queued.
//!
//! # Limits
//! A target has one connection at most, which is retained until the next scrape if that is soon and
//! memory and the number of idle connections permit it. Redirects are followed only if the settings
//! permit it. A loopback or link-local address is refused, unless the settings allow it: the
//! address is checked after the name was resolved, and the checked address is connected to. At most
//! [`LOOKUPS_MAX`] names are resolved at once, and [`SLOW_LOOKUPS_MAX`] more that the name server
//! doesn't answer. The process's budget counts the memory.

mod connect;
mod connected_job;
mod discovery;
mod metrics;
mod report;
mod resolve;
mod rules;
mod set;
mod share_versions;
mod target_row;
mod target_status;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{HttpTargets, HttpUrl, PrometheusReceiver, UrlError};
use millrace_pipeline::component::{
    ComponentError, RunningSource, Source, SourceContext, StartingSource,
};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::TelemetryError;
use millrace_wire::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

use connect::{Connector, Network};
pub use connect::{HostNames, LOOKUPS_MAX, SLOW_LOOKUPS_MAX};
pub use report::{EntryReport, ShareReport, ShareView};
pub use target_row::{LastScrape, TargetState};
pub use target_status::{
    DroppedCounts, ERROR_CHARACTERS_MAX, JobView, LISTS_MAX, ListView, TargetStatus, TargetView,
    TargetsView,
};

use connected_job::ConnectedJob;
use discovery::files::TargetFiles;
use discovery::http::HttpList;
use discovery::share::ShareReader;
use discovery::{TargetList, TargetSource, TargetUpdate};
use metrics::ScrapeMetrics;
use resolve::Resolver;
pub use rules::RuleError;
use rules::RuledJob;
use rules::check_rules;
use set::TargetSet;
use worker::{SCRAPE_BYTES, TargetContext};

use millrace_pipeline::delivery_path::DeliveryPath;

/// The most updates of sources that wait for the set.
const UPDATES_MAX: usize = 16;

/// The time that is reserved before the drain's deadline to finish running scrapes, if the share
/// isn't empty by then.
const FINISH_TIME: Duration = Duration::from_secs(3);

/// How long an empty share waits for the operator to fetch its report: it does so every 5 s.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// The targets to scrape, as a source.
pub struct PrometheusSource {
    /// The receiver's settings.
    pub settings: PrometheusReceiver,
    /// The state of targets that the receiver updates.
    pub target_status: TargetStatus,
    /// The share that jobs and targets come from; `None` if they come from the settings.
    pub share: Option<Shares>,
    /// The resolver of host names.
    pub hosts: HostNames,
}

impl PrometheusSource {
    /// Returns a source that resolves host names as the system does.
    #[must_use]
    pub fn new(
        settings: PrometheusReceiver,
        target_status: TargetStatus,
        share: Option<Shares>,
    ) -> Self {
        Self { settings, target_status, share, hosts: HostNames::of_system() }
    }
}

impl Source for PrometheusSource {
    fn name(&self) -> &'static str {
        "prometheus"
    }

    fn check(&self) -> Result<(), String> {
        check_rules(&self.settings).map_err(|error| error.to_string())
    }

    fn start(self: Box<Self>, context: SourceContext) -> StartingSource {
        Box::pin(async move {
            let run: RunningSource = Box::pin(start(*self, context)?.run());
            Ok(run)
        })
    }
}

/// The reason why the receiver can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No exporter accepts metrics.
    #[error(
        "targets are scraped, but metrics have no destination: set a topic for metrics in the \
         exporter"
    )]
    Unconfigured,
    /// The budget is too small for a scrape.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small to scrape a target, which requires \
         {needed_bytes} bytes; raise memory.limitBytes or the pod's memory limit"
    )]
    SmallBudget {
        /// The size of the budget.
        budget_bytes: u64,
        /// The minimum size.
        needed_bytes: u64,
    },
    /// A job's path or the URL of its list is invalid.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A job's rule is invalid.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The metrics are registered already.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

impl From<StartError> for ComponentError {
    fn from(error: StartError) -> Self {
        let message = format!("prometheus: {error}");
        match error {
            StartError::SmallBudget { .. } | StartError::Rule(_) => Self::invalid_settings(message),
            _ => Self::failed(message),
        }
    }
}

/// A receiver that is ready to scrape.
#[derive(Debug)]
pub struct Prometheus {
    set: TargetSet,
    /// The readers of lists, with their sources' indexes.
    readers: Vec<(usize, ListReader)>,
    share: Option<(ShareReader, ShareDrain)>,
}

/// Delays the end of the targets while the share has entries.
#[derive(Debug)]
struct ShareDrain {
    /// The process's drain.
    drain: Drain,
    /// The targets' drain.
    ours: Drain,
    target_status: TargetStatus,
}

/// A reader of lists.
#[derive(Debug)]
enum ListReader {
    Files(TargetFiles),
    Http(Box<HttpList>),
}

/// Builds a receiver. It doesn't connect yet.
///
/// # Errors
/// No exporter accepts metrics, the budget is too small, or a URL or rule is invalid.
pub fn start(targets: PrometheusSource, context: SourceContext) -> Result<Prometheus, StartError> {
    let PrometheusSource { settings, target_status, share, hosts } = targets;
    let SourceContext { budget, drain, telemetry, publisher } = context;
    let PrometheusReceiver { jobs, allow_local_addresses, .. } = settings;
    if !publisher.accepts_signal(Signal::Metrics) {
        return Err(StartError::Unconfigured);
    }
    if budget.limit_bytes() < SCRAPE_BYTES {
        let budget_bytes = budget.limit_bytes();
        return Err(StartError::SmallBudget { budget_bytes, needed_bytes: SCRAPE_BYTES });
    }
    let metrics = ScrapeMetrics::register(&telemetry)?;
    let network = Network::new(allow_local_addresses, hosts);
    let delivery = DeliveryPath { budget, telemetry, publisher };
    let shared = TargetContext { delivery, metrics, drain, spare: Arc::default() };
    if let Some(shares) = share {
        return Ok(of_share(shares, &network, shared, target_status));
    }
    let (mut all, mut sources, mut readers) = (Vec::new(), Vec::new(), Vec::new());
    for (index, job) in jobs.into_iter().enumerate() {
        let job = Arc::new(RuledJob::new(job)?);
        let connector = Arc::new(Connector::new(&job.http_access(), &network));
        if let Some(exposed) = job.exposed_credentials() {
            tracing::warn!(job = job.name, "credentials are sent in plaintext: {exposed}");
        }
        let source = |listed| TargetSource { job: index, listed, lists: Vec::new() };
        sources.push(source(of_settings((index, &job))));
        let here = (index, Arc::clone(&job));
        if !job.files.is_empty() {
            let files = TargetFiles::new(here.clone(), shared.metrics.clone());
            readers.push((sources.len(), ListReader::Files(files)));
            sources.push(source(TargetList::default()));
        }
        for HttpTargets { url, refresh_seconds } in &job.http {
            let (url, metrics) = (HttpUrl::new(url)?, shared.metrics.clone());
            let list = (url, *refresh_seconds);
            let list = HttpList::new(here.clone(), list, Arc::clone(&connector), metrics);
            readers.push((sources.len(), ListReader::Http(Box::new(list))));
            sources.push(source(TargetList::default()));
        }
        all.push(ConnectedJob { settings: job, connector });
    }
    Ok(Prometheus {
        set: TargetSet::new(all, sources, shared, target_status),
        readers,
        share: None,
    })
}

/// Builds a receiver whose jobs and targets come from a share.
fn of_share(
    shares: Shares,
    network: &Network,
    shared: TargetContext,
    target_status: TargetStatus,
) -> Prometheus {
    // Callers know from the start that a share exists.
    target_status.set_share_fault(String::new());
    let reader =
        ShareReader::new(shares, network.clone(), shared.metrics.clone(), target_status.clone());
    // It is begun with the deadline of the process's drain.
    let ours = Drain::new(Duration::ZERO);
    let ending = ShareDrain {
        drain: shared.drain,
        ours: ours.clone(),
        target_status: target_status.clone(),
    };
    let set = TargetSet::of_share(TargetContext { drain: ours, ..shared }, target_status);
    Prometheus { set, readers: Vec::new(), share: Some((reader, ending)) }
}

/// Returns the targets in a job's settings.
fn of_settings(job: (usize, &RuledJob)) -> TargetList {
    let (mut listed, mut resolver) = (TargetList::default(), Resolver::new(job));
    for target in &job.1.targets {
        listed.add_resolved(resolver.resolve_target(target.as_str(), &BTreeMap::new()));
    }
    listed
}

impl Prometheus {
    /// Scrapes until the drain begins. Returns whether all accepted points were confirmed.
    pub async fn run(self) -> bool {
        let Self { set, readers, share } = self;
        let (updates, received) = mpsc::channel::<TargetUpdate>(UPDATES_MAX);
        // The readers end when this set is dropped.
        let mut reading = JoinSet::new();
        for (source, reader) in readers {
            let updates = updates.clone();
            match reader {
                ListReader::Files(files) => reading.spawn(files.run(source, updates)),
                ListReader::Http(list) => reading.spawn(list.run(source, updates)),
            };
        }
        if let Some((reader, ending)) = share {
            reading.spawn(reader.run(updates.clone()));
            reading.spawn(ending.run());
        }
        drop(updates);
        set.run(received).await
    }
}

impl ShareDrain {
    /// Begins the targets' drain once the process drains and the share is empty, or the deadline is
    /// near: until then other pods take over one target after the other.
    async fn run(self) {
        let Self { drain, ours, target_status } = self;
        drain.wait_for_begin().await;
        let time = drain.remaining().saturating_sub(FINISH_TIME);
        let is_over = async {
            target_status.share_is_released().await;
            // The operator that reads that the last targets are free needn't wait until the pod is
            // gone.
            let _ = timeout(REPORT_TIME, target_status.share_is_reported()).await;
        };
        if timeout(time, is_over).await.is_err() {
            tracing::warn!("the shutdown deadline passed before all targets were handed over");
        }
        ours.begin_by(drain.deadline().unwrap_or_else(Instant::now));
    }
}
