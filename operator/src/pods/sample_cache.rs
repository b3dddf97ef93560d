//! Returns the newest answer of each pod at once; pods are queried in the background.
//!
//! So hanging pods (a policy drops their packets, a node is lost) delay no reconcile. A figure
//! comes from the previous scrape, and carries its age. Limits: a pod is queried once at a time and
//! at most every [`FRESH`]; [`SCRAPES_MAX`] scrapes at once; a pod unused for ten minutes is
//! dropped.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use jiff::Timestamp;
use tokio::sync::Semaphore;

use super::{PODS_MAX, PodSample, PodSource, PodTarget, SCRAPE_MAX, ScrapeError, ScrapeResults};

/// An answer younger than this is not requested again. It is just under the pools' interval, so
/// that every reconcile gets a new one.
const FRESH: Duration = Duration::from_secs(8);
/// Maximum number of scrapes at once: 16 of 100 pods are at most 1,600 sockets.
const SCRAPES_MAX: usize = 16;
/// A scrape without an answer by now was abandoned: its timeout, and its wait for a permit.
const ABANDONED_AFTER: Duration = SCRAPE_MAX.saturating_mul(30);
/// A pod unused for this long no longer exists.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// The newest answers of a slow source.
pub struct PodSampleCache {
    source: Arc<dyn PodSource>,
    entries: Arc<Mutex<HashMap<PodTarget, SampleEntry>>>,
    scrapes: Arc<Semaphore>,
}

struct SampleEntry {
    last_used: Instant,
    requested_at: Option<Instant>,
    answered: bool,
    newest: Option<Result<Arc<PodSample>, ScrapeError>>,
}

impl SampleEntry {
    fn is_due(&self, now: Instant) -> bool {
        let least = if self.answered { FRESH } else { ABANDONED_AFTER };
        self.requested_at.is_none_or(|requested| now.duration_since(requested) >= least)
    }
}

impl PodSampleCache {
    /// Creates a board in front of `source`.
    #[must_use]
    pub fn new(source: Arc<dyn PodSource>) -> Self {
        Self { source, entries: Arc::default(), scrapes: Arc::new(Semaphore::new(SCRAPES_MAX)) }
    }

    /// Returns the cached answers, and the pods to query.
    fn newest_and_due(&self, targets: &[PodTarget]) -> (ScrapeResults, Vec<PodTarget>) {
        let now = Instant::now();
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| now.duration_since(entry.last_used) < FORGOTTEN_AFTER);
        let (mut results, mut due) = (ScrapeResults::new(), Vec::new());
        for target in targets {
            let entry = entries.entry(target.clone()).or_insert_with(|| SampleEntry {
                last_used: now,
                requested_at: None,
                answered: false,
                newest: None,
            });
            entry.last_used = now;
            if entry.is_due(now) {
                (entry.requested_at, entry.answered) = (Some(now), false);
                due.push(target.clone());
            }
            results.extend(entry.newest.clone().map(|newest| (target.pod.clone(), newest)));
        }
        (results, due)
    }

    /// Queries pods in the background.
    fn scrape_in_background(&self, due: Vec<PodTarget>, now: Timestamp) {
        let (source, permits) = (self.source.clone(), self.scrapes.clone());
        let entries = self.entries.clone();
        tokio::spawn(async move {
            let Ok(_permit) = permits.acquire().await else { return };
            let mut results = source.scrape_pods(&due, now).await;
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            for target in due {
                if let Some(entry) = entries.get_mut(&target) {
                    entry.answered = true;
                    entry.newest = results.remove(&target.pod).or(entry.newest.take());
                }
            }
        });
    }
}

impl PodSource for PodSampleCache {
    fn scrape_pods<'a>(
        &'a self,
        targets: &'a [PodTarget],
        now: Timestamp,
    ) -> BoxFuture<'a, ScrapeResults> {
        let (results, due) = self.newest_and_due(targets);
        // Each scrape takes one permit.
        for some in due.chunks(PODS_MAX) {
            self.scrape_in_background(some.to_vec(), now);
        }
        async move { results }.boxed()
    }
}

#[cfg(test)]
mod tests;
