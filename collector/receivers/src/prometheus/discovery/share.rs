//! This pod's share: each version becomes a plan of jobs and targets, which the set takes up.
//!
//! A job whose settings stay the same keeps its place, and with it its targets' tasks; other
//! settings are another place. A job or an entry that can't be used hurts nothing else. An entry
//! whose address is a URL is a list, which is read as a job's own lists are.
//!
//! # Limits
//! [`SHARED_LISTS_MAX`] lists. Settings, rules and labels have the bounds that they have elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use millrace_config::{HttpTargets, HttpUrl, ListedAddress, ListedName, ListedValue, ScrapeJob};
use millrace_pipeline::scrape_metrics::ScrapeMetrics;
use millrace_pipeline::share::Shares;
use millrace_shares::{Entry, Share, TargetId};
use tokio::sync::mpsc::Sender;
use tokio::task::{AbortHandle, JoinSet, yield_now};

use super::http::HttpList;
use super::{Listed, News};
use crate::prometheus::board::{Board, shown};
use crate::prometheus::connect::{Connector, Network};
use crate::prometheus::resolve::{Dropped, Resolved, Resolver};
use crate::prometheus::rules::RuledJob;
use crate::prometheus::set::Job;

/// Most lists of a share: each has a task that reads it.
const SHARED_LISTS_MAX: usize = 1000;

/// How many entries are resolved before other tasks of the thread have their turn: each takes
/// microseconds, with many rules a millisecond.
const TURN: usize = 64;

/// What an entry became.
#[derive(Debug, Clone)]
pub(in crate::prometheus) enum Subject {
    Target(Arc<Resolved>),
    /// A list, by its number among the sources.
    List(usize),
    /// Rules drop it.
    Dropped,
    /// It can't be used.
    Fault(String),
}

/// Where a plan's targets come from.
#[derive(Debug)]
pub(in crate::prometheus) enum Planned {
    /// The entries of a job.
    Entries { job: usize, listed: Listed },
    /// A list, which may be read already.
    List { job: usize },
}

/// A version of the share, made ready.
#[derive(Debug)]
pub(in crate::prometheus) struct Plan {
    pub(in crate::prometheus) version: u64,
    /// By their places: those that can be used.
    pub(in crate::prometheus) jobs: BTreeMap<usize, Job>,
    /// Of all jobs.
    pub(in crate::prometheus) names: BTreeMap<usize, String>,
    pub(in crate::prometheus) sources: BTreeMap<usize, Planned>,
    pub(in crate::prometheus) subjects: BTreeMap<TargetId, Subject>,
    /// Targets of which it is known that no pod is to have them.
    pub(in crate::prometheus) ended: BTreeSet<TargetId>,
}

/// A job, as its settings were read.
#[derive(Debug)]
struct Known {
    settings: serde_json::Value,
    place: usize,
    /// Or what is wrong with it.
    job: Result<Job, String>,
}

/// A list that is read.
#[derive(Debug)]
struct List {
    /// What makes it another one: the job's place, the URL, how often, labels.
    key: (usize, String, u32, BTreeMap<String, String>),
    source: usize,
    /// None until it is begun.
    task: Option<AbortHandle>,
}

/// Follows the share.
#[derive(Debug)]
pub(in crate::prometheus) struct ShareReader {
    shares: Shares,
    network: Network,
    metrics: ScrapeMetrics,
    board: Board,
    jobs: BTreeMap<String, Known>,
    lists: BTreeMap<TargetId, List>,
    /// End with the reader.
    reading: JoinSet<()>,
    /// The next place of a job, or number of a list: none is used twice.
    next: usize,
}

impl ShareReader {
    pub(in crate::prometheus) fn new(
        shares: Shares,
        network: Network,
        metrics: ScrapeMetrics,
        board: Board,
    ) -> Self {
        let (jobs, lists, reading) = (BTreeMap::new(), BTreeMap::new(), JoinSet::new());
        Self { shares, network, metrics, board, jobs, lists, reading, next: 0 }
    }

    /// Tells each version that is newer.
    pub(in crate::prometheus) async fn run(mut self, news: Sender<News>) {
        let mut last = None;
        loop {
            let told = self.shares.borrow_and_update().clone();
            self.board.set_share_fault(shown(told.fault));
            if let Some(share) = told.share
                && last.is_none_or(|last| share.version > last)
            {
                last = Some(share.version);
                let plan = Box::new(self.plan(&share).await);
                if news.send(News::Share(plan)).await.is_err() {
                    return;
                }
                // Behind it: the set has to know a list before it is told of its targets.
                self.begin_lists(&news);
            }
            while self.reading.try_join_next().is_some() {}
            if self.shares.changed().await.is_err() {
                // Nobody tells any more: what there is stays.
                return std::future::pending().await;
            }
        }
    }

