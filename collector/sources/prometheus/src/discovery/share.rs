//! Turns each version of this pod's share into a plan of jobs and targets, which the set applies.
//!
//! A job with unchanged settings keeps its index, and so its targets' tasks; changed settings get
//! another index. An invalid job or entry doesn't affect others. An entry whose address is a URL is
//! a list, which is read like a job's own lists.
//!
//! # Limits
//! [`SHARED_LISTS_MAX`] lists. Settings, rules and labels have the same bounds as elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use crate::metrics::ScrapeMetrics;
use millrace_config::{HttpTargets, HttpUrl, ListedAddress, ListedName, ListedValue, ScrapeJob};
use millrace_pipeline::share::Shares;
use millrace_share_documents::{Share, TargetEntry, TargetId};
use tokio::sync::mpsc::Sender;
use tokio::task::{AbortHandle, JoinSet, yield_now};

use super::http::HttpList;
use super::{TargetList, TargetUpdate};
use crate::connect::{Connector, Network};
use crate::connected_job::ConnectedJob;
use crate::resolve::{DropReason, Resolver, ScrapeTarget};
use crate::rules::RuledJob;
use crate::target_status::{TargetStatus, truncate_error};

/// The most lists of a share: each has a task that reads it.
const SHARED_LISTS_MAX: usize = 1000;

/// The number of entries that are resolved between two yields to other tasks: each takes
/// microseconds, with many rules a millisecond.
const YIELD_EVERY: usize = 64;

/// The result of resolving an entry.
#[derive(Debug, Clone)]
pub(crate) enum EntryTarget {
    Target(Arc<ScrapeTarget>),
    /// The entry is a list with this source number.
    List(usize),
    /// Rules drop the entry.
    Dropped,
    /// The entry is invalid.
    Fault(String),
}

/// A source of a plan's targets.
#[derive(Debug)]
pub(crate) enum PlannedSource {
    /// The entries of a job.
    Entries { job: usize, listed: TargetList },
    /// A list, which another version may have begun to read.
    List { job: usize },
}

/// A version of the share, ready to be applied.
#[derive(Debug)]
pub(crate) struct SharePlan {
    pub(crate) version: u64,
    /// The valid jobs, by index.
    pub(crate) jobs: BTreeMap<usize, ConnectedJob>,
    /// The names of all jobs, by index.
    pub(crate) names: BTreeMap<usize, String>,
    pub(crate) sources: BTreeMap<usize, PlannedSource>,
    pub(crate) subjects: BTreeMap<TargetId, EntryTarget>,
    /// Targets that the share releases to no other pod.
    pub(crate) ended: BTreeSet<TargetId>,
}

/// A job as last parsed.
#[derive(Debug)]
struct KnownJob {
    settings: serde_json::Value,
    index: usize,
    /// The job, or its fault.
    job: Result<ConnectedJob, String>,
}

/// A list of the share that is read.
#[derive(Debug)]
struct SharedList {
    /// The identity of the list: the job's index, URL, refresh interval and labels.
    key: (usize, String, u32, BTreeMap<String, String>),
    source: usize,
    /// `None` until the task is started.
    task: Option<AbortHandle>,
}

/// Follows the share.
#[derive(Debug)]
pub(crate) struct ShareReader {
    shares: Shares,
    network: Network,
    metrics: ScrapeMetrics,
    target_status: TargetStatus,
    jobs: BTreeMap<String, KnownJob>,
    lists: BTreeMap<TargetId, SharedList>,
    /// The lists' tasks, which end with the reader.
    reading: JoinSet<()>,
    /// The last index of a job or number of a list: none is reused.
    next: usize,
}

impl ShareReader {
    pub(crate) fn new(
        shares: Shares,
        network: Network,
        metrics: ScrapeMetrics,
        target_status: TargetStatus,
    ) -> Self {
        let (jobs, lists, reading) = (BTreeMap::new(), BTreeMap::new(), JoinSet::new());
        Self { shares, network, metrics, target_status, jobs, lists, reading, next: 0 }
    }

