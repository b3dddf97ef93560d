//! Starts a task for each target that sources name, and stops it when no source names it.
//!
//! An unchanged target keeps its task, and so its memory of series. A removed target's task marks
//! the series as stale before it ends. If the target returns before that, its new task starts
//! afterwards, so that no target has two tasks.
//!
//! Another version of the share changes jobs and sources at once ([`super::takeup`]). A version
//! counts as applied once the last scrape of each target that it stopped has ended or was aborted.
//! No target of a share starts while an old task with its URL ends.
//!
//! # Limits
//! [`TARGETS_MAX`] tasks, ending ones included: further targets wait until one has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use millrace_config::{HttpUrl, TARGETS_MAX};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};

use super::connected_job::ConnectedJob;
use super::discovery::share::{EntryTarget, PlannedSource, SharePlan};
use super::discovery::{SourceUpdate, TargetSource, TargetUpdate};
use super::report::EntryStatus;
use super::resolve::ScrapeTarget;
use super::share_versions::{AppliedShare, ShareVersions};
use super::target_row::TargetRow;
use super::target_status::{DroppedCounts, ListView, TargetStatus};
use super::worker::client::TargetClient;
use super::worker::task_stop::{SeriesFate, StopRequest};
use super::worker::{TargetContext, TargetWorker};

#[derive(Debug)]
struct Task {
    /// `None` once the task was stopped.
    stop: Option<oneshot::Sender<StopRequest>>,
    row: Arc<TargetRow>,
}

/// All targets and their tasks.
#[derive(Debug)]
pub(super) struct TargetSet {
    /// The jobs by index. An invalid job of a share has only a name.
    jobs: BTreeMap<usize, ConnectedJob>,
    names: BTreeMap<usize, String>,
    /// The sources by number.
    sources: BTreeMap<usize, TargetSource>,
    shared: TargetContext,
    target_status: TargetStatus,
    running: RunningTasks,
    /// The versions of the share; `None` if targets don't come from one.
    share: Option<ShareVersions>,
}

#[derive(Debug, Default)]
struct RunningTasks {
    tasks: JoinSet<bool>,
    by_target: HashMap<Arc<ScrapeTarget>, Task>,
    by_id: HashMap<Id, Arc<ScrapeTarget>>,
    /// Whether a target waits for a task to end.
    has_waiting: bool,
}

impl TargetSet {
    pub(super) fn new(
        jobs: Vec<ConnectedJob>,
        sources: Vec<TargetSource>,
        shared: TargetContext,
        target_status: TargetStatus,
    ) -> Self {
        let jobs: BTreeMap<_, _> = jobs.into_iter().enumerate().collect();
        let names = jobs.iter().map(|(index, job)| (*index, job.settings.name.clone())).collect();
        let sources = sources.into_iter().enumerate().collect();
        Self {
            jobs,
            names,
            sources,
            shared,
            target_status,
            running: RunningTasks::default(),
            share: None,
        }
    }

    /// Returns a set whose jobs and targets come from a share.
    pub(super) fn of_share(shared: TargetContext, target_status: TargetStatus) -> Self {
        Self {
            share: Some(ShareVersions::default()),
            ..Self::new(Vec::new(), Vec::new(), shared, target_status)
        }
    }

    /// Scrapes until the drain begins. Returns whether all accepted points were confirmed.
    pub(super) async fn run(mut self, mut news: Receiver<TargetUpdate>) -> bool {
        self.reconcile_tasks(&HashMap::new());
        let mut is_safe = true;
        let drain = self.shared.drain.clone();
        loop {
            tokio::select! {
                Some(one) = news.recv() => {
                    let mut has_lists = self.apply_update(one);
                    while let Ok(one) = news.try_recv() {
                        has_lists |= self.apply_update(one);
                    }
                    if has_lists {
                        self.reconcile_tasks(&HashMap::new());
                    }
                }
                version = ShareVersions::next(&mut self.share) => {
                    self.target_status.set_share_version(version);
                }
                Some(ended) = self.running.tasks.join_next_with_id() => {
                    let mut is_due = self.remove_ended(ended, &mut is_safe);
                    while let Some(ended) = self.running.tasks.try_join_next_with_id() {
                        is_due |= self.remove_ended(ended, &mut is_safe);
                    }
                    if is_due {
                        self.reconcile_tasks(&HashMap::new());
                    }
                }
                () = drain.wait_for_begin() => break,
            }
        }
        // The senders live until then: without one, a task would mark its series as stale.
        while let Some(ended) = self.running.tasks.join_next_with_id().await {
            self.remove_ended(ended, &mut is_safe);
        }
        is_safe
    }

