//! Which targets are scraped: starts a task for each that sources name, and ends it when none does.
//!
//! A target that stays the same keeps its task, and so its memory of series. One that goes marks
//! its series as gone before its task ends; one that comes back meanwhile is started then, so that
//! no target has two tasks.
//!
//! Another version of the share changes jobs and sources at once ([`super::takeup`]). A version is
//! taken up once the last scrape of each target that was stopped for it has ended or was given up.
//! No target of a share begins while an old task with its URL ends.
//!
//! # Limits
//! [`TARGETS_MAX`] tasks, those that end included: what is over waits until one has ended.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use millrace_config::{HttpUrl, TARGETS_MAX};
use tokio::sync::mpsc::Receiver;
use tokio::sync::oneshot;
use tokio::task::{Id, JoinError, JoinSet};

use super::board::{Board, DroppedCounts, ListView, Row};
use super::client::Client;
use super::connect::Connector;
use super::discovery::share::{Plan, Planned, Subject};
use super::discovery::{Listed, News, Update};
use super::end::{Leave, Series};
use super::report::Reported;
use super::resolve::Resolved;
use super::rules::RuledJob;
use super::takeup::{TakeUp, Taken};
use super::worker::{Shared, Worker};

/// A job.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) settings: Arc<RuledJob>,
    /// What its targets are asked by.
    pub(super) connector: Arc<Connector>,
}

/// What a source has.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) job: usize,
    pub(super) listed: Listed,
    pub(super) lists: Vec<ListView>,
}

/// A target's task.
#[derive(Debug)]
struct Task {
    /// Taken when it is to end.
    stop: Option<oneshot::Sender<Leave>>,
    row: Arc<Row>,
}

