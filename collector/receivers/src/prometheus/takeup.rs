//! Taking up a version of the share: what becomes of the series of targets that leave, and when the
//! version counts as taken up.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use millrace_shares::TargetId;
use tokio::sync::mpsc;

use super::discovery::share::{Plan, Subject};
use super::end::Series;
use super::resolve::Resolved;
use super::set::Source;

/// What the set has of the share.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// What the entries of the newest version became.
    pub(super) subjects: BTreeMap<TargetId, Subject>,
}

/// The way of versions from read to taken up.
#[derive(Debug)]
pub(super) struct TakeUp {
    pub(super) taken: Taken,
    /// Each task that is stopped has the sender until its last scrape has ended.
    scraping: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
    /// Versions whose stopped tasks may still scrape, in order. Each has left it after a scrape's
    /// last seconds (`RELEASE_TIME`), so that there are only a few.
    waiting: VecDeque<(u64, mpsc::Receiver<()>)>,
}

impl Default for TakeUp {
    fn default() -> Self {
        let (scraping, ended) = mpsc::channel(1);
        Self { taken: Taken::default(), scraping, ended, waiting: VecDeque::new() }
    }
}

impl TakeUp {
    /// For a task that is stopped.
    pub(super) fn scraping(&self) -> Option<mpsc::Sender<()>> {
        Some(self.scraping.clone())
    }

    /// All that was stopped until now was stopped for this version.
    pub(super) fn wait(&mut self, version: u64) {
        let (scraping, ended) = mpsc::channel(1);
        self.scraping = scraping;
        let ended = std::mem::replace(&mut self.ended, ended);
        self.waiting.push_back((version, ended));
    }

    /// Waits until the next version is taken up; for ever where there is none.
    pub(super) async fn next(this: &mut Option<Self>) -> u64 {
        let waiting = this.as_mut().map(|this| &mut this.waiting);
        let Some(waiting) = waiting.filter(|waiting| !waiting.is_empty()) else {
            return std::future::pending().await;
        };
        // In order: a version says of all before it that they are taken up too.
        if let Some((_, ended)) = waiting.front_mut() {
            while ended.recv().await.is_some() {}
        }
        waiting.pop_front().map(|(version, _)| version).unwrap_or_default()
    }

    /// The targets that leave with a plan, and what becomes of their series. They go on if another
    /// pod is to have the target, or if it stays with other settings of its job; they end if nobody
    /// is to have it, or if it is another target now.
    pub(super) fn left(
        &self,
        sources: &BTreeMap<usize, Source>,
        plan: &Plan,
    ) -> HashMap<Arc<Resolved>, Series> {
        let mut left = HashMap::new();
        for (id, subject) in &self.taken.subjects {
            let series = match plan.subjects.get(id) {
                Some(now) if is_same(subject, now) => Series::GoOn,
                Some(_) => Series::End,
                None if plan.ended.contains(id) => Series::End,
                None => Series::GoOn,
            };
            let targets = match subject {
                Subject::Target(target) => std::slice::from_ref(target),
                Subject::List(number) => {
                    sources.get(number).map_or(&[][..], |source| &source.listed.targets)
                }
                Subject::Dropped | Subject::Fault(_) => &[],
            };
            left.extend(targets.iter().map(|target| (Arc::clone(target), series)));
        }
        left
    }
}

/// Whether the series of an entry are the same with its job's new settings.
fn is_same(one: &Subject, other: &Subject) -> bool {
    match (one, other) {
        (Subject::Target(one), Subject::Target(other)) => {
            (&one.url, &one.names, &one.labels) == (&other.url, &other.names, &other.labels)
        }
        (Subject::List(_), Subject::List(_)) => true,
        _ => false,
    }
}