    /// Applies an update. Returns whether lists changed, so that tasks must be reconciled.
    fn apply_update(&mut self, news: TargetUpdate) -> bool {
        let SourceUpdate { source, listed, lists } = match news {
            TargetUpdate::Targets(update) => update,
            TargetUpdate::Share(plan) => {
                self.apply_plan(*plan);
                return false;
            }
        };
        // A source that is gone may have sent this before it ended.
        if let Some(source) = self.sources.get_mut(&source) {
            (source.listed, source.lists) = (listed, lists);
        }
        true
    }

    /// Applies a version of the share.
    fn apply_plan(&mut self, plan: SharePlan) {
        let Some(share) = &self.share else { return };
        let left = share.leaving_targets(&self.sources, &plan);
        let SharePlan { version, jobs, names, sources, subjects, ended: _ } = plan;
        let mut old = std::mem::take(&mut self.sources);
        let source = |(number, planned)| match planned {
            PlannedSource::Entries { job, listed } => {
                (number, TargetSource { job, listed, lists: Vec::new() })
            }
            PlannedSource::List { job } => {
                let unread = || TargetSource { job, ..TargetSource::default() };
                (number, old.remove(&number).unwrap_or_else(unread))
            }
        };
        self.sources = sources.into_iter().map(source).collect();
        (self.jobs, self.names) = (jobs, names);
        let is_empty = subjects.is_empty();
        if let Some(share) = &mut self.share {
            share.applied = AppliedShare { subjects };
        }
        self.target_status.set_share_read(version, is_empty);
        self.reconcile_tasks(&left);
        if let Some(share) = &mut self.share {
            share.queue_version(version);
        }
    }

    /// Starts and stops tasks to match the sources. Targets missing in `left` end their series.
    fn reconcile_tasks(&mut self, left: &HashMap<Arc<ScrapeTarget>, SeriesFate>) {
        let empty = |index: &usize| (*index, DroppedCounts::default());
        let mut counts: BTreeMap<_, _> = self.names.keys().map(empty).collect();
        let (mut desired, mut unique) = (Vec::new(), HashSet::new());
        for TargetSource { job, listed, .. } in self.sources.values() {
            let Some(count) = counts.get_mut(job) else { continue };
            count.add_counts(&listed.dropped);
            for target in &listed.targets {
                if unique.contains(target) {
                    count.duplicate += 1;
                } else if desired.len() == TARGETS_MAX {
                    count.over_limit += 1;
                } else {
                    unique.insert(Arc::clone(target));
                    desired.push(Arc::clone(target));
                }
            }
        }
        let stopped = self.stop_unwanted(&unique, left);
        let ending = self.ending_urls();
        let mut started = 0;
        self.running.has_waiting = false;
        for target in desired {
            let is_running =
                self.running.by_target.get(&target).is_some_and(|task| task.stop.is_some());
            let has_room = self.running.by_target.len() < TARGETS_MAX;
            let is_free = has_room
                && !self.running.by_target.contains_key(&target)
                && !ending.contains(&target.url);
            if !is_running && is_free {
                self.start_task(target);
                started += 1;
            } else if !is_running {
                self.running.has_waiting = true;
            }
        }
        let has_lists = self.sources.values().any(|source| !source.lists.is_empty());
        if stopped > 0 || (started > 0 && (has_lists || self.share.is_some())) {
            tracing::info!(started, stopped, "the targets have changed");
        }
        self.publish_status(counts);
    }

    /// Stops tasks that no source wants. Returns their number.
    fn stop_unwanted(
        &mut self,
        desired: &HashSet<Arc<ScrapeTarget>>,
        left: &HashMap<Arc<ScrapeTarget>, SeriesFate>,
    ) -> usize {
        let mut stopped = 0;
        for (target, task) in &mut self.running.by_target {
            if desired.contains(target) {
                continue;
            }
            if let Some(stop) = task.stop.take() {
                let series = left.get(target).copied().unwrap_or_default();
                let scraping = self.share.as_ref().and_then(ShareVersions::scrape_guard);
                // This fails only if the task has ended.
                let _ = stop.send(StopRequest { series, scraping });
                stopped += 1;
            }
        }
        stopped
    }

