//! The newest answer of each pod, at once; pods are asked in the background.
//!
//! So hanging pods (a policy drops their packets, a node is lost) delay no reconcile. A figure
//! comes from the scrape before the present one, and carries its age. Limits: a pod is asked once
//! at a time and at most every [`FRESH`]; [`LOOKS_MAX`] scrapes at once; a pod unused for ten
//! minutes is dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::{LOOK_MAX, Look, PODS_MAX, PodSource, Sample, ScrapeError, Target};

/// An answer younger than this is not asked for again. Just under the pools' interval, so that
/// every reconcile gets a new one.
const FRESH: Duration = Duration::from_secs(8);
/// Scrapes at once: 16 of 100 pods are at most 1,600 sockets.
const LOOKS_MAX: usize = 16;
/// A scrape without an answer by now was given up: its timeout, and its wait for a turn.
const GIVEN_UP_AFTER: Duration = LOOK_MAX.saturating_mul(30);
/// A pod unused for this long is gone.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The newest answers of a slow source.
pub struct PodBoard {
    source: Arc<dyn PodSource>,
    entries: Arc<Mutex<HashMap<Target, Entry>>>,
    looks: Arc<Semaphore>,
}

/// The state of one pod.
struct Entry {
    wanted_at: Instant,
    asked_at: Option<Instant>,
    answered: bool,
    newest: Option<Result<Sample, ScrapeError>>,
}

impl Entry {
    /// Whether it is time to ask.
    fn is_due(&self, now: Instant) -> bool {
        let least = if self.answered { FRESH } else { GIVEN_UP_AFTER };
        self.asked_at.is_none_or(|asked| now.duration_since(asked) >= least)
    }
}

impl PodBoard {
    /// A board in front of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn PodSource>) -> Self {
        Self { source, entries: Arc::default(), looks: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }

    /// The cached answers, and whom to ask.
    fn newest(&self, targets: &[Target]) -> (Look, Vec<Target>) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| now.duration_since(entry.wanted_at) < FORGOTTEN_AFTER);
        let (mut look, mut due) = (Look::new(), Vec::new());
        for target in targets {
            let entry = entries.entry(target.clone()).or_insert_with(|| Entry {
                wanted_at: now,
                asked_at: None,
                answered: false,
                newest: None,
            });
            entry.wanted_at = now;
            if entry.is_due(now) {
                (entry.asked_at, entry.answered) = (Some(now), false);
                due.push(target.clone());
            }
            look.extend(entry.newest.clone().map(|newest| (target.pod.clone(), newest)));
        }
        (look, due)
    }

    /// Asks, behind the caller's back.
    fn ask(&self, due: Vec<Target>, now: Timestamp) {
        let (source, looks) = (self.source.clone(), self.looks.clone());
        let entries = self.entries.clone();
        tokio::spawn(async move {
            let Ok(_permit) = looks.acquire().await else { return };
            let mut look = source.look(&due, now).await;
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            for target in due {
                if let Some(entry) = entries.get_mut(&target) {
                    entry.answered = true;
                    entry.newest = look.remove(&target.pod).or(entry.newest.take());
                }
            }
        });
    }
}

impl PodSource for PodBoard {
    fn look<'a>(&'a self, targets: &'a [Target], now: Timestamp) -> BoxFuture<'a, Look> {
        let (look, due) = self.newest(targets);
        // Each scrape takes one of the places.
        for some in due.chunks(PODS_MAX) {
            self.ask(some.to_vec(), now);
        }
        async move { look }.boxed()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/pods/board.rs"]
mod tests;
