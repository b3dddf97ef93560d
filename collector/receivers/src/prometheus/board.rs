//! What is known of targets and lists at this moment, for the page and its JSON.
//!
//! Each target has a row with a lock of its own, which its task holds for the time of an assignment
//! once or twice in an interval. A reader takes the list of rows, then one row after the other, so
//! nobody waits for a page. It holds no bodies and no secrets: URLs are without the values of their
//! queries.
//!
//! # Limits
//! A row has the target's labels (4 KiB at most, shared with its task) and an error of
//! [`ERROR_CHARACTERS_MAX`] characters; there are as many rows as targets, and [`LISTS_MAX`] lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_shares::TargetId;
use tokio::sync::watch;

use super::report::{Progress, Reported, ShareReport, ShareState, ShareView};
use super::resolve::Resolved;
use crate::clock::now_unix_nanos;

/// The longest error that is shown.
pub const ERROR_CHARACTERS_MAX: usize = 300;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Most lists that are shown.
pub const LISTS_MAX: usize = 1000;

/// Whether a target answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TargetState {
    /// It wasn't asked yet, or what it said wasn't taken.
    #[default]
    Unknown,
    /// Its last scrape succeeded.
    Up,
    /// Its last scrape failed.
    Down,
}

impl TargetState {
    /// As a word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The last scrape of a target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LastScrape {
    /// What it came to.
    pub state: TargetState,
    /// When it began, in milliseconds since 1970; 0 if there was none.
    pub began_unix_millis: u64,
    /// How long it took, in seconds.
    pub duration_seconds: f64,
    /// How many samples it had.
    pub samples: u64,
    /// How many the last one had that succeeded.
    pub good_samples: Option<u64>,
    /// How many series are remembered.
    pub series: u64,
    /// When the next one is due, in milliseconds since 1970.
    pub next_unix_millis: u64,
    /// Why it failed or was given up; empty otherwise.
    pub error: String,
}

/// A target and its last scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetView {
    /// The job's name.
    pub job: String,
    /// Where it is asked, without the values of its query.
    pub url: String,
    /// Labels of all its points, by name.
    pub labels: Vec<(String, String)>,
    /// Its last scrape.
    pub last: LastScrape,
}

/// The targets of a job, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobView {
    /// The job's name.
    pub name: String,
    /// Targets by state.
    pub up: u64,
    /// Likewise.
    pub down: u64,
    /// Likewise.
    pub unknown: u64,
    /// What of its lists isn't scraped.
    pub dropped: DroppedCounts,
}

/// What of lists isn't scraped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DroppedCounts {
    /// Rules of relabeling drop it.
    pub relabeled: u64,
    /// It can't be asked.
    pub invalid: u64,
    /// It is there twice.
    pub duplicate: u64,
    /// There are more targets than may be.
    pub over: u64,
    /// What is wrong with one that can't be asked; empty if there is none.
    pub example: String,
}

impl DroppedCounts {
    /// All of them.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.relabeled + self.invalid + self.duplicate + self.over
    }

    pub(super) fn add(&mut self, other: &Self) {
        let Self { relabeled, invalid, duplicate, over, example } = other;
        self.relabeled += relabeled;
        self.invalid += invalid;
        self.duplicate += duplicate;
        self.over += over;
        if self.example.is_empty() {
            self.example.clone_from(example);
        }
    }
}

/// A list of targets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListView {
    /// The job's name.
    pub job: String,
    /// Its path, or its URL without the values of its query.
    pub source: String,
    /// When it was read last without a fault, in milliseconds since 1970; 0 if it never was.
    pub read_unix_millis: u64,
    /// How many targets that list has.
    pub targets: u64,
    /// Why it can't be read now; empty if it can.
    pub error: String,
}

/// A part of all targets.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetsView {
    /// The time, in milliseconds since 1970.
    pub now_unix_millis: u64,
    /// From which one on.
    pub from: usize,
    /// How many there are in all.
    pub total: usize,
    /// The targets of this part.
    pub targets: Vec<TargetView>,
    /// All jobs.
    pub jobs: Vec<JobView>,
    /// All lists.
    pub lists: Vec<ListView>,
    /// The share that targets come from; none where they don't.
    pub share: Option<ShareView>,
}

/// A target's row.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) target: Arc<Resolved>,
    last: Mutex<LastScrape>,
}

impl Row {
    pub(super) fn new(target: Arc<Resolved>) -> Self {
        Self { target, last: Mutex::default() }
    }

    /// Changes what is known of the last scrape.
    pub(super) fn note(&self, change: impl FnOnce(&mut LastScrape)) {
        change(&mut lock(&self.last));
    }

    pub(super) fn last(&self) -> LastScrape {
        lock(&self.last).clone()
    }
}

/// An error's text, as much of it as is shown.
pub(super) fn shown(error: impl ToString) -> String {
    error.to_string().chars().take(ERROR_CHARACTERS_MAX).collect()
}