    /// Sends a plan for each newer version.
    pub(crate) async fn run(mut self, news: Sender<TargetUpdate>) {
        let mut last = None;
        loop {
            let update = self.shares.borrow_and_update().clone();
            self.target_status.set_share_fault(truncate_error(update.fault));
            if let Some(share) = update.share
                && last.is_none_or(|last| share.version > last)
            {
                last = Some(share.version);
                let plan = Box::new(self.plan_share(&share).await);
                if news.send(TargetUpdate::Share(plan)).await.is_err() {
                    return;
                }
                // After the plan: the set must know a list before it gets its targets.
                self.begin_lists(&news);
            }
            while self.reading.try_join_next().is_some() {}
            if self.shares.changed().await.is_err() {
                // The sender is gone: the last version stays in use.
                return std::future::pending().await;
            }
        }
    }

    async fn plan_share(&mut self, share: &Share) -> SharePlan {
        let mut by_job: BTreeMap<&str, Vec<(TargetId, &TargetEntry)>> = BTreeMap::new();
        for (id, entry) in &share.targets {
            by_job.entry(&entry.job).or_default().push((*id, entry));
        }
        self.jobs.retain(|name, _| by_job.contains_key(name.as_str()));
        let ended = share.released.iter().filter(|(_, note)| note.to.is_none());
        let mut plan = SharePlan {
            version: share.version,
            jobs: BTreeMap::new(),
            names: BTreeMap::new(),
            sources: BTreeMap::new(),
            subjects: BTreeMap::new(),
            ended: ended.map(|(id, _)| *id).collect(),
        };
        let mut lists = BTreeMap::new();
        for (name, entries) in by_job {
            self.plan_job(&mut plan, &mut lists, (name, share.jobs.get(name)), entries).await;
        }
        for list in std::mem::replace(&mut self.lists, lists).into_values() {
            if let Some(task) = list.task {
                task.abort();
            }
        }
        plan
    }

    async fn plan_job(
        &mut self,
        plan: &mut SharePlan,
        lists: &mut BTreeMap<TargetId, SharedList>,
        (name, settings): (&str, Option<&serde_json::Value>),
        entries: Vec<(TargetId, &TargetEntry)>,
    ) {
        let (job_index, job) = self.job_for(name, settings.unwrap_or(&serde_json::Value::Null));
        let mut listed = TargetList::default();
        let job = match job {
            Ok(job) => job,
            Err(fault) => {
                listed.dropped.invalid = entries.len() as u64;
                listed.dropped.example.clone_from(&fault);
                let subject = |(id, _)| (id, EntryTarget::Fault(fault.clone()));
                plan.subjects.extend(entries.into_iter().map(subject));
                plan.names.insert(job_index, name.to_owned());
                plan.sources.insert(job_index, PlannedSource::Entries { job: job_index, listed });
                return;
            }
        };
        let settings = Arc::clone(&job.settings);
        let mut resolver = Resolver::new((job_index, &settings));
        for (index, (id, entry)) in entries.into_iter().enumerate() {
            if index % YIELD_EVERY == YIELD_EVERY - 1 {
                yield_now().await;
            }
            let subject = if is_url(&entry.address) {
                self.plan_list(lists, plan, (id, entry), (job_index, &settings))
            } else {
                let resolved = check_entry(entry)
                    .map_err(DropReason::Invalid)
                    .and_then(|()| resolver.resolve_target(&entry.address, &entry.labels));
                let subject = match &resolved {
                    Ok(_) => None,
                    Err(DropReason::Relabeled) => Some(EntryTarget::Dropped),
                    Err(DropReason::Invalid(fault)) => {
                        Some(EntryTarget::Fault(truncate_error(fault)))
                    }
                };
                listed.add_resolved(resolved);
                match (subject, listed.targets.last()) {
                    (Some(subject), _) => subject,
                    (None, Some(target)) => EntryTarget::Target(Arc::clone(target)),
                    (None, None) => EntryTarget::Dropped,
                }
            };
            plan.subjects.insert(id, subject);
        }
        plan.names.insert(job_index, settings.name.clone());
        plan.sources.insert(job_index, PlannedSource::Entries { job: job_index, listed });
        plan.jobs.insert(job_index, job);
    }

