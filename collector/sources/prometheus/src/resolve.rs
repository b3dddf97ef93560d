//! Resolves a job's settings and a list's entry to a target, with [`millrace_scrape::resolve`];
//! here the result is bounded and gets its identity. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rules::RuledJob;
use millrace_config::{HttpUrl, Scheme, TargetAddress};
use millrace_scrape::relabel::{LabelSet, RelabelScratch};
use millrace_scrape::{self as scrape, Defaults};

/// The most bytes of a target's labels, names and values: they are stored for each target and are
/// part of each of its points.
const LABELS_BYTES_MAX: usize = 4096;

/// The label with a target's address.
const ADDRESS_LABEL: &str = "__address__";

/// The identity of a target: equal targets are scraped once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ScrapeTarget {
    /// The job's index in the settings.
    pub(super) job: usize,
    /// `job` and `instance` of its points.
    pub(super) names: (String, String),
    /// The URL that is scraped.
    pub(super) url: HttpUrl,
    /// The labels of all its points.
    pub(super) labels: Vec<(String, String)>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// The reason why a list's entry is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum DropReason {
    /// Rules drop it.
    #[error("dropped by relabeling")]
    Relabeled,
    /// Its address or labels are invalid.
    #[error("{0}")]
    Invalid(String),
}

/// Resolves the entries of a job's lists to targets.
pub(super) struct Resolver<'a> {
    job: usize,
    settings: &'a RuledJob,
    parameters: Vec<(String, Vec<String>)>,
    labels: LabelSet,
    scratch: RelabelScratch,
}

impl<'a> Resolver<'a> {
    pub(super) fn new((job, settings): (usize, &'a RuledJob)) -> Self {
        let parameters = settings.params.iter();
        Self {
            job,
            settings,
            parameters: parameters.map(|(name, all)| (name.clone(), all.clone())).collect(),
            labels: LabelSet::default(),
            scratch: RelabelScratch::default(),
        }
    }

    /// Resolves a target. Its labels override the job's; labels with empty values are dropped.
    pub(super) fn resolve_target(
        &mut self,
        address: &str,
        listed: &BTreeMap<String, String>,
    ) -> Result<ScrapeTarget, DropReason> {
        let invalid = |error: &dyn std::fmt::Display| DropReason::Invalid(error.to_string());
        let Self { job, settings, parameters, labels, scratch } = self;
        labels.clear();
        labels.push(ADDRESS_LABEL, address);
        for (name, value) in listed.iter().filter(|(name, _)| *name != ADDRESS_LABEL) {
            labels.push(name, value);
        }
        for (name, value) in settings.labels.iter().filter(|(name, _)| !listed.contains_key(*name))
        {
            labels.push(name, value);
        }
        let defaults = Defaults {
            job: &settings.name,
            scheme: match settings.scheme {
                Scheme::Http => scrape::Scheme::Http,
                Scheme::Https => scrape::Scheme::Https,
            },
            path: &settings.path,
            parameters,
            interval: Duration::from_secs(settings.interval_seconds.into()),
            timeout: Duration::from_secs(settings.timeout_seconds.into()),
            rules: &settings.rules.targets,
        };
        let resolved = scrape::resolve_target(&defaults, labels, scratch);
        let resolved = resolved.map_err(|error| invalid(&error))?.ok_or(DropReason::Relabeled)?;
        let scrape::ResolvedTarget { job: name, instance, scheme, host, port, path, .. } = resolved;
        let (labels, times) = (resolved.labels, (resolved.interval, resolved.timeout));
        let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > LABELS_BYTES_MAX {
            let reason =
                format!("`{address}` has {bytes} bytes of labels: use at most {LABELS_BYTES_MAX}");
            return Err(DropReason::Invalid(reason));
        }
        let scheme = match scheme {
            scrape::Scheme::Http => Scheme::Http,
            scrape::Scheme::Https => Scheme::Https,
        };
        let address = TargetAddress::new(format!("{host}:{port}"));
        let address = address.map_err(|error| invalid(&error))?;
        let url = HttpUrl::of_target(scheme, &address, &path).map_err(|error| invalid(&error))?;
        let (names, (interval, timeout)) = ((name, instance), times);
        Ok(ScrapeTarget { job: *job, names, url, labels, interval, timeout })
    }
}
