//! A target, whether it answers, and its last scrape.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::resolve::ScrapeTarget;

/// Whether a target answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TargetState {
    /// The target has not been scraped yet.
    #[default]
    Unknown,
    /// The pipeline did not accept the points of the last scrape: the target may be up or down.
    NotAccepted,
    /// The last scrape succeeded.
    Up,
    /// The last scrape failed.
    Down,
}

impl TargetState {
    /// Returns the state's name in the JSON.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NotAccepted => "notAccepted",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// The last scrape of a target.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LastScrape {
    /// The target's state after this scrape.
    pub state: TargetState,
    /// The time at which it began, in milliseconds since 1970; 0 before the first scrape.
    pub began_unix_millis: u64,
    /// Its duration in seconds.
    pub duration_seconds: f64,
    /// The number of its samples.
    pub samples: u64,
    /// The number of samples of the last successful scrape.
    pub good_samples: Option<u64>,
    /// The number of series in the target's memory.
    pub series: u64,
    /// The time at which the next scrape is due, in milliseconds since 1970.
    pub next_unix_millis: u64,
    /// The reason why it failed or was abandoned; empty otherwise.
    pub error: String,
}

/// A target with its last scrape.
#[derive(Debug)]
pub(super) struct TargetRow {
    pub(super) target: Arc<ScrapeTarget>,
    last: Mutex<LastScrape>,
}

impl TargetRow {
    pub(super) fn new(target: Arc<ScrapeTarget>) -> Self {
        Self { target, last: Mutex::default() }
    }

    /// Changes the state of the last scrape.
    pub(super) fn update_last(&self, change: impl FnOnce(&mut LastScrape)) {
        change(&mut self.lock_last());
    }

    pub(super) fn state(&self) -> TargetState {
        self.lock_last().state
    }

    pub(super) fn last_scrape(&self) -> LastScrape {
        self.lock_last().clone()
    }

    fn lock_last(&self) -> MutexGuard<'_, LastScrape> {
        // Each change leaves complete values behind.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