    /// Returns a job and its index: the former ones if the settings are unchanged.
    fn job_for(
        &mut self,
        name: &str,
        settings: &serde_json::Value,
    ) -> (usize, Result<ConnectedJob, String>) {
        if let Some(known) = self.jobs.get(name)
            && known.settings == *settings
        {
            return (known.index, known.job.clone());
        }
        let index = self.next_number();
        let job = build_job(name, settings, &self.network);
        if let Err(fault) = &job {
            tracing::warn!(job = name, fault, "cannot scrape a job of this pod's share");
        }
        let known = KnownJob { settings: settings.clone(), index, job: job.clone() };
        self.jobs.insert(name.to_owned(), known);
        (index, job)
    }

    fn next_number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// Plans the list of an entry. An unchanged list continues to be read.
    fn plan_list(
        &mut self,
        lists: &mut BTreeMap<TargetId, SharedList>,
        plan: &mut SharePlan,
        (id, entry): (TargetId, &TargetEntry),
        (index, job): (usize, &RuledJob),
    ) -> EntryTarget {
        if let Err(fault) = check_entry(entry) {
            return EntryTarget::Fault(truncate_error(fault));
        }
        if let Err(error) = HttpUrl::new(&entry.address) {
            return EntryTarget::Fault(truncate_error(error));
        }
        if lists.len() == SHARED_LISTS_MAX {
            return EntryTarget::Fault(format!("more than {SHARED_LISTS_MAX} lists: add pods"));
        }
        let refresh = job.http.iter().find(|one| one.url == entry.address);
        let refresh =
            refresh.map_or(HttpTargets::default().refresh_seconds, |it| it.refresh_seconds);
        let key = (index, entry.address.clone(), refresh, entry.labels.clone());
        let list = match self.lists.remove(&id) {
            Some(list) if list.key == key => list,
            old => {
                if let Some(task) = old.and_then(|old| old.task) {
                    task.abort();
                }
                SharedList { key, source: self.next_number(), task: None }
            }
        };
        let source = list.source;
        plan.sources.insert(source, PlannedSource::List { job: index });
        lists.insert(id, list);
        EntryTarget::List(source)
    }

    /// Starts the tasks of new lists.
    fn begin_lists(&mut self, news: &Sender<TargetUpdate>) {
        for list in self.lists.values_mut().filter(|list| list.task.is_none()) {
            let (index, url, refresh, labels) = list.key.clone();
            let mut jobs = self.jobs.values().filter(|job| job.index == index);
            let Some(Ok(job)) = jobs.next().map(|known| &known.job) else { continue };
            let Ok(url) = HttpUrl::new(&url) else { continue };
            let of = (index, Arc::clone(&job.settings));
            let connector = Arc::clone(&job.connector);
            let reader = HttpList::new(of, (url, refresh), connector, self.metrics.clone())
                .with_labels(labels);
            list.task = Some(self.reading.spawn(reader.run(list.source, news.clone())));
        }
    }
}

fn build_job(
    name: &str,
    settings: &serde_json::Value,
    network: &Network,
) -> Result<ConnectedJob, String> {
    if settings.is_null() {
        return Err(truncate_error(format!("the share has no settings of job `{name}`")));
    }
    let job = ScrapeJob::of_share(name, settings).map_err(truncate_error)?;
    let job = Arc::new(RuledJob::new(job).map_err(truncate_error)?);
    if let Some(exposed) = job.exposed_credentials() {
        tracing::warn!(job = job.name, "credentials are sent in plaintext: {exposed}");
    }
    let connector = Arc::new(Connector::new(&job.http_access(), network));
    Ok(ConnectedJob { settings: job, connector })
}

fn is_url(address: &str) -> bool {
    address.starts_with("http://") || address.starts_with("https://")
}

/// Checks that an entry's texts are valid in a list.
fn check_entry(entry: &TargetEntry) -> Result<(), String> {
    ListedAddress::from_str(&entry.address).map_err(|error| error.to_string())?;
    for (name, value) in &entry.labels {
        ListedName::from_str(name).map_err(|error| error.to_string())?;
        ListedValue::from_str(value).map_err(|error| error.to_string())?;
    }
    Ok(())
}
