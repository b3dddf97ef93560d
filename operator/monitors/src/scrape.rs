//! From monitors and a cluster to what a pool scrapes.
//!
//! # Limits
//! [`JOBS_MAX`] jobs and [`TARGETS_MAX`] targets of a pool: what is over is left out, with a fault
//! of its monitor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{Scheme, ScrapeJob, TargetAddress};
use millrace_scrape::relabel::{Labels, Scratch};
use millrace_scrape::{Defaults, duration};
use millrace_shares::{ADDRESS_BYTES_MAX, LABEL_BYTES_MAX, LABELS_MAX};

use crate::annotations::Annotated;
use crate::cluster::Cluster;
use crate::endpoint::Endpoint;
use crate::meta::Finder;
use crate::monitor::Monitor;
use crate::scraped::{Effect, Fault, MonitorId, Scraped, ScrapedTarget};
use crate::secrets::SecretUse;
use crate::selector::Namespaces;

/// Most jobs of a pool: their settings are in pods' memory, and an endpoint of a monitor is one.
pub const JOBS_MAX: usize = 2_000;

/// Most targets of a pool: as many as sharing out was tried with.
pub const TARGETS_MAX: usize = 100_000;

/// Prometheus' own time-out, where a monitor names none.
const TIMEOUT_SECONDS: u32 = 10;

const SCHEME: &str = "__scheme__";
const PATH: &str = "__metrics_path__";
const INTERVAL: &str = "__scrape_interval__";
const TIMEOUT: &str = "__scrape_timeout__";
const PARAMETER: &str = "__param_";

/// What a pool scrapes by.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The cluster.
    pub cluster: &'a Cluster,
    /// Namespaces that the pool may look into, whatever its monitors say.
    pub reach: &'a Namespaces,
    /// The monitors that the pool selects.
    pub monitors: &'a [Arc<Monitor>],
    /// Annotated pods and Services, if the pool selects them.
    pub annotated: Option<&'a Annotated>,
    /// The interval of endpoints that name none.
    pub interval_seconds: u32,
    /// Keys that can't be read, and why.
    pub missing: &'a BTreeMap<SecretUse, String>,
}

/// What a pool scrapes. The same input gives the same output.
#[must_use]
pub fn scrape(input: &Input<'_>) -> Scraped {
    let mut run = Run::default();
    let mut monitors: Vec<&Monitor> = input.monitors.iter().map(|monitor| &**monitor).collect();
    monitors.sort_unstable_by_key(|monitor| monitor.id());
    for monitor in monitors {
        let before = run.out.faults.len();
        run.out.faults.extend_from_slice(monitor.faults());
        for endpoint in &monitor.endpoints {
            run.endpoint(input, monitor.id(), endpoint);
        }
        let is_broken =
            run.out.faults[before..].iter().any(|fault| fault.effect == Effect::LeftOut);
        run.out.counts.taken += usize::from(!is_broken);
        run.out.counts.broken += usize::from(is_broken);
    }
    for (id, endpoint) in input.annotated.iter().flat_map(|annotated| annotated.endpoints()) {
        run.endpoint(input, id, endpoint);
    }
    run.out.targets.extend(std::mem::take(&mut run.targets));
    run.out
}

#[derive(Default)]
struct Run {
    out: Scraped,
    targets: BTreeSet<ScrapedTarget>,
    labels: Labels,
    scratch: Scratch,
}

impl Run {
    fn leave_out(&mut self, id: &MonitorId, field: &str, why: String) {
        let (monitor, field, effect) = (id.clone(), field.to_owned(), Effect::LeftOut);
        self.out.faults.push(Fault { monitor, field, why, effect });
    }

    fn endpoint(&mut self, input: &Input<'_>, id: &MonitorId, endpoint: &Endpoint) {
        let is_missing = |(_, used): &&(String, SecretUse)| input.missing.contains_key(used);
        if let Some((field, used)) = endpoint.uses.iter().find(is_missing) {
            let why = input.missing.get(used).map_or("", String::as_str);
            return self.leave_out(id, field, format!("{used}: {why}"));
        }
        let interval = endpoint.interval.unwrap_or(input.interval_seconds);
        let timeout = endpoint.timeout.unwrap_or(TIMEOUT_SECONDS.min(interval));
        if timeout > interval {
            let why = format!("scrapeTimeout of {timeout} s is over the interval of {interval} s");
            return self.leave_out(id, &endpoint.at, why);
        }
        if self.out.jobs.len() == JOBS_MAX {
            let why = format!("the pool has {JOBS_MAX} jobs: select fewer monitors");
            return self.leave_out(id, &endpoint.at, why);
        }
        let job = ScrapeJob {
            interval_seconds: interval,
            timeout_seconds: timeout,
            ..endpoint.job.clone()
        };
        let mut found = self.found(input, endpoint, &job);
        let room = TARGETS_MAX - self.targets.len();
        let limit = endpoint.target_limit.and_then(|limit| usize::try_from(limit).ok());
        let count = found.targets.len();
        if limit.is_some_and(|limit| count > limit) {
            let why = format!("it has {count} targets, over its targetLimit: none is scraped");
            return self.leave_out(id, &endpoint.at, why);
        }
        if count > room {
            let why = format!("the pool has {TARGETS_MAX} targets: {} more", count - room);
            self.leave_out(id, &endpoint.at, why);
            found.targets = found.targets.into_iter().take(room).collect();
        }
        if let Some(example) = found.example {
            let why = format!("{} targets can't be scraped: {example}", found.invalid);
            self.leave_out(id, &endpoint.rules_at, why);
        }
        // Also without targets: they may come, and pods know the job then.
        self.out.jobs.insert(job.name.clone(), job);
        self.targets.append(&mut found.targets);
    }

    fn found(&mut self, input: &Input<'_>, endpoint: &Endpoint, job: &ScrapeJob) -> Found {
        let mut found = Found::default();
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
        finder.find(&endpoint.source, &mut |labels, zone| match target(
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
struct Found {
    targets: BTreeSet<ScrapedTarget>,
    invalid: usize,
    example: Option<String>,
}

/// A target of what was discovered. None: a rule drops it.
fn target(
    defaults: &Defaults<'_>,
    labels: &mut Labels,
    scratch: &mut Scratch,
    zone: Option<&str>,
) -> Result<Option<ScrapedTarget>, String> {
    let resolved = millrace_scrape::resolve(defaults, labels, scratch);
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

/// What says how a target is asked, where it isn't as the job's settings say.
fn put_differing(defaults: &Defaults<'_>, labels: &Labels, all: &mut BTreeMap<String, String>) {
    let usual = [
        (SCHEME, defaults.scheme.as_str().to_owned()),
        (PATH, defaults.path.to_owned()),
        (INTERVAL, duration::text(defaults.interval)),
        (TIMEOUT, duration::text(defaults.timeout)),
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