    /// Returns the URLs of a share's targets whose tasks end: their successors must wait.
    fn ending_urls(&self) -> HashSet<HttpUrl> {
        if self.share.is_none() {
            return HashSet::new();
        }
        let ending = self.running.by_target.iter().filter(|(_, task)| task.stop.is_none());
        ending.map(|(target, _)| target.url.clone()).collect()
    }

    fn start_task(&mut self, target: Arc<ScrapeTarget>) {
        let Some(job) = self.jobs.get(&target.job) else { return };
        let row = Arc::new(TargetRow::new(Arc::clone(&target)));
        let ConnectedJob { settings, connector } = job;
        let connector = Arc::clone(connector);
        // At least a second: the header's unit is whole seconds.
        let seconds = u32::try_from(target.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let times = (target.interval, seconds);
        let client =
            TargetClient::new(target.url.clone(), times, settings.native_histograms, connector);
        let (stop, stopped) = oneshot::channel();
        let worker = TargetWorker::new(settings, Arc::clone(&row), client, self.shared.clone());
        let id = self.running.tasks.spawn(worker.run(stopped)).id();
        self.running.by_id.insert(id, Arc::clone(&target));
        self.running.by_target.insert(target, Task { stop: Some(stop), row });
    }

    /// Removes an ended task. Returns whether tasks must be reconciled.
    fn remove_ended(
        &mut self,
        remove_ended: Result<(Id, bool), JoinError>,
        is_safe: &mut bool,
    ) -> bool {
        let (id, is_bug) = match remove_ended {
            Ok((id, one_is_safe)) => {
                *is_safe &= one_is_safe;
                (id, false)
            }
            // The other tasks continue, and this one is restarted.
            Err(error) => {
                tracing::error!(%error, "the task that scrapes a target failed");
                (error.id(), true)
            }
        };
        if let Some(target) = self.running.by_id.remove(&id) {
            self.running.by_target.remove(&target);
        }
        is_bug || self.running.has_waiting
    }

    /// Publishes the current state and metrics.
    fn publish_status(&self, mut counts: BTreeMap<usize, DroppedCounts>) {
        let metrics = &self.shared.metrics;
        let running = self.running.by_target.values().filter(|task| task.stop.is_some());
        let rows: Vec<_> = running.map(|task| Arc::clone(&task.row)).collect();
        metrics.targets.set(rows.len() as i64);
        metrics.targets_dropped.set(counts.values().map(|it| it.total_count() as i64).sum());
        let lists: Vec<ListView> =
            self.sources.values().flat_map(|source| source.lists.iter().cloned()).collect();
        let failing = lists.iter().filter(|list| !list.error.is_empty()).count();
        metrics.lists_failing.set(failing as i64);
        let jobs = self.names.iter().map(|(index, name)| {
            (*index, (name.clone(), counts.remove(index).unwrap_or_default()))
        });
        self.target_status.set_jobs(jobs.collect());
        self.target_status.set_rows(rows);
        self.target_status.set_lists(lists);
        if let Some(share) = &self.share {
            let subjects = share.applied.subjects.iter();
            self.target_status
                .set_share_entries(subjects.map(|(id, it)| (*id, self.entry_status(it))).collect());
        }
    }

    /// Returns the status of a share's entry.
    fn entry_status(&self, subject: &EntryTarget) -> EntryStatus {
        let row = |target: &Arc<ScrapeTarget>| {
            let task = self.running.by_target.get(target).filter(|task| task.stop.is_some());
            task.map(|task| Arc::clone(&task.row))
        };
        match subject {
            EntryTarget::Dropped => EntryStatus::Dropped,
            EntryTarget::Fault(fault) => EntryStatus::Fault(fault.clone()),
            EntryTarget::Target(target) => match row(target) {
                None if self.running.by_target.len() >= TARGETS_MAX => EntryStatus::Fault(format!(
                    "this pod already scrapes {TARGETS_MAX} targets: add pods"
                )),
                row => EntryStatus::Target(row),
            },
            EntryTarget::List(number) => {
                let Some(source) = self.sources.get(number) else {
                    return EntryStatus::List(Vec::new(), Some(String::new()));
                };
                // A list that wasn't read yet has no view: it is neither failing nor good.
                let error = source.lists.first().map_or(Some(String::new()), |list| {
                    Some(list.error.clone()).filter(|error| !error.is_empty())
                });
                EntryStatus::List(source.listed.targets.iter().filter_map(row).collect(), error)
            }
        }
    }
}

#[cfg(test)]
mod tests;
