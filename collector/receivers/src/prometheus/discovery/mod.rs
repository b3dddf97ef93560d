//! Where targets come from: the settings, files, HTTP servers, and this pod's share.
//!
//! Each source has a task that says what it has, once it is read and whenever that changes. A
//! source that can't be read keeps what it had.
//!
//! # Limits
//! A list has [`TARGET_LIST_BYTES_MAX`](millrace_config::TARGET_LIST_BYTES_MAX); a job's patterns
//! match [`files::FILES_MAX`] files. What isn't a target is counted, and one of it is shown.

pub(super) mod files;
pub(super) mod http;
pub(super) mod share;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millrace_config::{ListError, TARGETS_MAX, TargetGroup};

use super::board::{DroppedCounts, ListView, shown};
use super::connect::ConnectError;
use super::resolve::{Dropped, Resolved, Resolver};
use super::rules::RuledJob;
use share::Plan;

/// The label with the file that a target is from, and that with the URL.
pub(super) const FILE_LABEL: &str = "__meta_filepath";
pub(super) const URL_LABEL: &str = "__meta_url";

/// Why a list can't be read.
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
    #[error("its answer can't be read: {0}")]
    Http(#[from] hyper::Error),
    #[error("it took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("its answer is of the type `{0}`: it must be application/json")]
    Type(String),
    #[error("more than {0} files match: name fewer, or join lists")]
    TooMany(usize),
}

/// What a list has.
#[derive(Debug, Clone, Default)]
pub(super) struct Listed {
    pub(super) targets: Vec<Arc<Resolved>>,
    pub(super) dropped: DroppedCounts,
}

impl Listed {
    /// The targets of groups, each with `base` beneath its labels, and with one more that says
    /// where it is from.
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
                    listed.dropped.over += 1;
                    continue;
                }
                listed.take(resolver.resolve(address.as_str(), &labels));
            }
        }
        listed
    }

    pub(super) fn take(&mut self, resolved: Result<Resolved, Dropped>) {
        match resolved {
            Ok(target) => self.targets.push(Arc::new(target)),
            Err(Dropped::Relabeled) => self.dropped.relabeled += 1,
            Err(Dropped::Invalid(said)) => {
                self.dropped.invalid += 1;
                if self.dropped.example.is_empty() {
                    self.dropped.example = shown(said);
                }
            }
        }
    }

    /// Adds those of another list.
    pub(super) fn add(&mut self, other: &Self) {
        self.targets.extend_from_slice(&other.targets);
        self.dropped.add(&other.dropped);
    }
}

/// What is new.
#[derive(Debug)]
pub(super) enum News {
    /// Of a source.
    Listed(Update),
    /// Another version of the share.
    Share(Box<Plan>),
}

/// What a source has now, instead of what it had.
#[derive(Debug)]
pub(super) struct Update {
    pub(super) source: usize,
    pub(super) listed: Listed,
    pub(super) lists: Vec<ListView>,
}
