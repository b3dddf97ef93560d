//! Applies versions of the share: decides what becomes of the series of leaving targets, and when a
//! version counts as applied.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use millrace_share_documents::TargetId;
use tokio::sync::mpsc;

use super::discovery::TargetSource;
use super::discovery::share::{EntryTarget, SharePlan};
use super::resolve::ScrapeTarget;
use super::worker::task_stop::SeriesFate;

/// The share's entries as last applied.
#[derive(Debug, Default)]
pub(super) struct AppliedShare {
    /// The targets of the newest version's entries.
    pub(super) subjects: BTreeMap<TargetId, EntryTarget>,
}

/// The versions of the share that are being applied.
#[derive(Debug)]
pub(super) struct ShareVersions {
    pub(super) applied: AppliedShare,
    /// Each stopped task has a clone until its last scrape has ended.
    scraping: mpsc::Sender<()>,
    ended: mpsc::Receiver<()>,
    /// Versions whose stopped tasks may still scrape, in order. Each leaves the queue within
    /// `RELEASE_TIME`, so that there are only a few.
    waiting: VecDeque<(u64, mpsc::Receiver<()>)>,
}

impl Default for ShareVersions {
    fn default() -> Self {
        let (scraping, ended) = mpsc::channel(1);
        Self { applied: AppliedShare::default(), scraping, ended, waiting: VecDeque::new() }
    }
}

impl ShareVersions {
    /// Returns the guard for a task that is stopped.
    pub(super) fn scrape_guard(&self) -> Option<mpsc::Sender<()>> {
        Some(self.scraping.clone())
    }

    /// Queues a version that waits for all tasks stopped until now.
    pub(super) fn queue_version(&mut self, version: u64) {
        let (scraping, ended) = mpsc::channel(1);
        self.scraping = scraping;
        let ended = std::mem::replace(&mut self.ended, ended);
        self.waiting.push_back((version, ended));
    }

    /// Waits until the next version is applied; forever if there is none.
    pub(super) async fn next(this: &mut Option<Self>) -> u64 {
        let waiting = this.as_mut().map(|this| &mut this.waiting);
        let Some(waiting) = waiting.filter(|waiting| !waiting.is_empty()) else {
            return std::future::pending().await;
        };
        // In order: an applied version implies that all before it are applied.
        if let Some((_, ended)) = waiting.front_mut() {
            while ended.recv().await.is_some() {}
        }
        waiting.pop_front().map(|(version, _)| version).unwrap_or_default()
    }

    /// Returns the targets that a plan removes, and the fate of their series. Another pod, or this
    /// one with other job settings, continues them; they end if no pod gets the target, or if the
    /// entry became another target.
    pub(super) fn leaving_targets(
        &self,
        sources: &BTreeMap<usize, TargetSource>,
        plan: &SharePlan,
    ) -> HashMap<Arc<ScrapeTarget>, SeriesFate> {
        let mut left = HashMap::new();
        for (id, subject) in &self.applied.subjects {
            let series = match plan.subjects.get(id) {
                Some(now) if is_same(subject, now) => SeriesFate::Continue,
                Some(_) => SeriesFate::MarkStale,
                None if plan.ended.contains(id) => SeriesFate::MarkStale,
                None => SeriesFate::Continue,
            };
            let targets = match subject {
                EntryTarget::Target(target) => std::slice::from_ref(target),
                EntryTarget::List(number) => {
                    sources.get(number).map_or(&[][..], |source| &source.listed.targets)
                }
                EntryTarget::Dropped | EntryTarget::Fault(_) => &[],
            };
            left.extend(targets.iter().map(|target| (Arc::clone(target), series)));
        }
        left
    }
}

/// Whether the series of an entry remain the same with its job's new settings.
fn is_same(one: &EntryTarget, other: &EntryTarget) -> bool {
    match (one, other) {
        (EntryTarget::Target(one), EntryTarget::Target(other)) => {
            (&one.url, &one.names, &one.labels) == (&other.url, &other.names, &other.labels)
        }
        (EntryTarget::List(_), EntryTarget::List(_)) => true,
        _ => false,
    }
}
