//! Computes what to share out, from a pool's spec: each target with its identity and entry, and
//! each job's settings. Pure. Entries that no document can hold are omitted and named.

use std::collections::BTreeMap;

use millrace_config::ScrapeJob;
use millrace_monitors::{DiscoveryResult, FaultEffect, ScrapedTarget};
use millrace_share_documents::{JOB_BYTES_MAX, PodName, Share, TargetEntry, TargetId, Weight};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Maximum number of reported refusals: people read the first ones.
const REFUSALS_MAX: usize = 8;

/// The targets to share out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sources {
    /// Jobs' settings, by name, as stored in documents.
    pub(super) jobs: BTreeMap<String, Value>,
    pub(super) targets: BTreeMap<TargetId, SourceTarget>,
    /// The numbers of monitors that are applied completely, and in part.
    pub(super) monitors: u64,
    pub(super) invalid_monitors: u64,
    /// The first refused jobs and targets and faults in monitors, with the reasons.
    pub(super) refusals: Vec<String>,
    /// The number of all of these.
    pub(super) refused: u64,
    /// The number of those in the pool's own spec.
    pub(super) refused_in_spec: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceTarget {
    /// The target's entry in a document, with the minimum weight.
    pub(super) entry: TargetEntry,
    pub(super) interval_seconds: u32,
    /// The zone where it runs, if known.
    pub(super) zone: Option<String>,
}

/// Returns the targets of a spec's own jobs. A server with a list of targets is one: its pod reads
/// the list and scrapes all of it.
#[must_use]
pub(super) fn scraped_from_jobs(jobs: Vec<ScrapeJob>) -> DiscoveryResult {
    let mut scraped = DiscoveryResult::default();
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
    /// Returns the targets of a spec's own jobs.
    #[must_use]
    pub(super) fn from_scraped(scraped: &DiscoveryResult) -> Self {
        let mut sources = Self::default();
        sources.add_scraped(scraped);
        sources.refused_in_spec = sources.refused;
        sources
    }

    /// Adds the targets of a discovery result. A job whose name is already used is refused.
    pub(super) fn add_scraped(&mut self, scraped: &DiscoveryResult) {
        let sources = self;
        let mut intervals = BTreeMap::new();
        for (name, job) in &scraped.jobs {
            match job_settings(job) {
                Ok(_) if sources.jobs.contains_key(name) => {
                    let advice = "another job has this name: give the pool's own another one";
                    sources.record_refusal(format!("job {name}: {advice}"));
                }
                Ok(settings) => {
                    intervals.insert(name.as_str(), job.interval_seconds);
                    sources.jobs.insert(name.clone(), settings);
                }
                Err(why) => sources.record_refusal(format!("job {name}: {why}")),
            }
        }
        for fault in scraped.faults.iter().filter(|fault| fault.effect == FaultEffect::NotScraped) {
            sources.record_refusal(fault.to_string());
        }
        sources.monitors += scraped.counts.applied as u64;
        sources.invalid_monitors += scraped.counts.broken as u64;
        for target in &scraped.targets {
            let ScrapedTarget { job, address, labels, zone } = target;
            let entry = TargetEntry {
                job: job.clone(),
                address: address.clone(),
                labels: labels.clone(),
                weight: Weight::new(0),
            };
            // Targets of a refused job are omitted too; the job is named once.
            let Some(interval_seconds) = intervals.get(job.as_str()).copied() else { continue };
            if let Some(why) = entry.over_bound() {
                let start: String = address.chars().take(128).collect();
                sources.record_refusal(format!("job {job}: target {start}: {why}"));
                continue;
            }
            let source = SourceTarget { entry, interval_seconds, zone: zone.clone() };
            sources.targets.insert(target_id(target), source);
        }
    }

    /// Adds the targets of documents, with their jobs' settings: what pods scrape while the desired
    /// targets are unknown. Jobs with known settings are skipped.
    pub(super) fn add_shared(&mut self, shares: &BTreeMap<PodName, Share>) {
        let mut newest: Vec<&Share> = shares.values().collect();
        newest.sort_by_key(|share| std::cmp::Reverse(share.version));
        let mut jobs = BTreeMap::new();
        for (name, settings) in newest.iter().flat_map(|share| &share.jobs) {
            if !self.jobs.contains_key(name) {
                jobs.entry(name.clone()).or_insert_with(|| settings.clone());
            }
        }
        for (id, entry) in newest.iter().flat_map(|share| &share.targets) {
            let Some(settings) = jobs.get(&entry.job) else { continue };
            let interval = settings["intervalSeconds"].as_u64().and_then(|it| it.try_into().ok());
            let interval_seconds = interval.unwrap_or(ScrapeJob::default().interval_seconds);
            let entry = TargetEntry { weight: Weight::new(0), ..entry.clone() };
            self.targets.entry(*id).or_insert(SourceTarget { entry, interval_seconds, zone: None });
        }
        self.jobs.extend(jobs);
    }

    fn record_refusal(&mut self, why: String) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(why);
        }
    }
}

/// Returns a job's settings in the form that pods read.
fn job_settings(job: &ScrapeJob) -> Result<Value, String> {
    if !job.files.is_empty() {
        return Err("lists in files can't be assigned: write targets, or http lists".to_owned());
    }
    let settings = serde_json::to_value(job).map_err(|error| error.to_string())?;
    let bytes = settings.to_string().len();
    match bytes > JOB_BYTES_MAX {
        true => Err(format!("its settings have {bytes} bytes, at most {JOB_BYTES_MAX}")),
        false => Ok(settings),
    }
}

/// Returns a target's identity: a hash that nobody can steer. Each part is preceded by its length,
/// so that no two targets give the same bytes.
fn target_id(target: &ScrapedTarget) -> TargetId {
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
mod tests;
