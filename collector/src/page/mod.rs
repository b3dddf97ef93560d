//! The page at `/` of the admin port: the path of records through this process, with rates, what is
//! held, and what was refused or lost. For a person with a browser; machines read `/metrics`.
//!
//! It shows what `/readyz` and `/metrics` show and no more: no settings, records or secrets. It is
//! HTML without scripts and reloads itself. Rates come from the figures of an earlier page, so the
//! first page has none. Limits: two samples of a few counters are kept.

mod html;
pub(crate) mod share;
pub(crate) mod targets;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use millrace_config::Mode;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::figures::Figures;
use millrace_pipeline::readiness::Readiness;

/// Samples are at least this far apart: from closer ones a rate would jump from page to page.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// An older sample is no base for a present rate.
const SAMPLE_AGE_MAX: Duration = Duration::from_secs(60);

/// Counters that are shown as rates, and sums and counts of answer times.
const RATED: [&str; 8] = [
    "millrace_records_in_total",
    "millrace_records_out_total",
    "millrace_files_read_bytes_total",
    "millrace_produce_seconds_sum",
    "millrace_produce_seconds_count",
    "millrace_insert_seconds_sum",
    "millrace_insert_seconds_count",
    "process_cpu_seconds_total",
];

/// The path of records through a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordPath {
    /// What kind of process this is.
    kind: &'static str,
    /// Where records come from.
    from: String,
    /// Where they go.
    to: &'static str,
}

impl RecordPath {
    /// The path that a mode serves.
    pub(crate) fn of(mode: &Mode) -> Self {
        match mode {
            Mode::Edge { sources, .. } => Self { kind: "edge", from: sources.names(), to: "Kafka" },
            Mode::Direct { sources, .. } => {
                Self { kind: "edge and gateway in one", from: sources.names(), to: "ClickHouse" }
            }
            Mode::Gateway { .. } => {
                Self { kind: "gateway", from: "Kafka".to_owned(), to: "ClickHouse" }
            }
        }
    }
}

/// Whether the process does its work.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// It does; what needs attention nevertheless.
    Ready(Vec<String>),
    /// It does not, and why.
    NotReady(Vec<String>),
    /// It ends.
    Draining,
}

/// All that a page is made from.
struct View<'a> {
    version: &'a str,
    path: &'a RecordPath,
    state: State,
    now: &'a Figures,
    earlier: Option<Earlier>,
    /// How long the process has run.
    uptime: Duration,
}

/// The figures that rates are counted from, and how long ago they were taken.
#[derive(Debug, Clone, PartialEq)]
struct Earlier {
    figures: Figures,
    age: Duration,
}

/// The page's maker.
pub(crate) struct Page {
    version: &'static str,
    path: RecordPath,
    began: Instant,
    samples: Mutex<Samples>,
}

impl Page {
    /// The page of a process that begins now.
    pub(crate) fn new(version: &'static str, path: RecordPath) -> Self {
        Self { version, path, began: Instant::now(), samples: Mutex::default() }
    }

    /// The page as it is now.
    pub(crate) fn render(&self, now: &Figures, readiness: &Readiness, drain: &Drain) -> String {
        let earlier = {
            let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
            samples.take(Instant::now(), now.only(&RATED))
        };
        let reasons = readiness.reasons();
        let state = match (drain.is_announced(), reasons.is_empty()) {
            (true, _) => State::Draining,
            (false, false) => State::NotReady(reasons),
            (false, true) => State::Ready(readiness.notes()),
        };
        html::page(&View {
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
    older: Option<(Instant, Figures)>,
    newer: Option<(Instant, Figures)>,
}

impl Samples {
    /// Keeps a sample unless the newest is too young, and gives the one to count rates from.
    fn take(&mut self, at: Instant, figures: Figures) -> Option<Earlier> {
        let age = |taken: &Instant| at.saturating_duration_since(*taken);
        if self.newer.as_ref().is_none_or(|(taken, _)| age(taken) >= SAMPLE_INTERVAL) {
            self.older = self.newer.replace((at, figures));
        }
        let older = self.older.as_ref().filter(|(taken, _)| age(taken) <= SAMPLE_AGE_MAX);
        older.map(|(taken, figures)| Earlier { figures: figures.clone(), age: age(taken) })
    }
}

#[cfg(test)]
#[path = "../../tests/unit/page.rs"]
mod tests;