/// All targets.
#[derive(Debug)]
pub(super) struct Set {
    /// By their places. A share's job that can't be used has a name alone.
    jobs: BTreeMap<usize, Job>,
    names: BTreeMap<usize, String>,
    /// By their numbers.
    sources: BTreeMap<usize, Source>,
    shared: Shared,
    board: Board,
    running: Running,
    /// Where targets come from a share.
    share: Option<TakeUp>,
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
        let jobs: BTreeMap<_, _> = jobs.into_iter().enumerate().collect();
        let names = jobs.iter().map(|(place, job)| (*place, job.settings.name.clone())).collect();
        let sources = sources.into_iter().enumerate().collect();
        Self { jobs, names, sources, shared, board, running: Running::default(), share: None }
    }

    /// A set whose jobs and targets come from a share.
    pub(super) fn of_share(shared: Shared, board: Board) -> Self {
        Self { share: Some(TakeUp::default()), ..Self::new(Vec::new(), Vec::new(), shared, board) }
    }

    /// Scrapes until the drain begins. Whether all that was taken from targets is confirmed then.
    pub(super) async fn run(mut self, mut news: Receiver<News>) -> bool {
        self.settle(&HashMap::new());
        let mut is_safe = true;
        let drain = self.shared.drain.clone();
        loop {
            tokio::select! {
                Some(one) = news.recv() => {
                    let mut has_lists = self.take(one);
                    while let Ok(one) = news.try_recv() {
                        has_lists |= self.take(one);
                    }
                    if has_lists {
                        self.settle(&HashMap::new());
                    }
                }
                version = TakeUp::next(&mut self.share) => self.board.set_share_version(version),
                Some(ended) = self.running.tasks.join_next_with_id() => {
                    let mut is_due = self.ended(ended, &mut is_safe);
                    while let Some(ended) = self.running.tasks.try_join_next_with_id() {
                        is_due |= self.ended(ended, &mut is_safe);
                    }
                    if is_due {
                        self.settle(&HashMap::new());
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

    /// Whether targets of lists have changed, which is yet to be settled.
    fn take(&mut self, news: News) -> bool {
        let Update { source, listed, lists } = match news {
            News::Listed(update) => update,
            News::Share(plan) => {
                self.take_up(*plan);
                return false;
            }
        };
        // One that is gone may have told before it ended.
        if let Some(source) = self.sources.get_mut(&source) {
            (source.listed, source.lists) = (listed, lists);
        }
        true
    }

    /// Takes up a version of the share.
    fn take_up(&mut self, plan: Plan) {
        let Some(share) = &self.share else { return };
        let left = share.left(&self.sources, &plan);
        let Plan { version, jobs, names, sources, subjects, ended: _ } = plan;
        let mut old = std::mem::take(&mut self.sources);
        let source = |(number, planned)| match planned {
            Planned::Entries { job, listed } => (number, Source { job, listed, lists: Vec::new() }),
            Planned::List { job } => {
                let unread = || Source { job, ..Source::default() };
                (number, old.remove(&number).unwrap_or_else(unread))
            }
        };
        self.sources = sources.into_iter().map(source).collect();
        (self.jobs, self.names) = (jobs, names);
        let is_empty = subjects.is_empty();
        if let Some(share) = &mut self.share {
            share.taken = Taken { subjects };
        }
        self.board.set_share_read(version, is_empty);
        self.settle(&left);
        if let Some(share) = &mut self.share {
            share.wait(version);
        }
    }

    /// Starts and stops tasks as the sources have it now. What is not in `left` ends its series.
    fn settle(&mut self, left: &HashMap<Arc<Resolved>, Series>) {
        let empty = |place: &usize| (*place, DroppedCounts::default());
        let mut counts: BTreeMap<_, _> = self.names.keys().map(empty).collect();
        let (mut wanted, mut seen) = (Vec::new(), HashSet::new());
        for Source { job, listed, .. } in self.sources.values() {
            let Some(count) = counts.get_mut(job) else { continue };
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
        let stopped = self.stop(&seen, left);
        let ending = self.ending();
        let mut started = 0;
        self.running.has_waiting = false;
        for target in wanted {
            let is_running =
                self.running.by_target.get(&target).is_some_and(|task| task.stop.is_some());
            let has_room = self.running.by_target.len() < TARGETS_MAX;
            let is_free = has_room
                && !self.running.by_target.contains_key(&target)
                && !ending.contains(&target.url);
            if !is_running && is_free {
                self.start(target);
                started += 1;
            } else if !is_running {
                self.running.has_waiting = true;
            }
        }
        let has_lists = self.sources.values().any(|source| !source.lists.is_empty());
        if stopped > 0 || (started > 0 && (has_lists || self.share.is_some())) {
            tracing::info!(started, stopped, "the targets have changed");
        }
        self.tell(counts);
    }

    /// Stops what isn't wanted any more. How many that are.
    fn stop(
        &mut self,
        seen: &HashSet<Arc<Resolved>>,
        left: &HashMap<Arc<Resolved>, Series>,
    ) -> usize {
        let mut stopped = 0;
        for (target, task) in &mut self.running.by_target {
            if seen.contains(target) {
                continue;
            }
            if let Some(stop) = task.stop.take() {
                let series = left.get(target).copied().unwrap_or_default();
                let scraping = self.share.as_ref().and_then(TakeUp::scraping);
                // One that has ended is not to be told.
                let _ = stop.send(Leave { series, scraping });
                stopped += 1;
            }
        }
        stopped
    }

    /// The URLs of a share's targets whose tasks end: another one for them has to wait.
    fn ending(&self) -> HashSet<HttpUrl> {
        if self.share.is_none() {
            return HashSet::new();
        }
        let ending = self.running.by_target.iter().filter(|(_, task)| task.stop.is_none());
        ending.map(|(target, _)| target.url.clone()).collect()
    }

    fn start(&mut self, target: Arc<Resolved>) {
        let Some(job) = self.jobs.get(&target.job) else { return };
        let row = Arc::new(Row::new(Arc::clone(&target)));
        let Job { settings, connector } = job;
        let connector = Arc::clone(connector);
        // At least a second: a header tells the target in whole ones.
        let seconds = u32::try_from(target.timeout.as_secs()).unwrap_or(u32::MAX).max(1);
        let times = (target.interval, seconds);
        let client = Client::new(target.url.clone(), times, settings.native_histograms, connector);
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
    fn tell(&self, mut counts: BTreeMap<usize, DroppedCounts>) {
        let metrics = &self.shared.metrics;
        let running = self.running.by_target.values().filter(|task| task.stop.is_some());
        let rows: Vec<_> = running.map(|task| Arc::clone(&task.row)).collect();
        metrics.targets.set(rows.len() as i64);
        metrics.targets_dropped.set(counts.values().map(|it| it.sum() as i64).sum());
        let lists: Vec<ListView> =
            self.sources.values().flat_map(|source| source.lists.iter().cloned()).collect();
        let failing = lists.iter().filter(|list| !list.error.is_empty()).count();
        metrics.lists_failing.set(failing as i64);
        let jobs = self.names.iter().map(|(place, name)| {
            (*place, (name.clone(), counts.remove(place).unwrap_or_default()))
        });
        self.board.set_jobs(jobs.collect());
        self.board.set_rows(rows);
        self.board.set_lists(lists);
        if let Some(share) = &self.share {
            let subjects = share.taken.subjects.iter();
            self.board
                .set_share_entries(subjects.map(|(id, it)| (*id, self.reported(it))).collect());
        }
    }

    /// Where to look for what has become of a share's entry.
    fn reported(&self, subject: &Subject) -> Reported {
        let row = |target: &Arc<Resolved>| {
            let task = self.running.by_target.get(target).filter(|task| task.stop.is_some());
            task.map(|task| Arc::clone(&task.row))
        };
        match subject {
            Subject::Dropped => Reported::Dropped,
            Subject::Fault(fault) => Reported::Fault(fault.clone()),
            Subject::Target(target) => match row(target) {
                None if self.running.by_target.len() >= TARGETS_MAX => Reported::Fault(format!(
                    "this pod scrapes {TARGETS_MAX} targets already: add pods"
                )),
                row => Reported::Target(row),
            },
            Subject::List(number) => {
                let Some(source) = self.sources.get(number) else {
                    return Reported::List(Vec::new(), Some(String::new()));
                };
                // One that isn't read yet has no view: nothing is wrong with it, nor is it well.
                let error = source.lists.first().map_or(Some(String::new()), |list| {
                    Some(list.error.clone()).filter(|error| !error.is_empty())
                });
                Reported::List(source.listed.targets.iter().filter_map(row).collect(), error)
            }
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/prometheus/set.rs"]
mod tests;
