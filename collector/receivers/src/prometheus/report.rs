//! What is told of this pod's share: to the operator, which version is taken up and what each
//! entry costs; to people, where that stands.
//!
//! # Limits
//! As many entries as the share has. One that is scraped has an error of
//! [`ERROR_CHARACTERS_MAX`](super::ERROR_CHARACTERS_MAX) characters.

use std::sync::Arc;

use millrace_shares::TargetId;

use super::board::{Row, TargetState};

/// Where a share stands, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareView {
    /// The newest version that is being taken up.
    pub read: Option<u64>,
    /// The version that is taken up: what isn't in it is scraped no more.
    pub version: Option<u64>,
    /// How many entries it has.
    pub entries: u64,
    /// Why nothing newer may be known; empty if all is well.
    pub fault: String,
}

/// What the operator is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShareReport {
    /// The version that is taken up.
    pub version: Option<u64>,
    /// Entries of the newest version.
    pub targets: Vec<(TargetId, EntryReport)>,
    /// Targets whose last scrape succeeded. Those of a list are counted one by one.
    pub up: u64,
    /// Targets whose last scrape failed, and entries that can't be used.
    pub down: u64,
}

/// What has become of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryReport {
    /// Samples of the last scrape that succeeded, or the sum of them of a list's targets; 0 where
    /// rules drop it; none where there was no such scrape.
    pub samples: Option<u64>,
    /// Whether the last scrape succeeded, or a list could be read; none before the first. True
    /// where rules drop it: nothing is wrong with it.
    pub up: Option<bool>,
    /// Why not; empty if there is nothing to say.
    pub error: String,
}

/// An entry and where to look for what has become of it.
#[derive(Debug, Clone)]
pub(super) enum Reported {
    /// A target; none: its task is about to begin.
    Target(Option<Arc<Row>>),
    /// A list of targets, and why it can't be read: empty if it wasn't yet.
    List(Vec<Arc<Row>>, Option<String>),
    /// Rules drop it.
    Dropped,
    /// It can't be used.
    Fault(String),
}

/// What is known of a share.
#[derive(Debug, Clone, Default)]
pub(super) struct ShareState {
    pub(super) read: Option<u64>,
    pub(super) version: Option<u64>,
    pub(super) entries: Arc<Vec<(TargetId, Reported)>>,
    pub(super) fault: String,
}

/// How far a share is taken up and told.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Progress {
    pub(super) read: Option<u64>,
    /// Whether what was read has no entry.
    pub(super) is_empty: bool,
    pub(super) version: Option<u64>,
    pub(super) told: Option<u64>,
}

impl Progress {
    /// Whether nothing of the share is scraped any more.
    pub(super) fn is_over(&self) -> bool {
        self.read.is_none() || (self.is_empty && self.version == self.read)
    }

    pub(super) fn is_told(&self) -> bool {
        self.told == self.version
    }
}

impl ShareState {
    pub(super) fn view(&self) -> ShareView {
        let Self { read, version, entries, fault } = self;
        let entries = entries.len() as u64;
        ShareView { read: *read, version: *version, entries, fault: fault.clone() }
    }

    pub(super) fn report(&self) -> ShareReport {
        let mut report = ShareReport { version: self.version, ..ShareReport::default() };
        for (id, entry) in self.entries.iter() {
            let entry = report.entry(entry);
            report.targets.push((*id, entry));
        }
        report
    }
}

impl ShareReport {
    /// What is told of an entry, whose targets are counted.
    fn entry(&mut self, entry: &Reported) -> EntryReport {
        match entry {
            Reported::Target(None) => EntryReport::default(),
            Reported::Target(Some(row)) => self.row(row),
            Reported::Dropped => {
                EntryReport { samples: Some(0), up: Some(true), ..EntryReport::default() }
            }
            Reported::Fault(error) => {
                self.down += 1;
                EntryReport { samples: None, up: Some(false), error: error.clone() }
            }
            Reported::List(rows, error) => {
                let up = match error.as_deref() {
                    None => Some(true),
                    Some("") => None,
                    Some(_) => Some(false),
                };
                let mut all = EntryReport { up, ..EntryReport::default() };
                for row in rows {
                    let one = self.row(row);
                    all.samples = match (all.samples, one.samples) {
                        (Some(sum), Some(samples)) => Some(sum.saturating_add(samples)),
                        (sum, samples) => sum.or(samples),
                    };
                    if all.error.is_empty() {
                        all.error = one.error;
                    }
                }
                if let Some(error) = error {
                    self.down += u64::from(rows.is_empty() && !error.is_empty());
                    all.error.clone_from(error);
                }
                all
            }
        }
    }

    fn row(&mut self, row: &Row) -> EntryReport {
        let last = row.last();
        self.up += u64::from(last.state == TargetState::Up);
        self.down += u64::from(last.state == TargetState::Down);
        let up = match last.state {
            TargetState::Up => Some(true),
            TargetState::Down => Some(false),
            TargetState::Unknown => None,
        };
        EntryReport { samples: last.good_samples, up, error: last.error }
    }
}
