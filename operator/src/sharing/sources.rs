//! What is to be shared out, from a pool's spec: each target with its identity and entry, and each
//! job's settings. Pure. What no document can hold is left out and named.

use std::collections::BTreeMap;

use millrace_config::ScrapeJob;
use millrace_monitors::{Scraped, ScrapedTarget};
use millrace_shares::{Entry, JOB_BYTES_MAX, TargetId, Weight};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Most refusals that are told: people read the first ones.
const REFUSALS_MAX: usize = 8;

/// What is to be shared out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sources {
    /// Jobs' settings, by name, as documents have them.
    pub(super) jobs: BTreeMap<String, Value>,
    /// The targets.
    pub(super) targets: BTreeMap<TargetId, Source>,
    /// What can't be shared out, and why: the first ones.
    pub(super) refusals: Vec<String>,
    /// How many that are.
    pub(super) refused: u64,
}

/// A target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// As a document has it; its weight is the least.
    pub(super) entry: Entry,
    /// The time between its scrapes.
    pub(super) interval_seconds: u32,
    /// Where it runs, if that is known.
    pub(super) zone: Option<String>,
}

/// The targets of a spec's own jobs. A server with a list of targets is one: its pod reads the list
/// and scrapes all of it.
#[must_use]
pub(super) fn written(jobs: Vec<ScrapeJob>) -> Scraped {
    let mut scraped = Scraped::default();
    for mut job in jobs {
        let addresses = job.targets.drain(..).map(|target| target.as_str().to_owned());
        let lists = job.http.iter().map(|list| list.url.clone());
        let targets = addresses.chain(lists).map(|address| ScrapedTarget {
            job: job.name.clone(),
            address,
            labels: BTreeMap::new(),
            zone: None,
        });
        scraped.targets.extend(targets.collect::<Vec<_>>());
        scraped.jobs.insert(job.name.clone(), job);
    }
    scraped
}

impl Sources {
    /// Those of what was found.
    #[must_use]
    pub(super) fn of(scraped: &Scraped) -> Self {
        let mut sources = Self::default();
        let mut intervals = BTreeMap::new();
        for (name, job) in &scraped.jobs {
            match settings(job) {
                Ok(settings) => {
                    intervals.insert(name.as_str(), job.interval_seconds);
                    sources.jobs.insert(name.clone(), settings);
                }
                Err(why) => sources.refuse(format!("job {name}: {why}")),
            }
        }
        for target in &scraped.targets {
            let ScrapedTarget { job, address, labels, zone } = target;
            let entry = Entry {
                job: job.clone(),
                address: address.clone(),
                labels: labels.clone(),
                weight: Weight::new(0),
            };
            // Of a job that is refused the targets are left out too, named once.
            let Some(interval_seconds) = intervals.get(job.as_str()).copied() else { continue };
            if let Some(why) = entry.over_bound() {
                let start: String = address.chars().take(128).collect();
                sources.refuse(format!("job {job}: target {start}: {why}"));
                continue;
            }
            let source = Source { entry, interval_seconds, zone: zone.clone() };
            sources.targets.insert(id(target), source);
        }
        sources
    }

    fn refuse(&mut self, why: String) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(why);
        }
    }
}

/// A job's settings as pods read them.
fn settings(job: &ScrapeJob) -> Result<Value, String> {
    if !job.files.is_empty() {
        return Err("lists in files can't be shared out: write targets, or http lists".to_owned());
    }
    let settings = serde_json::to_value(job).map_err(|error| error.to_string())?;
    let bytes = settings.to_string().len();
    match bytes > JOB_BYTES_MAX {
        true => Err(format!("its settings have {bytes} bytes, at most {JOB_BYTES_MAX}")),
        false => Ok(settings),
    }
}

/// What makes a target, through a hash that nobody can steer. Each part with its length before it,
/// so that no two targets give the same bytes.
fn id(target: &ScrapedTarget) -> TargetId {
    let ScrapedTarget { job, address, labels, zone: _ } = target;
    let labels = labels.iter().flat_map(|(name, value)| [name, value]);
    let mut hash = Sha256::new();
    for part in [job, address].into_iter().chain(labels) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    TargetId(digest.iter().take(16).fold(0, |id, byte| id << 8 | u128::from(*byte)))
}

#[cfg(test)]
#[path = "../../tests/unit/sharing/sources.rs"]
mod tests;