    async fn plan(&mut self, share: &Share) -> Plan {
        let mut by_job: BTreeMap<&str, Vec<(TargetId, &Entry)>> = BTreeMap::new();
        for (id, entry) in &share.targets {
            by_job.entry(&entry.job).or_default().push((*id, entry));
        }
        self.jobs.retain(|name, _| by_job.contains_key(name.as_str()));
        let ended = share.released.iter().filter(|(_, note)| note.to.is_none());
        let mut plan = Plan {
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
        plan: &mut Plan,
        lists: &mut BTreeMap<TargetId, List>,
        (name, settings): (&str, Option<&serde_json::Value>),
        entries: Vec<(TargetId, &Entry)>,
    ) {
        let (place, job) = self.job(name, settings.unwrap_or(&serde_json::Value::Null));
        let mut listed = Listed::default();
        let job = match job {
            Ok(job) => job,
            Err(fault) => {
                listed.dropped.invalid = entries.len() as u64;
                listed.dropped.example.clone_from(&fault);
                let subject = |(id, _)| (id, Subject::Fault(fault.clone()));
                plan.subjects.extend(entries.into_iter().map(subject));
                plan.names.insert(place, name.to_owned());
                plan.sources.insert(place, Planned::Entries { job: place, listed });
                return;
            }
        };
        let settings = Arc::clone(&job.settings);
        let mut resolver = Resolver::new((place, &settings));
        for (index, (id, entry)) in entries.into_iter().enumerate() {
            if index % TURN == TURN - 1 {
                yield_now().await;
            }
            let subject = if is_url(&entry.address) {
                self.list(lists, plan, (id, entry), (place, &settings))
            } else {
                let resolved = checked(entry)
                    .map_err(Dropped::Invalid)
                    .and_then(|()| resolver.resolve(&entry.address, &entry.labels));
                let subject = match &resolved {
                    Ok(_) => None,
                    Err(Dropped::Relabeled) => Some(Subject::Dropped),
                    Err(Dropped::Invalid(fault)) => Some(Subject::Fault(shown(fault))),
                };
                listed.take(resolved);
                match (subject, listed.targets.last()) {
                    (Some(subject), _) => subject,
                    (None, Some(target)) => Subject::Target(Arc::clone(target)),
                    (None, None) => Subject::Dropped,
                }
            };
            plan.subjects.insert(id, subject);
        }
        plan.names.insert(place, settings.name.clone());
        plan.sources.insert(place, Planned::Entries { job: place, listed });
        plan.jobs.insert(place, job);
    }

    /// A job and its place: the same as before if its settings are.
    fn job(&mut self, name: &str, settings: &serde_json::Value) -> (usize, Result<Job, String>) {
        if let Some(known) = self.jobs.get(name)
            && known.settings == *settings
        {
            return (known.place, known.job.clone());
        }
        let place = self.number();
        let job = make(name, settings, &self.network);
        if let Err(fault) = &job {
            tracing::warn!(job = name, fault, "a job of this pod's share can't be scraped");
        }
        let known = Known { settings: settings.clone(), place, job: job.clone() };
        self.jobs.insert(name.to_owned(), known);
        (place, job)
    }

    fn number(&mut self) -> usize {
        self.next += 1;
        self.next
    }

    /// The list that an entry names, which goes on if it is the same as before.
    fn list(
        &mut self,
        lists: &mut BTreeMap<TargetId, List>,
        plan: &mut Plan,
        (id, entry): (TargetId, &Entry),
        (place, job): (usize, &RuledJob),
    ) -> Subject {
        if let Err(fault) = checked(entry) {
            return Subject::Fault(shown(fault));
        }
        if let Err(error) = HttpUrl::new(&entry.address) {
            return Subject::Fault(shown(error));
        }
        if lists.len() == SHARED_LISTS_MAX {
            return Subject::Fault(format!("more than {SHARED_LISTS_MAX} lists: add pods"));
        }
        let refresh = job.http.iter().find(|one| one.url == entry.address);
        let refresh =
            refresh.map_or(HttpTargets::default().refresh_seconds, |it| it.refresh_seconds);
        let key = (place, entry.address.clone(), refresh, entry.labels.clone());
        let list = match self.lists.remove(&id) {
            Some(list) if list.key == key => list,
            old => {
                if let Some(task) = old.and_then(|old| old.task) {
                    task.abort();
                }
                List { key, source: self.number(), task: None }
            }
        };
        let source = list.source;
        plan.sources.insert(source, Planned::List { job: place });
        lists.insert(id, list);
        Subject::List(source)
    }

    /// Begins to read the lists that aren't read yet.
    fn begin_lists(&mut self, news: &Sender<News>) {
        for list in self.lists.values_mut().filter(|list| list.task.is_none()) {
            let (place, url, refresh, labels) = list.key.clone();
            let mut jobs = self.jobs.values().filter(|job| job.place == place);
            let Some(Ok(job)) = jobs.next().map(|known| &known.job) else { continue };
            let Ok(url) = HttpUrl::new(&url) else { continue };
            let of = (place, Arc::clone(&job.settings));
            let connector = Arc::clone(&job.connector);
            let reader = HttpList::new(of, (url, refresh), connector, self.metrics.clone())
                .with_labels(labels);
            list.task = Some(self.reading.spawn(reader.run(list.source, news.clone())));
        }
    }
}

fn make(name: &str, settings: &serde_json::Value, network: &Network) -> Result<Job, String> {
    if settings.is_null() {
        return Err(shown(format!("the share has no settings of job `{name}`")));
    }
    let job = ScrapeJob::of_share(name, settings).map_err(shown)?;
    let job = Arc::new(RuledJob::new(job).map_err(shown)?);
    if let Some(exposed) = job.exposed() {
        tracing::warn!(job = job.name, "credentials are sent unencrypted: {exposed}");
    }
    let connector = Arc::new(Connector::new(&job.access(), network));
    Ok(Job { settings: job, connector })
}

fn is_url(address: &str) -> bool {
    address.starts_with("http://") || address.starts_with("https://")
}

/// Whether an entry's texts are such as lists may have.
fn checked(entry: &Entry) -> Result<(), String> {
    ListedAddress::from_str(&entry.address).map_err(|error| error.to_string())?;
    for (name, value) in &entry.labels {
        ListedName::from_str(name).map_err(|error| error.to_string())?;
        ListedValue::from_str(value).map_err(|error| error.to_string())?;
    }
    Ok(())
}
