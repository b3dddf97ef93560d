//! Discovers what a pool scrapes, from monitors and a cluster.
//!
//! # Limits
//! [`JOBS_MAX`] jobs and [`TARGETS_MAX`] targets of a pool: the excess is omitted, with a fault of
//! its monitor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{Scheme, ScrapeJob, TargetAddress};
use millrace_scrape::relabel::{LabelSet, RelabelScratch};
use millrace_scrape::{Defaults, duration};
use millrace_share_documents::{ADDRESS_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX};

use crate::annotations::AnnotationSources;
use crate::cluster::Cluster;
use crate::meta::Finder;
use crate::monitor::Monitor;
use crate::monitor::endpoint::MonitorEndpoint;
use crate::monitor::secrets::SecretUse;
use crate::scraped::{DiscoveryResult, FaultEffect, MonitorFault, MonitorId, ScrapedTarget};
use crate::selector::Namespaces;

/// Maximum jobs of a pool: pods hold their settings in memory, and each endpoint of a monitor is
/// one.
pub const JOBS_MAX: usize = 2_000;

/// Maximum targets of a pool: the largest number with which sharing was tested.
pub const TARGETS_MAX: usize = 100_000;

/// Prometheus' default time-out, for monitors without one.
const TIMEOUT_SECONDS: u32 = 10;

const SCHEME: &str = "__scheme__";
const PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const PARAMETER: &str = "__param_";

/// The input of discovery.
#[derive(Clone, Copy, Debug)]
pub struct DiscoveryInput<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Namespaces that the pool may access, whatever its monitors select.
    pub reach: &'a Namespaces,
    /// The monitors that the pool selects.
    pub monitors: &'a [Arc<Monitor>],
    /// Annotated pods and Services, if the pool selects them.
    pub annotated: Option<&'a AnnotationSources>,
    /// The interval of endpoints without one.
    pub interval_seconds: u32,
    /// Keys that can't be read, and why.
    pub missing: &'a BTreeMap<SecretUse, String>,
}

/// Returns the jobs and targets of a pool. The same input gives the same output.
#[must_use]
pub fn discover_targets(input: &DiscoveryInput<'_>) -> DiscoveryResult {
    let mut run = DiscoveryRun::default();
    let mut monitors: Vec<&Monitor> = input.monitors.iter().map(|monitor| &**monitor).collect();
    monitors.sort_unstable_by_key(|monitor| monitor.id());
    for monitor in monitors {
        let before = run.out.faults.len();
        run.out.faults.extend_from_slice(monitor.faults());
        for endpoint in &monitor.endpoints {
            run.add_endpoint(input, monitor.id(), endpoint);
        }
        let is_broken =
            run.out.faults[before..].iter().any(|fault| fault.effect == FaultEffect::NotScraped);
        run.out.counts.applied += usize::from(!is_broken);
        run.out.counts.broken += usize::from(is_broken);
    }
    for (id, endpoint) in input.annotated.iter().flat_map(|annotated| annotated.endpoints()) {
        run.add_endpoint(input, id, endpoint);
    }
    run.out.targets.extend(std::mem::take(&mut run.targets));
    run.out
}

#[derive(Default)]
struct DiscoveryRun {
    out: DiscoveryResult,
    targets: BTreeSet<ScrapedTarget>,
    labels: LabelSet,
    scratch: RelabelScratch,
}

impl DiscoveryRun {
    fn push_exclusion(&mut self, id: &MonitorId, field: &str, why: String) {
        let (monitor, field, effect) = (id.clone(), field.to_owned(), FaultEffect::NotScraped);
        self.out.faults.push(MonitorFault { monitor, field, why, effect });
    }

    fn add_endpoint(
        &mut self,
        input: &DiscoveryInput<'_>,
        id: &MonitorId,
        add_endpoint: &MonitorEndpoint,
    ) {
        let is_missing = |(_, used): &&(String, SecretUse)| input.missing.contains_key(used);
        if let Some((field, used)) = add_endpoint.uses.iter().find(is_missing) {
            let why = input.missing.get(used).map_or("", String::as_str);
            return self.push_exclusion(id, field, format!("{used}: {why}"));
        }
        let interval = add_endpoint.interval.unwrap_or(input.interval_seconds);
        let timeout = add_endpoint.timeout.unwrap_or(TIMEOUT_SECONDS.min(interval));
        if timeout > interval {
            let why = format!("scrapeTimeout of {timeout} s exceeds the interval of {interval} s");
            return self.push_exclusion(id, &add_endpoint.at, why);
        }
        if self.out.jobs.len() == JOBS_MAX {
            let why = format!("the pool is limited to {JOBS_MAX} jobs: select fewer monitors");
            return self.push_exclusion(id, &add_endpoint.at, why);
        }
        let job = ScrapeJob {
            interval_seconds: interval,
            timeout_seconds: timeout,
            ..add_endpoint.job.clone()
        };
        let mut found = self.find_targets(input, add_endpoint, &job);
        let room = TARGETS_MAX - self.targets.len();
        let limit = add_endpoint.target_limit.and_then(|limit| usize::try_from(limit).ok());
        let count = found.targets.len();
        if limit.is_some_and(|limit| count > limit) {
            let why = format!("its {count} targets exceed its targetLimit: none is scraped");
            return self.push_exclusion(id, &add_endpoint.at, why);
        }
        if count > room {
            let why = format!(
                "the pool is limited to {TARGETS_MAX} targets: {} more are not scraped",
                count - room
            );
            self.push_exclusion(id, &add_endpoint.at, why);
            found.targets = found.targets.into_iter().take(room).collect();
        }
        if let Some(example) = found.example {
            let noun = if found.invalid == 1 { "target" } else { "targets" };
            let why = format!("{} {noun} can't be scraped: {example}", found.invalid);
            self.push_exclusion(id, &add_endpoint.rules_at, why);
        }
        // Jobs without targets are included: targets may come later, and pods then know the job.
        self.out.jobs.insert(job.name.clone(), job);
        self.targets.append(&mut found.targets);
    }