#[derive(Debug, Default)]
struct State {
    /// By their places.
    jobs: BTreeMap<usize, (String, DroppedCounts)>,
    rows: Arc<Vec<Arc<Row>>>,
    lists: Arc<Vec<ListView>>,
    share: Option<ShareState>,
}

/// What is known of all targets: shared by the receiver and who shows it.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    /// How far the share is taken up and told, for who waits for it.
    progress: watch::Sender<Progress>,
}

impl Board {
    /// The targets from one on, `most` at most.
    #[must_use]
    pub fn view(&self, from: usize, most: usize) -> TargetsView {
        let (names, rows, lists, share) = {
            let state = lock(&self.0.state);
            let share = state.share.as_ref().map(ShareState::view);
            (state.jobs.clone(), Arc::clone(&state.rows), Arc::clone(&state.lists), share)
        };
        let view = |(name, dropped)| JobView { name, dropped, ..JobView::default() };
        let mut jobs: BTreeMap<usize, JobView> =
            names.into_iter().map(|(place, job)| (place, view(job))).collect();
        for row in rows.iter() {
            let state = lock(&row.last).state;
            let Some(job) = jobs.get_mut(&row.target.job) else { continue };
            match state {
                TargetState::Up => job.up += 1,
                TargetState::Down => job.down += 1,
                TargetState::Unknown => job.unknown += 1,
            }
        }
        let view = |row: &Arc<Row>| TargetView {
            job: jobs.get(&row.target.job).map(|job| job.name.clone()).unwrap_or_default(),
            url: without_values(&row.target.url.to_string()),
            labels: row.target.labels.clone(),
            last: row.last(),
        };
        let targets = rows.iter().skip(from).take(most).map(view).collect();
        let now_unix_millis = now_unix_nanos() / NANOS_PER_MILLI;
        let (total, lists) = (rows.len(), lists.to_vec());
        let jobs = jobs.into_values().collect();
        TargetsView { now_unix_millis, from, total, targets, jobs, lists, share }
    }

    /// Says which jobs there are, with what of each isn't scraped.
    pub(super) fn set_jobs(&self, jobs: BTreeMap<usize, (String, DroppedCounts)>) {
        lock(&self.0.state).jobs = jobs;
    }

    /// Says which targets there are.
    pub(super) fn set_rows(&self, mut rows: Vec<Arc<Row>>) {
        let place = |row: &Arc<Row>| {
            let Resolved { job, labels, .. } = &*row.target;
            (*job, row.target.url.to_string(), labels.clone())
        };
        rows.sort_by_cached_key(place);
        lock(&self.0.state).rows = Arc::new(rows);
    }

    /// Says which lists there are.
    pub(super) fn set_lists(&self, mut lists: Vec<ListView>) {
        lists.truncate(LISTS_MAX);
        lock(&self.0.state).lists = Arc::new(lists);
    }

    /// What the operator is told of this pod's share; none where targets don't come from one.
    #[must_use]
    pub fn share(&self) -> Option<ShareReport> {
        let state = lock(&self.0.state).share.clone()?;
        let report = state.report();
        self.0.progress.send_modify(|progress| progress.told = report.version);
        Some(report)
    }

    /// Says that targets come from a share, and what is wrong with it.
    pub(super) fn set_share_fault(&self, fault: String) {
        lock(&self.0.state).share.get_or_insert_default().fault = fault;
    }

    /// Says that a version is being taken up.
    pub(super) fn set_share_read(&self, version: u64, is_empty: bool) {
        lock(&self.0.state).share.get_or_insert_default().read = Some(version);
        self.0.progress.send_modify(|it| (it.read, it.is_empty) = (Some(version), is_empty));
    }

    /// Says which version is taken up: what isn't in it is scraped no more.
    pub(super) fn set_share_version(&self, version: u64) {
        lock(&self.0.state).share.get_or_insert_default().version = Some(version);
        self.0.progress.send_modify(|progress| progress.version = Some(version));
    }

    /// Says what has become of the share's entries.
    pub(super) fn set_share_entries(&self, entries: Vec<(TargetId, Reported)>) {
        lock(&self.0.state).share.get_or_insert_default().entries = Arc::new(entries);
    }

    /// Waits until the share has no entry and all that it had is scraped no more.
    pub(super) async fn share_is_over(&self) {
        // Its sender lives in `self`.
        let _ = self.0.progress.subscribe().wait_for(Progress::is_over).await;
    }

    /// Waits until the version that is taken up has been told.
    pub(super) async fn share_is_told(&self) {
        let _ = self.0.progress.subscribe().wait_for(Progress::is_told).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A URL without the values of its query: they may be tokens.
pub(super) fn without_values(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let names = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}=\u{2026}"),
        Some((name, _)) => format!("{name}="),
        // Without a name it may be a token too.
        None => "\u{2026}".to_owned(),
    });
    format!("{path}?{}", names.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
#[path = "../../tests/unit/prometheus/board.rs"]
mod tests;
