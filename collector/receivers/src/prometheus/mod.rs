//! Targets that are scraped: their metrics, in Prometheus' text formats, become OTLP.
//!
//! Each target has a task of its own, so that one that hangs delays no other. What its body says is
//! told by [`millrace_scrape`], piece by piece as it arrives: no body is held whole. Points are
//! samples in time: while nothing takes them, a scrape is tried until the next one is due, then
//! given up and counted. Nothing is queued.
//!
//! # Limits
//! A target has one connection at most, which is kept until the next scrape if that is soon, there
//! is room and few are kept. Redirects are not followed unless
//! the settings say so. A target with a loopback or link-local address is refused, unless the
//! settings allow it: the address is checked after the name was resolved, and that address is
//! connected to. At most [`LOOKUPS_MAX`] names are resolved at once, and [`SLOW_LOOKUPS_MAX`] more
//! that the name server doesn't answer. What is held is reserved in the process's budget.

mod board;
mod buffers;
mod client;
mod connect;
mod discovery;
mod end;
mod gunzip;
mod report;
mod resolve;
mod rules;
mod set;
mod takeup;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{HttpTargets, HttpUrl, PrometheusReceiver, UrlError};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::scrape_metrics::ScrapeMetrics;
use millrace_pipeline::share::Shares;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_wire::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub use board::{
    Board, DroppedCounts, ERROR_CHARACTERS_MAX, JobView, LISTS_MAX, LastScrape, ListView,
    TargetState, TargetView, TargetsView,
};
use connect::{Connector, Network};
pub use connect::{HostNames, LOOKUPS_MAX, SLOW_LOOKUPS_MAX};
pub use report::{EntryReport, ShareReport, ShareView};

use discovery::files::Files;
use discovery::http::HttpList;
use discovery::share::ShareReader;
use discovery::{Listed, News};
use resolve::Resolver;
use rules::RuledJob;
pub use rules::{RuleError, check_rules};
use set::{Job, Set, Source};
use worker::{SCRAPE_BYTES, Shared};

use crate::way::Way;

/// What sources have to say and the set hasn't taken yet.
const UPDATES_MAX: usize = 16;

/// What is left before the drain's deadline to finish scrapes under way, where the share isn't
/// empty by then.
const FINISH_TIME: Duration = Duration::from_secs(3);

/// How long an empty share waits for the operator to hear of it: it asks each 5 s.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// What a receiver works with.
pub struct Parts {
    /// What is scraped.
    pub settings: PrometheusReceiver,
    /// Where the bytes in flight are counted.
    pub budget: Budget,
    /// When to stop.
    pub drain: Drain,
    /// Where everything is counted.
    pub telemetry: Arc<Telemetry>,
    /// Where requests go.
    pub publisher: Arc<dyn Publish>,
    /// Where it says what is known of targets.
    pub board: Board,
    /// Where jobs and targets come from, if not from the settings.
    pub share: Option<Shares>,
    /// Who knows the addresses of names.
    pub hosts: HostNames,
}