    fn find_targets(
        &mut self,
        input: &DiscoveryInput<'_>,
        endpoint: &MonitorEndpoint,
        job: &ScrapeJob,
    ) -> EndpointTargets {
        let mut found = EndpointTargets::default();
        let Self { labels, scratch, .. } = self;
        let parameters = job.params.iter().map(|(name, all)| (name.clone(), all.clone()));
        let parameters: Vec<_> = parameters.collect();
        let defaults = Defaults {
            job: &job.name,
            scheme: match job.scheme {
                Scheme::Http => millrace_scrape::Scheme::Http,
                Scheme::Https => millrace_scrape::Scheme::Https,
            },
            path: &job.path,
            parameters: &parameters,
            interval: Duration::from_secs(job.interval_seconds.into()),
            timeout: Duration::from_secs(job.timeout_seconds.into()),
            rules: &endpoint.rules,
        };
        let (cluster, reach) = (input.cluster, input.reach);
        let mut finder = Finder { cluster, sees: &endpoint.sees, reach, labels };
        finder.find_targets(&endpoint.source, &mut |labels, zone| match resolve_target(
            &defaults, labels, scratch, zone,
        ) {
            Ok(None) => {}
            Ok(Some(target)) => drop(found.targets.insert(target)),
            Err(why) => {
                found.invalid += 1;
                found.example.get_or_insert(why);
            }
        });
        found
    }
}

#[derive(Default)]
struct EndpointTargets {
    targets: BTreeSet<ScrapedTarget>,
    invalid: usize,
    example: Option<String>,
}

/// Resolves a discovered target; `None` if a rule drops it.
fn resolve_target(
    defaults: &Defaults<'_>,
    labels: &mut LabelSet,
    scratch: &mut RelabelScratch,
    zone: Option<&str>,
) -> Result<Option<ScrapedTarget>, String> {
    let resolved = millrace_scrape::resolve_target(defaults, labels, scratch);
    let Some(resolved) = resolved.map_err(|error| error.to_string())? else { return Ok(None) };
    let address = format!("{}:{}", resolved.host, resolved.port);
    let address = TargetAddress::new(address).map_err(|error| error.to_string())?;
    if address.as_str().len() > ADDRESS_BYTES_MAX {
        return Err(format!("an address has over {ADDRESS_BYTES_MAX} bytes"));
    }
    let mut all: BTreeMap<String, String> = resolved.labels.into_iter().collect();
    all.insert("job".to_owned(), resolved.job);
    all.insert("instance".to_owned(), resolved.instance);
    put_differing(defaults, labels, &mut all);
    all.retain(|_, value| !value.is_empty());
    if all.len() > LABELS_MAX {
        let count = all.len();
        return Err(format!(
            "`{}` has {count} labels: have at most {LABELS_MAX}, by targetLabels, podTargetLabels \
             and relabelings",
            address.as_str()
        ));
    }
    if let Some((name, _)) = all.iter().find(|(name, it)| name.len() + it.len() > LABEL_BYTES_MAX) {
        let name: String = name.chars().take(64).collect();
        let address = address.as_str();
        return Err(format!("`{address}`, label `{name}`: over {LABEL_BYTES_MAX} bytes"));
    }
    let (job, zone) = (defaults.job.to_owned(), zone.map(str::to_owned));
    Ok(Some(ScrapedTarget { job, address: address.as_str().to_owned(), labels: all, zone }))
}

/// Adds the labels of scrape settings that differ from the job's.
fn put_differing(defaults: &Defaults<'_>, labels: &LabelSet, all: &mut BTreeMap<String, String>) {
    let usual = [
        (SCHEME, defaults.scheme.as_str().to_owned()),
        (PATH, defaults.path.to_owned()),
        (INTERVAL, duration::render_duration(defaults.interval)),
        (TIMEOUT, duration::render_duration(defaults.timeout)),
    ];
    for (name, usual) in usual {
        let now = labels.get(name);
        // A path that rules removed is the root.
        let now = if now.is_empty() && name == PATH { "/" } else { now };
        if now != usual {
            all.insert(name.to_owned(), now.to_owned());
        }
    }
    for (label, value) in labels.iter() {
        let Some(name) = label.strip_prefix(PARAMETER) else { continue };
        let known = defaults.parameters.iter().find(|(known, _)| known == name);
        let usual = known.and_then(|(_, values)| values.first());
        if usual.is_none_or(|usual| usual != value) {
            all.insert(label.to_owned(), value.to_owned());
        }
    }
}
