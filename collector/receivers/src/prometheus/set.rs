//! Which targets are scraped: starts a task for each that sources name, and ends it when none does.
//!
//! A target that stays the same keeps its task, and so its memory of series. One that goes marks
//! its series as gone before its task ends; one that comes back meanwhile is started then, so that
//! no target has two tasks.
//!
//! # Limits
//! [`TARGETS_MAX`] tasks, those that end included: what is over waits until one has ended.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use millrace_config::TARGETS_MAX;
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};

use super::board::{Board, DroppedCounts, ListView, Row};
use super::client::Client;
use super::connect::Connector;
use super::discovery::{Listed, Update};
use super::resolve::Resolved;
use super::rules::RuledJob;
use super::worker::{Shared, Worker};

/// A job.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) settings: Arc<RuledJob>,
    /// What its targets are asked by.
    pub(super) connector: Arc<Connector>,
}

/// What a source has.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) job: usize,
    pub(super) listed: Listed,
    pub(super) lists: Vec<ListView>,
}

/// A target's task.
#[derive(Debug)]
struct Task {
    /// Taken when it is to end.
    stop: Option<oneshot::Sender<()>>,
    row: Arc<Row>,
}

/// All targets.
#[derive(Debug)]
pub(super) struct Set {
    jobs: Vec<Job>,
    sources: Vec<Source>,
    shared: Shared,
    board: Board,
    running: Running,
}

#[derive(Debug, Default)]
struct Running {
    tasks: JoinSet<bool>,
    by_target: HashMap<Arc<Resolved>, Task>,
    by_id: HashMap<Id, Arc<Resolved>>,
    /// Whether a target waits for a task to end.
    has_waiting: bool,
}

impl Set {
    pub(super) fn new(jobs: Vec<Job>, sources: Vec<Source>, shared: Shared, board: Board) -> Self {
        Self { jobs, sources, shared, board, running: Running::default() }
    }

    /// Scrapes until the drain begins. Whether all that was taken from targets is confirmed then.
    pub(super) async fn run(mut self, mut updates: Receiver<Update>) -> bool {
        self.settle();
        let mut is_safe = true;
        let drain = self.shared.drain.clone();
        loop {
            tokio::select! {
                Some(update) = updates.recv() => {
                    self.take(update);
                    while let Ok(update) = updates.try_recv() {
                        self.take(update);
                    }
                    self.settle();
                }
                Some(ended) = self.running.tasks.join_next_with_id() => {
                    let mut is_due = self.ended(ended, &mut is_safe);
                    while let Some(ended) = self.running.tasks.try_join_next_with_id() {
                        is_due |= self.ended(ended, &mut is_safe);
                    }
                    if is_due {
                        self.settle();
                    }
                }
                () = drain.begun() => break,
            }
        }
        // The senders stay until then: without one, a task would mark its series as gone.
        while let Some(ended) = self.running.tasks.join_next_with_id().await {
            self.ended(ended, &mut is_safe);
        }
        is_safe
    }

    fn take(&mut self, update: Update) {
        let Update { source, listed, lists } = update;
        if let Some(source) = self.sources.get_mut(source) {
            (source.listed, source.lists) = (listed, lists);
        }
    }

    /// Starts and stops tasks as the sources have it now.
    fn settle(&mut self) {
        let mut counts = vec![DroppedCounts::default(); self.jobs.len()];
        let (mut wanted, mut seen) = (Vec::new(), HashSet::new());
        for Source { job, listed, .. } in &self.sources {
            let Some(count) = counts.get_mut(*job) else { continue };
            count.add(&listed.dropped);
            for target in &listed.targets {
                if seen.contains(target) {
                    count.duplicate += 1;
                } else if wanted.len() == TARGETS_MAX {
                    count.over += 1;
                } else {
                    seen.insert(Arc::clone(target));
                    wanted.push(Arc::clone(target));
                }
            }
        }
        let mut stopped = 0;
        for (target, task) in &mut self.running.by_target {
            if !seen.contains(target) && task.stop.take().is_some() {
                stopped += 1;
            }
        }
        let mut started = 0;
        self.running.has_waiting = false;
        for target in wanted {
            let is_running =
                self.running.by_target.get(&target).is_some_and(|task| task.stop.is_some());
            let has_room = self.running.by_target.len() < TARGETS_MAX;
            if !is_running && has_room && !self.running.by_target.contains_key(&target) {
                self.start(target);
                started += 1;
            } else if !is_running {
                self.running.has_waiting = true;
            }
        }
        if stopped > 0 || (started > 0 && self.sources.iter().any(|it| !it.lists.is_empty())) {
            tracing::info!(started, stopped, "the targets have changed");
        }
        self.tell(counts);
    }

    fn start(&mut self, target: Arc<Resolved>) {
        let Some(job) = self.jobs.get(target.job) else { return };
        let row = Arc::new(Row::new(Arc::clone(&target)));
        let Job { settings, connector } = job;
        let connector = Arc::clone(connector);
        // At least a second: a header tells the target in whole ones.
        let seconds = u32::try_from(target.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let client =
            Client::new(target.url.clone(), seconds, settings.native_histograms, connector);
        let (stop, stopped) = oneshot::channel();
        let worker = Worker::new(settings, Arc::clone(&row), client, self.shared.clone());
        let id = self.running.tasks.spawn(worker.run(stopped)).id();
        self.running.by_id.insert(id, Arc::clone(&target));
        self.running.by_target.insert(target, Task { stop: Some(stop), row });
    }

    /// Forgets a task. Whether one may be started in its place.
    fn ended(&mut self, ended: Result<(Id, bool), JoinError>, is_safe: &mut bool) -> bool {
        let (id, is_bug) = match ended {
            Ok((id, one_is_safe)) => {
                *is_safe &= one_is_safe;
                (id, false)
            }
            // The others go on, and it is started anew.
            Err(error) => {
                tracing::error!(%error, "the task of a target that is scraped ended");
                (error.id(), true)
            }
        };
        if let Some(target) = self.running.by_id.remove(&id) {
            self.running.by_target.remove(&target);
        }
        is_bug || self.running.has_waiting
    }

    /// Says what there is now.
    fn tell(&self, counts: Vec<DroppedCounts>) {
        let metrics = &self.shared.metrics;
        let running = self.running.by_target.values().filter(|task| task.stop.is_some());
        let rows: Vec<_> = running.map(|task| Arc::clone(&task.row)).collect();
        metrics.targets.set(rows.len() as i64);
        metrics.targets_dropped.set(counts.iter().map(|it| it.sum() as i64).sum());
        let lists: Vec<ListView> =
            self.sources.iter().flat_map(|source| source.lists.iter().cloned()).collect();
        let failing = lists.iter().filter(|list| !list.error.is_empty()).count();
        metrics.lists_failing.set(failing as i64);
        let names = self.jobs.iter().map(|job| job.settings.name.clone());
        self.board.set_jobs(names.zip(counts).collect());
        self.board.set_rows(rows);
        self.board.set_lists(lists);
    }
}

#[cfg(test)]
#[path = "../../tests/unit/prometheus/set.rs"]
mod tests;
