//! Targets that are scraped: their metrics, in Prometheus' text formats, become OTLP.
//!
//! Each target has a task of its own, so that one that hangs delays no other. What its body says is
//! told by [`millrace_scrape`], piece by piece as it arrives: no body is held whole. Points are
//! samples in time: while nothing takes them, a scrape is tried until the next one is due, then
//! given up and counted. Nothing is queued.
//!
//! # Limits
//! A target has one connection at most, closed after each scrape. Redirects are not followed unless
//! the settings say so. A target with a loopback or link-local address is refused, unless the
//! settings allow it: the address is checked after the name was resolved, and that address is
//! connected to. At most [`LOOKUPS_MAX`] names are resolved at once. What is held is reserved in
//! the process's budget.

mod board;
mod buffers;
mod client;
mod connect;
mod discovery;
mod gunzip;
mod resolve;
mod rules;
mod set;
mod worker;

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_config::{HttpTargets, HttpUrl, PrometheusReceiver, UrlError};
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::scrape_metrics::ScrapeMetrics;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_wire::Signal;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use board::{
    Board, DroppedCounts, ERROR_CHARACTERS_MAX, JobView, LISTS_MAX, LastScrape, ListView,
    TargetState, TargetView, TargetsView,
};
pub use connect::LOOKUPS_MAX;
use connect::{Connector, Network};

use discovery::files::Files;
use discovery::http::HttpList;
use discovery::{Listed, Update};
use resolve::Resolver;
use rules::RuledJob;
pub use rules::{RuleError, check_rules};
use set::{Job, Set, Source};
use worker::{SCRAPE_BYTES, Shared};

use crate::way::Way;

/// What sources have to say and the set hasn't taken yet.
const UPDATES_MAX: usize = 16;

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
    let Parts { settings, budget, drain, telemetry, publisher, board } = parts;
    let PrometheusReceiver { jobs, allow_local_addresses, .. } = settings;
    if !publisher.takes(Signal::Metrics) {
        return Err(StartError::Unconfigured);
    }
    if budget.limit_bytes() < SCRAPE_BYTES {
        let budget_bytes = budget.limit_bytes();
        return Err(StartError::SmallBudget { budget_bytes, needed_bytes: SCRAPE_BYTES });
    }
    let metrics = ScrapeMetrics::register(&telemetry)?;
    let network = Network::new(allow_local_addresses);
    let way = Way { budget, telemetry, publisher };
    let shared = Shared { way, metrics, drain, spare: Arc::default() };
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
    Ok(Prometheus { set: Set::new(all, sources, shared, board), readers })
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
        let Self { set, readers } = self;
        let (updates, taken) = mpsc::channel::<Update>(UPDATES_MAX);
        // They end with it.
        let mut reading = JoinSet::new();
        for (source, reader) in readers {
            let updates = updates.clone();
            match reader {
                Reader::Files(files) => reading.spawn(files.run(source, updates)),
                Reader::Http(list) => reading.spawn(list.run(source, updates)),
            };
        }
        drop(updates);
        set.run(taken).await
    }
}
