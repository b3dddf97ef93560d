//! The page at `/` of the admin port: the path of records through this process, with rates,
//! in-flight records, and refused or lost ones. It is for a person with a browser; machines read
//! `/metrics`.
//!
//! It shows only the data of `/readyz` and `/metrics`: no settings, records or secrets. It is HTML
//! without scripts and reloads automatically. Rates come from the figures of an earlier page, so
//! the first page has none. Limit: it stores two samples of a few counters.

mod html;
pub(crate) mod share;
pub(crate) mod targets;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_config::{CollectorMode, ExporterNames};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::figures::MetricsSnapshot;
use millrace_pipeline::readiness::Readiness;

/// The minimum time between samples: closer samples would make a rate jump from page to page.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum age of a sample that a current rate is computed from.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(60);

/// Counters that are shown as rates, and sums and counts of answer times.
const RATED: [&str; 8] = [
    "millrace_records_in_total",
    "millrace_records_out_total",
    "millrace_files_read_bytes_total",
    "millrace_produce_duration_seconds_sum",
    "millrace_produce_duration_seconds_count",
    "millrace_insert_duration_seconds_sum",
    "millrace_insert_duration_seconds_count",
    "process_cpu_seconds_total",
];

/// The path of records through a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordPath {
    /// The kind of process.
    kind: &'static str,
    /// Where records come from.
    from: String,
    /// Where they go.
    to: &'static str,
}

impl RecordPath {
    /// Returns the path that a mode serves.
    pub(crate) fn from_mode(mode: &CollectorMode) -> Self {
        match mode {
            CollectorMode::Edge { sources, exporter, .. } => {
                let ExporterNames { process, system, .. } = exporter.names();
                Self { kind: process, from: sources.names().join(", "), to: system }
            }
            CollectorMode::Gateway { .. } => {
                Self { kind: "gateway", from: "Kafka".to_owned(), to: "ClickHouse" }
            }
        }
    }
}

/// Whether the process works.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ProcessState {
    /// It works; the texts need attention.
    Ready(Vec<String>),
    /// It does not work, for these reasons.
    NotReady(Vec<String>),
    /// It drains.
    Draining,
}

/// Everything that a page is rendered from.
struct View<'a> {
    version: &'a str,
    path: &'a RecordPath,
    state: ProcessState,
    now: &'a MetricsSnapshot,
    earlier: Option<Earlier>,
    /// The process's uptime.
    uptime: Duration,
}

/// The figures that rates are computed from, and their age.
#[derive(Debug, Clone, PartialEq)]
struct Earlier {
    figures: MetricsSnapshot,
    age: Duration,
}

/// Renders the page.
pub(crate) struct StatusPage {
    version: &'static str,
    path: RecordPath,
    began: Instant,
    samples: Mutex<Samples>,
}

impl StatusPage {
    /// Returns the page of a process that starts now.
    pub(crate) fn new(version: &'static str, path: RecordPath) -> Self {
        Self { version, path, began: Instant::now(), samples: Mutex::default() }
    }

    /// Renders the current page.
    pub(crate) fn render(
        &self,
        now: &MetricsSnapshot,
        readiness: &Readiness,
        drain: &Drain,
    ) -> String {
        let earlier = {
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.add_sample(Instant::now(), now.filter_names(&RATED))
        };
        let reasons = readiness.reasons();
        let state = match (drain.is_announced(), reasons.is_empty()) {
            (true, _) => ProcessState::Draining,
            (false, false) => ProcessState::NotReady(reasons),
            (false, true) => ProcessState::Ready(readiness.warnings()),
        };
        html::render_page(&View {
            version: self.version,
            path: &self.path,
            state,
            now,
            earlier,
            uptime: self.began.elapsed(),
        })
    }
}

/// The newest sample and the one before it.
#[derive(Debug, Default)]
struct Samples {
    older: Option<(Instant, MetricsSnapshot)>,
    newer: Option<(Instant, MetricsSnapshot)>,
}

impl Samples {
    /// Stores a sample unless the newest is too young, and returns the one to compute rates from.
    fn add_sample(&mut self, at: Instant, figures: MetricsSnapshot) -> Option<Earlier> {
        let age = |sampled_at: &Instant| at.saturating_duration_since(*sampled_at);
        if self.newer.as_ref().is_none_or(|(sampled_at, _)| age(sampled_at) >= SAMPLE_INTERVAL) {
            self.older = self.newer.replace((at, figures));
        }
        let older = self.older.as_ref().filter(|(sampled_at, _)| age(sampled_at) <= SAMPLE_AGE_MAX);
        older
            .map(|(sampled_at, figures)| Earlier { figures: figures.clone(), age: age(sampled_at) })
    }
}

#[cfg(test)]
mod tests;
