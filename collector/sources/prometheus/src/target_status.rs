//! The current state of targets and lists, for the status page and its JSON.
//!
//! Each target has a row with its own lock, which the target's task holds for one assignment once
//! or twice per interval. A reader copies the list of rows, then reads one row after the other, so
//! no task waits for a page. The state holds no bodies and no secrets: URLs are stored without the
//! values of their queries.
//!
//! # Limits
//! A row has the target's labels (4 KiB at most, shared with its task) and an error of
//! [`ERROR_CHARACTERS_MAX`] characters. There are as many rows as targets, and [`LISTS_MAX`] lists.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millrace_share_documents::TargetId;
use tokio::sync::watch;

use super::report::{EntryStatus, ShareProgress, ShareReport, ShareState, ShareView};
use super::resolve::ScrapeTarget;
use super::target_row::{LastScrape, TargetRow, TargetState};
use millrace_pipeline::clock::now_unix_nanos;

/// The most characters of an error that are shown.
pub const ERROR_CHARACTERS_MAX: usize = 300;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The most lists that are shown.
pub const LISTS_MAX: usize = 1000;

/// A target and its last scrape.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetView {
    /// The job's name.
    pub job: String,
    /// The address and path that are scraped, without the values of the query.
    pub url: String,
    /// The labels of all its points, by name.
    pub labels: Vec<(String, String)>,
    /// Its last scrape.
    pub last: LastScrape,
}

/// The number of targets of a job, by state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JobView {
    /// The job's name.
    pub name: String,
    /// Targets whose last scrape succeeded.
    pub up: u64,
    /// Targets whose last scrape failed.
    pub down: u64,
    /// Targets that were not scraped yet or whose points were not accepted.
    pub unknown: u64,
    /// The targets of its lists that are not scraped.
    pub dropped: DroppedCounts,
}

/// Counts of listed targets that are not scraped, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DroppedCounts {
    /// Targets that relabeling rules drop.
    pub relabeled: u64,
    /// Targets with an invalid address or labels.
    pub invalid: u64,
    /// Targets that are listed more than once.
    pub duplicate: u64,
    /// Targets beyond the limit.
    pub over_limit: u64,
    /// The fault of one invalid target; empty if there is none.
    pub example: String,
}

impl DroppedCounts {
    /// Returns the sum over all reasons.
    #[must_use]
    pub fn total_count(&self) -> u64 {
        self.relabeled + self.invalid + self.duplicate + self.over_limit
    }

    pub(super) fn add_counts(&mut self, other: &Self) {
        let Self { relabeled, invalid, duplicate, over_limit: over, example } = other;
        self.relabeled += relabeled;
        self.invalid += invalid;
        self.duplicate += duplicate;
        self.over_limit += over;
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
    /// Its path, or its URL without the values of the query.
    pub source: String,
    /// The time of the last successful read, in milliseconds since 1970; 0 before the first one.
    pub read_unix_millis: u64,
    /// The number of targets in the list as last read.
    pub targets: u64,
    /// The reason why it can't be read now; empty if it can.
    pub error: String,
}

/// One page of the targets, with all jobs and lists.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetsView {
    /// The current time, in milliseconds since 1970.
    pub now_unix_millis: u64,
    /// The index of the first target of this page.
    pub from: usize,
    /// The number of all targets.
    pub total: usize,
    /// The targets of this page.
    pub targets: Vec<TargetView>,
    /// All jobs.
    pub jobs: Vec<JobView>,
    /// All lists.
    pub lists: Vec<ListView>,
    /// The share that targets come from; `None` if they don't come from one.
    pub share: Option<ShareView>,
}

/// Returns an error's text, cut to [`ERROR_CHARACTERS_MAX`].
pub(super) fn truncate_error(error: impl ToString) -> String {
    error.to_string().chars().take(ERROR_CHARACTERS_MAX).collect()
}

#[derive(Debug, Default)]
struct StatusContent {
    /// The jobs by their index in the settings.
    jobs: BTreeMap<usize, (String, DroppedCounts)>,
    rows: Arc<Vec<Arc<TargetRow>>>,
    lists: Arc<Vec<ListView>>,
    share: Option<ShareState>,
}

/// The state of all targets, shared by the receiver and the servers that show it.
#[derive(Debug, Clone, Default)]
pub struct TargetStatus(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<StatusContent>,
    /// The versions of the share that were read, applied and reported, for tasks that wait for
    /// them.
    progress: watch::Sender<ShareProgress>,
}