/// A receiver that could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Metrics have nowhere to go.
    #[error("targets are scraped and metrics have nowhere to go: give the exporter a topic")]
    Unconfigured,
    /// The budget holds no scrape.
    #[error(
        "the memory budget of {budget_bytes} bytes is too small to scrape a target: it needs \
         {needed_bytes}; raise memory.limitBytes or the pod's memory limit"
    )]
    SmallBudget {
        /// What there is.
        budget_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// A job's path, or the URL of its list, can't be asked.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A job's rule can't be used.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The metrics are registered already.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

/// A receiver that is ready to scrape.
#[derive(Debug)]
pub struct Prometheus {
    set: Set,
    /// With the places of their sources.
    readers: Vec<(usize, Reader)>,
    share: Option<(ShareReader, Ending)>,
}

/// How the end is put off while there is a share.
#[derive(Debug)]
struct Ending {
    /// The process's.
    drain: Drain,
    /// The targets'.
    ours: Drain,
    board: Board,
}

/// What reads lists.
#[derive(Debug)]
enum Reader {
    Files(Files),
    Http(Box<HttpList>),
}

/// Makes a receiver. It connects to nothing yet.
///
/// # Errors
/// When metrics have nowhere to go, or the budget is too small.
pub fn start(parts: Parts) -> Result<Prometheus, StartError> {
    let Parts { settings, budget, drain, telemetry, publisher, board, share, hosts } = parts;
    let PrometheusReceiver { jobs, allow_local_addresses, .. } = settings;
    if !publisher.takes(Signal::Metrics) {
        return Err(StartError::Unconfigured);
    }
    if budget.limit_bytes() < SCRAPE_BYTES {
        let budget_bytes = budget.limit_bytes();
        return Err(StartError::SmallBudget { budget_bytes, needed_bytes: SCRAPE_BYTES });
    }
    let metrics = ScrapeMetrics::register(&telemetry)?;
    let network = Network::new(allow_local_addresses, hosts);
    let way = Way { budget, telemetry, publisher };
    let shared = Shared { way, metrics, drain, spare: Arc::default() };
    if let Some(shares) = share {
        return Ok(of_share(shares, &network, shared, board));
    }
    let (mut all, mut sources, mut readers) = (Vec::new(), Vec::new(), Vec::new());
    for (place, job) in jobs.into_iter().enumerate() {
        let job = Arc::new(RuledJob::new(job)?);
        let connector = Arc::new(Connector::new(&job.access(), &network));
        if let Some(exposed) = job.exposed() {
            tracing::warn!(job = job.name, "credentials are sent unencrypted: {exposed}");
        }
        let source = |listed| Source { job: place, listed, lists: Vec::new() };
        sources.push(source(of_settings((place, &job))));
        let here = (place, Arc::clone(&job));
        if !job.files.is_empty() {
            let files = Files::new(here.clone(), shared.metrics.clone());
            readers.push((sources.len(), Reader::Files(files)));
            sources.push(source(Listed::default()));
        }
        for HttpTargets { url, refresh_seconds } in &job.http {
            let (url, metrics) = (HttpUrl::new(url)?, shared.metrics.clone());
            let list = (url, *refresh_seconds);
            let list = HttpList::new(here.clone(), list, Arc::clone(&connector), metrics);
            readers.push((sources.len(), Reader::Http(Box::new(list))));
            sources.push(source(Listed::default()));
        }
        all.push(Job { settings: job, connector });
    }
    Ok(Prometheus { set: Set::new(all, sources, shared, board), readers, share: None })
}

/// A receiver whose jobs and targets come from a share.
fn of_share(shares: Shares, network: &Network, shared: Shared, board: Board) -> Prometheus {
    // Whoever asks knows at once that there is one.
    board.set_share_fault(String::new());
    let reader = ShareReader::new(shares, network.clone(), shared.metrics.clone(), board.clone());
    // Begun with the deadline of the process's own.
    let ours = Drain::new(Duration::ZERO);
    let ending = Ending { drain: shared.drain, ours: ours.clone(), board: board.clone() };
    let set = Set::of_share(Shared { drain: ours, ..shared }, board);
    Prometheus { set, readers: Vec::new(), share: Some((reader, ending)) }
}

/// The targets that a job's settings name.
fn of_settings(job: (usize, &RuledJob)) -> Listed {
    let (mut listed, mut resolver) = (Listed::default(), Resolver::new(job));
    for target in &job.1.targets {
        listed.take(resolver.resolve(target.as_str(), &BTreeMap::new()));
    }
    listed
}

impl Prometheus {
    /// Scrapes until the drain begins. Whether all that was taken from targets is confirmed then.
    pub async fn run(self) -> bool {
        let Self { set, readers, share } = self;
        let (updates, taken) = mpsc::channel::<News>(UPDATES_MAX);
        // They end with it.
        let mut reading = JoinSet::new();
        for (source, reader) in readers {
            let updates = updates.clone();
            match reader {
                Reader::Files(files) => reading.spawn(files.run(source, updates)),
                Reader::Http(list) => reading.spawn(list.run(source, updates)),
            };
        }
        if let Some((reader, ending)) = share {
            reading.spawn(reader.run(updates.clone()));
            reading.spawn(ending.run());
        }
        drop(updates);
        set.run(taken).await
    }
}

impl Ending {
    /// Ends the targets once the process drains and the share is empty, or the deadline is near:
    /// until then other pods take over one target after the other.
    async fn run(self) {
        let Self { drain, ours, board } = self;
        drain.begun().await;
        let time = drain.remaining().saturating_sub(FINISH_TIME);
        let is_over = async {
            board.share_is_over().await;
            // Who hears that the last targets are free need not wait until the pod is gone.
            let _ = timeout(REPORT_TIME, board.share_is_told()).await;
        };
        if timeout(time, is_over).await.is_err() {
            tracing::warn!("the drain's deadline comes before all targets were handed over");
        }
        ours.begin_by(drain.deadline().unwrap_or_else(Instant::now));
    }
}
