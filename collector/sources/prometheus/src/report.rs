//! The reports of this pod's share: for the operator, the applied version and the cost of each
//! entry; for people, the state of the share.
//!
//! # Limits
//! A report has as many entries as the share. The error of a scraped entry has
//! [`ERROR_CHARACTERS_MAX`](super::ERROR_CHARACTERS_MAX) characters.

use std::sync::Arc;

use millrace_share_documents::TargetId;

use super::target_row::{TargetRow, TargetState};

/// The state of the share, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShareView {
    /// The newest version that was read.
    pub read: Option<u64>,
    /// The version that was applied: targets that it doesn't contain are no longer scraped.
    pub version: Option<u64>,
    /// The number of its entries.
    pub entries: u64,
    /// The reason why newer versions may be missing; empty if there is none.
    pub fault: String,
}

/// The report for the operator.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShareReport {
    /// The version that was applied.
    pub version: Option<u64>,
    /// The entries of the newest version.
    pub targets: Vec<(TargetId, EntryReport)>,
    /// Targets whose last scrape succeeded. A list counts each of its targets.
    pub up: u64,
    /// Targets whose last scrape failed, and invalid entries.
    pub down: u64,
}

/// The state of an entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntryReport {
    /// The samples of the last successful scrape, for a list the sum over its targets; 0 if rules
    /// drop the entry; `None` before the first successful scrape.
    pub samples: Option<u64>,
    /// Whether the last scrape, or the read of a list, succeeded; `None` before the first. An entry
    /// that rules drop counts as up: it has no fault.
    pub up: Option<bool>,
    /// The reason why it isn't up; empty if there is none.
    pub error: String,
}

/// An entry with the rows that have its state.
#[derive(Debug, Clone)]
pub(super) enum EntryStatus {
    /// A target; `None` if its task has yet to start.
    Target(Option<Arc<TargetRow>>),
    /// A list of targets, and the reason why it can't be read: empty if it wasn't read yet.
    List(Vec<Arc<TargetRow>>, Option<String>),
    /// Rules drop the entry.
    Dropped,
    /// The entry is invalid.
    Fault(String),
}

/// The state of a share.
#[derive(Debug, Clone, Default)]
pub(super) struct ShareState {
    pub(super) read: Option<u64>,
    pub(super) version: Option<u64>,
    pub(super) entries: Arc<Vec<(TargetId, EntryStatus)>>,
    pub(super) fault: String,
}

/// The versions of the share that were read, applied and reported.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ShareProgress {
    pub(super) read: Option<u64>,
    /// Whether the version that was read has no entry.
    pub(super) is_empty: bool,
    pub(super) version: Option<u64>,
    pub(super) reported: Option<u64>,
}

impl ShareProgress {
    /// Whether no target of the share is scraped.
    pub(super) fn is_released(&self) -> bool {
        self.read.is_none() || (self.is_empty && self.version == self.read)
    }

    pub(super) fn is_reported(&self) -> bool {
        self.reported == self.version
    }
}

impl ShareState {
    pub(super) fn to_view(&self) -> ShareView {
        let Self { read, version, entries, fault } = self;
        let entries = entries.len() as u64;
        ShareView { read: *read, version: *version, entries, fault: fault.clone() }
    }

    pub(super) fn to_report(&self) -> ShareReport {
        let mut report = ShareReport { version: self.version, ..ShareReport::default() };
        for (id, entry) in self.entries.iter() {
            let entry = report.entry_report(entry);
            report.targets.push((*id, entry));
        }
        report
    }
}

impl ShareReport {
    /// Reports an entry, and counts its targets.
    fn entry_report(&mut self, entry_report: &EntryStatus) -> EntryReport {
        match entry_report {
            EntryStatus::Target(None) => EntryReport::default(),
            EntryStatus::Target(Some(row)) => self.row_report(row),
            EntryStatus::Dropped => {
                EntryReport { samples: Some(0), up: Some(true), ..EntryReport::default() }
            }
            EntryStatus::Fault(error) => {
                self.down += 1;
                EntryReport { samples: None, up: Some(false), error: error.clone() }
            }
            EntryStatus::List(rows, error) => {
                let up = match error.as_deref() {
                    None => Some(true),
                    Some("") => None,
                    Some(_) => Some(false),
                };
                let mut all = EntryReport { up, ..EntryReport::default() };
                for row in rows {
                    let one = self.row_report(row);
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

    fn row_report(&mut self, row_report: &TargetRow) -> EntryReport {
        let last = row_report.last_scrape();
        self.up += u64::from(last.state == TargetState::Up);
        self.down += u64::from(last.state == TargetState::Down);
        let up = match last.state {
            TargetState::Up => Some(true),
            TargetState::Down => Some(false),
            TargetState::Unknown | TargetState::NotAccepted => None,
        };
        EntryReport { samples: last.good_samples, up, error: last.error }
    }
}
