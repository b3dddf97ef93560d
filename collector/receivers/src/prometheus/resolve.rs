//! From a job's settings and what a list says of a target to what is scraped: by
//! [`millrace_scrape::resolve`], whose result is bounded and told from others here. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::rules::RuledJob;
use millrace_config::{HttpUrl, Scheme, TargetAddress};
use millrace_scrape::relabel::{Labels, Scratch};
use millrace_scrape::{self as scrape, Defaults};

/// The longest labels of a target, names and values: they are kept for each, and are part of each
/// of its points.
const LABELS_BYTES_MAX: usize = 4096;

/// The label with a target's address.
const ADDRESS_LABEL: &str = "__address__";

/// What tells a target from all others: two that are equal are scraped once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resolved {
    /// The job, by its place in the settings.
    pub(super) job: usize,
    /// `job` and `instance` of its points.
    pub(super) names: (String, String),
    /// Where it is asked.
    pub(super) url: HttpUrl,
    /// Of all its points.
    pub(super) labels: Vec<(String, String)>,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
}

/// Why something of a list is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Dropped {
    /// Rules drop it.
    #[error("dropped by relabeling")]
    Relabeled,
    /// It can't be asked.
    #[error("{0}")]
    Invalid(String),
}

/// Makes targets of what a job's lists say.
pub(super) struct Resolver<'a> {
    job: usize,
    settings: &'a RuledJob,
    parameters: Vec<(String, Vec<String>)>,
    labels: Labels,
    scratch: Scratch,
}

impl<'a> Resolver<'a> {
    pub(super) fn new((job, settings): (usize, &'a RuledJob)) -> Self {
        let parameters = settings.params.iter();
        Self {
            job,
            settings,
            parameters: parameters.map(|(name, all)| (name.clone(), all.clone())).collect(),
            labels: Labels::default(),
            scratch: Scratch::default(),
        }
    }

    /// A target, whose labels take precedence over the job's. A label without a value is none.
    pub(super) fn resolve(
        &mut self,
        address: &str,
        listed: &BTreeMap<String, String>,
    ) -> Result<Resolved, Dropped> {
        let invalid = |error: &dyn std::fmt::Display| Dropped::Invalid(error.to_string());
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
        let resolved = scrape::resolve(&defaults, labels, scratch);
        let resolved = resolved.map_err(|error| invalid(&error))?.ok_or(Dropped::Relabeled)?;
        let scrape::Resolved { job: name, instance, scheme, host, port, path, .. } = resolved;
        let (labels, times) = (resolved.labels, (resolved.interval, resolved.timeout));
        let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > LABELS_BYTES_MAX {
            let said = format!(
                "`{address}` has {bytes} bytes of labels: write {LABELS_BYTES_MAX} at most"
            );
            return Err(Dropped::Invalid(said));
        }
        let scheme = match scheme {
            scrape::Scheme::Http => Scheme::Http,
            scrape::Scheme::Https => Scheme::Https,
        };
        let address = TargetAddress::new(format!("{host}:{port}"));
        let address = address.map_err(|error| invalid(&error))?;
        let url = HttpUrl::of_target(scheme, &address, &path).map_err(|error| invalid(&error))?;
        let (names, (interval, timeout)) = ((name, instance), times);
        Ok(Resolved { job: *job, names, url, labels, interval, timeout })
    }
}
