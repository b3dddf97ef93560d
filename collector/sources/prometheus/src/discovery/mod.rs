//! The sources of targets: the settings, files, HTTP servers, and this pod's share.
//!
//! Each source has a task that sends its targets once they are read, and whenever they change. A
//! source that can't be read retains its last targets.
//!
//! # Limits
//! A list has [`TARGET_LIST_BYTES_MAX`](millrace_config::TARGET_LIST_BYTES_MAX); a job's patterns
//! match [`files::FILES_MAX`] files. Invalid targets are counted, and one example is shown.

pub(super) mod files;
pub(super) mod http;
pub(super) mod share;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{ListError, TARGETS_MAX, TargetGroup};

use super::connect::ConnectError;
use super::resolve::{DropReason, Resolver, ScrapeTarget};
use super::rules::RuledJob;
use super::target_status::{DroppedCounts, ListView, truncate_error};
use share::SharePlan;

/// The labels with a target's file and with its list's URL.
pub(super) const FILE_LABEL: &str = "__meta_filepath";
pub(super) const URL_LABEL: &str = "__meta_url";

/// The reason why a list can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("it can't be read: {0}")]
    Io(#[from] std::io::Error),
    #[error("it is longer than {0} bytes")]
    TooLong(usize),
    #[error("{0}")]
    List(#[from] ListError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("cannot read the answer: {0}")]
    Http(#[from] hyper::Error),
    #[error("no complete answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("unsupported content type `{0}`: it must be application/json")]
    Type(String),
    #[error("more than {0} files match: narrow the pattern, or merge lists")]
    TooMany(usize),
}

/// The targets of a source.
#[derive(Debug, Default)]
pub(super) struct TargetSource {
    pub(super) job: usize,
    pub(super) listed: TargetList,
    pub(super) lists: Vec<ListView>,
}

/// The targets of a list, and counts of the others.
#[derive(Debug, Clone, Default)]
pub(super) struct TargetList {
    pub(super) targets: Vec<Arc<ScrapeTarget>>,
    pub(super) dropped: DroppedCounts,
}

impl TargetList {
    /// Resolves the targets of groups. Their labels override `base`; `label` is set to their
    /// `source`.
    pub(super) fn new(
        job: (usize, &RuledJob),
        base: &BTreeMap<String, String>,
        groups: &[TargetGroup],
        (label, source): (&str, &str),
    ) -> Self {
        let (mut listed, mut resolver) = (Self::default(), Resolver::new(job));
        for group in groups {
            let mut labels = base.clone();
            let own = group.labels.iter();
            labels.extend(
                own.map(|(name, value)| (name.as_str().to_owned(), value.as_str().to_owned())),
            );
            labels.insert(label.to_owned(), source.to_owned());
            for address in &group.targets {
                if listed.targets.len() == TARGETS_MAX {
                    listed.dropped.over_limit += 1;
                    continue;
                }
                listed.add_resolved(resolver.resolve_target(address.as_str(), &labels));
            }
        }
        listed
    }

    pub(super) fn add_resolved(&mut self, resolved: Result<ScrapeTarget, DropReason>) {
        match resolved {
            Ok(target) => self.targets.push(Arc::new(target)),
            Err(DropReason::Relabeled) => self.dropped.relabeled += 1,
            Err(DropReason::Invalid(reason)) => {
                self.dropped.invalid += 1;
                if self.dropped.example.is_empty() {
                    self.dropped.example = truncate_error(reason);
                }
            }
        }
    }

    /// Adds another list's targets and counts.
    pub(super) fn add_list(&mut self, other: &Self) {
        self.targets.extend_from_slice(&other.targets);
        self.dropped.add_counts(&other.dropped);
    }
}

/// A change of the targets.
#[derive(Debug)]
pub(super) enum TargetUpdate {
    /// The new targets of a source.
    Targets(SourceUpdate),
    /// A new version of the share.
    Share(Box<SharePlan>),
}

/// All targets of a source, which replace its former ones.
#[derive(Debug)]
pub(super) struct SourceUpdate {
    pub(super) source: usize,
    pub(super) listed: TargetList,
    pub(super) lists: Vec<ListView>,
}
