//! From a job's settings and what a list says of a target to what is scraped. Pure.

use std::collections::BTreeMap;
use std::fmt;

use millrace_config::{HttpUrl, ScrapeJob, TargetAddress, path_and_query};

/// The longest labels of a target, names and values: they are kept for each, and are part of each
/// of its points.
const LABELS_BYTES_MAX: usize = 4096;

/// The label that names the path.
const PATH_LABEL: &str = "__metrics_path__";

/// What tells a target from all others: two that are equal are scraped once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Resolved {
    /// The job, by its place in the settings.
    pub(super) job: usize,
    pub(super) address: TargetAddress,
    /// Where it is asked.
    pub(super) url: HttpUrl,
    /// Of all its points.
    pub(super) labels: BTreeMap<String, String>,
}

/// Why something of a list is no target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Dropped {
    /// It can't be asked.
    #[error("{0}")]
    Invalid(String),
}

impl Resolved {
    /// A target of a list, whose labels take precedence over the job's.
    pub(super) fn of_list(
        (job, settings): (usize, &ScrapeJob),
        address: &str,
        listed: &BTreeMap<String, String>,
    ) -> Result<Self, Dropped> {
        let mut labels = settings.labels.clone();
        let mut path = settings.path.clone();
        let invalid = |error: &dyn fmt::Display| Dropped::Invalid(error.to_string());
        for (name, value) in listed {
            match name.as_str() {
                PATH_LABEL => path.clone_from(value),
                name if name.starts_with("__") => {}
                // A label without a value is none.
                name if value.is_empty() => drop(labels.remove(name)),
                name => drop(labels.insert(name.to_owned(), value.clone())),
            }
        }
        let address = TargetAddress::new(address);
        let address = address.map_err(|error| invalid(&error))?;
        let path = path_and_query(&path, &settings.params);
        let url = HttpUrl::of_target(settings.scheme, &address, &path);
        let url = url.map_err(|error| invalid(&error))?;
        let bytes: usize = labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        if bytes > LABELS_BYTES_MAX {
            let said = format!(
                "`{address}` has {bytes} bytes of labels: write {LABELS_BYTES_MAX} at most"
            );
            return Err(Dropped::Invalid(said));
        }
        Ok(Self { job, address, url, labels })
    }
}
