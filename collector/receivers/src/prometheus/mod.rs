//! Targets that are scraped: their metrics, in Prometheus' text formats, become OTLP.
//!
//! Each target has a task of its own, so that one that hangs delays no other. What its body says is
//! told by [`millrace_scrape`], piece by piece as it arrives: no body is held whole. Points are
//! samples in time: while nothing takes them, a scrape is tried until the next one is due, then
//! given up and counted. Nothing is queued.
//!
//! # Limits
//! A target has one connection at most, closed after each scrape. Redirects are not followed. A
//! target with a loopback or link-local address is refused, unless the settings allow it: the
//! address is checked after the name was resolved, and that address is connected to. At most
//! [`LOOKUPS_MAX`] names are resolved at once. What is held is reserved in the process's budget.

mod buffers;
mod client;
mod gunzip;
mod worker;

use std::sync::Arc;

use millrace_config::PrometheusReceiver;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::Publish;
use millrace_pipeline::scrape_metrics::ScrapeMetrics;
use millrace_pipeline::telemetry::{Telemetry, TelemetryError};
use millrace_wire::Signal;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use client::Client;
pub use client::LOOKUPS_MAX;
use worker::{SCRAPE_BYTES, Shared, Worker};

use crate::way::Way;

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
    /// The metrics are registered already.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
}

/// A receiver that is ready to scrape.
#[derive(Debug)]
pub struct Prometheus(Vec<Worker>);

/// Makes a receiver. It connects to nothing yet.
///
/// # Errors
/// When metrics have nowhere to go, or the budget is too small.
pub fn start(parts: Parts) -> Result<Prometheus, StartError> {
    let Parts { settings, budget, drain, telemetry, publisher } = parts;
    let PrometheusReceiver { jobs, allow_local_addresses } = settings;
    if !publisher.takes(Signal::Metrics) {
        return Err(StartError::Unconfigured);
    }
    if budget.limit_bytes() < SCRAPE_BYTES {
        let budget_bytes = budget.limit_bytes();
        return Err(StartError::SmallBudget { budget_bytes, needed_bytes: SCRAPE_BYTES });
    }
    let metrics = ScrapeMetrics::register(&telemetry)?;
    let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
    let way = Way { budget, telemetry, publisher };
    let shared = Shared { way, metrics, drain, spare: Arc::default() };
    let mut workers = Vec::new();
    for job in &jobs {
        for target in &job.targets {
            let lookups = Arc::clone(&lookups);
            let client = Client::new(target, job, allow_local_addresses, lookups);
            workers.push(Worker::new(job, target, client, shared.clone()));
        }
    }
    shared.metrics.targets.set(workers.len() as i64);
    Ok(Prometheus(workers))
}

impl Prometheus {
    /// Scrapes until the drain begins. Whether all that was taken from targets is confirmed then.
    pub async fn run(self) -> bool {
        let mut tasks = JoinSet::new();
        for worker in self.0 {
            tasks.spawn(worker.run());
        }
        let mut is_safe = true;
        while let Some(ended) = tasks.join_next().await {
            match ended {
                Ok(one_is_safe) => is_safe &= one_is_safe,
                // The others go on.
                Err(error) => tracing::error!(%error, "the task of a target that is scraped ended"),
            }
        }
        is_safe
    }
}