impl TargetStatus {
    /// Returns at most `most` targets, beginning with the target at index `from`.
    #[must_use]
    pub fn targets_view(&self, from: usize, most: usize) -> TargetsView {
        let (names, rows, lists, share) = {
            let state = lock_mutex(&self.0.state);
            let share = state.share.as_ref().map(ShareState::to_view);
            (state.jobs.clone(), Arc::clone(&state.rows), Arc::clone(&state.lists), share)
        };
        let view = |(name, dropped)| JobView { name, dropped, ..JobView::default() };
        let mut jobs: BTreeMap<usize, JobView> =
            names.into_iter().map(|(index, job)| (index, view(job))).collect();
        for row in rows.iter() {
            let state = row.state();
            let Some(job) = jobs.get_mut(&row.target.job) else { continue };
            match state {
                TargetState::Up => job.up += 1,
                TargetState::Down => job.down += 1,
                TargetState::Unknown | TargetState::NotAccepted => job.unknown += 1,
            }
        }
        let view = |row: &Arc<TargetRow>| TargetView {
            job: jobs.get(&row.target.job).map(|job| job.name.clone()).unwrap_or_default(),
            url: without_values(&row.target.url.to_string()),
            labels: row.target.labels.clone(),
            last: row.last_scrape(),
        };
        let targets = rows.iter().skip(from).take(most).map(view).collect();
        let now_unix_millis = now_unix_nanos() / NANOS_PER_MILLI;
        let (total, lists) = (rows.len(), lists.to_vec());
        let jobs = jobs.into_values().collect();
        TargetsView { now_unix_millis, from, total, targets, jobs, lists, share }
    }

    /// Replaces the jobs and the counts of their targets that are not scraped.
    pub(super) fn set_jobs(&self, jobs: BTreeMap<usize, (String, DroppedCounts)>) {
        lock_mutex(&self.0.state).jobs = jobs;
    }

    /// Replaces the targets.
    pub(super) fn set_rows(&self, mut rows: Vec<Arc<TargetRow>>) {
        let sort_key = |row: &Arc<TargetRow>| {
            let ScrapeTarget { job, labels, .. } = &*row.target;
            (*job, row.target.url.to_string(), labels.clone())
        };
        rows.sort_by_cached_key(sort_key);
        lock_mutex(&self.0.state).rows = Arc::new(rows);
    }

    /// Replaces the lists.
    pub(super) fn set_lists(&self, mut lists: Vec<ListView>) {
        lists.truncate(LISTS_MAX);
        lock_mutex(&self.0.state).lists = Arc::new(lists);
    }

    /// Returns the report of this pod's share for the operator; `None` if targets don't come from a
    /// share.
    #[must_use]
    pub fn share_report(&self) -> Option<ShareReport> {
        let state = lock_mutex(&self.0.state).share.clone()?;
        let report = state.to_report();
        self.0.progress.send_modify(|progress| progress.reported = report.version);
        Some(report)
    }

    /// Records that targets come from a share, and the share's fault.
    pub(super) fn set_share_fault(&self, fault: String) {
        lock_mutex(&self.0.state).share.get_or_insert_default().fault = fault;
    }

    /// Records the version that is being applied.
    pub(super) fn set_share_read(&self, version: u64, is_empty: bool) {
        lock_mutex(&self.0.state).share.get_or_insert_default().read = Some(version);
        self.0.progress.send_modify(|it| (it.read, it.is_empty) = (Some(version), is_empty));
    }

    /// Records the version that was applied: targets that it doesn't contain are no longer scraped.
    pub(super) fn set_share_version(&self, version: u64) {
        lock_mutex(&self.0.state).share.get_or_insert_default().version = Some(version);
        self.0.progress.send_modify(|progress| progress.version = Some(version));
    }

    /// Records the status of each entry of the share.
    pub(super) fn set_share_entries(&self, entries: Vec<(TargetId, EntryStatus)>) {
        lock_mutex(&self.0.state).share.get_or_insert_default().entries = Arc::new(entries);
    }

    /// Waits until the share has no entry and none of its former targets is scraped.
    pub(super) async fn share_is_released(&self) {
        // This can't fail: `self` owns the sender.
        let _ = self.0.progress.subscribe().wait_for(ShareProgress::is_released).await;
    }

    /// Waits until the applied version has been reported.
    pub(super) async fn share_is_reported(&self) {
        let _ = self.0.progress.subscribe().wait_for(ShareProgress::is_reported).await;
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the values of a URL's query: they may be tokens.
pub(super) fn without_values(url: &str) -> String {
    let Some((path, query)) = url.split_once('?') else { return url.to_owned() };
    let names = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() => format!("{name}=\u{2026}"),
        Some((name, _)) => format!("{name}="),
        // A pair without a name may also be a token.
        None => "\u{2026}".to_owned(),
    });
    format!("{path}?{}", names.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests;
