//! What all threads of a run share: the clock, the settings, and the few figures that are shown
//! while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::watch;

use crate::watches::Changes;
use crate::wire::Access;
use crate::workload::Terms;

/// Nought means "never" where times are kept, so a run begins a little after it.
const FIRST_NANOSECOND: u64 = 1;

/// What is shown while a run goes on. Approximate: threads add to it now and then.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    ended: AtomicU64,
    failed: AtomicU64,
    watches_fired: AtomicU64,
}

impl Progress {
    pub(crate) fn add(&self, ended: u64, failed: u64) {
        self.ended.fetch_add(ended, Ordering::Relaxed);
        if failed > 0 {
            self.failed.fetch_add(failed, Ordering::Relaxed);
        }
    }

    pub(crate) fn watch_fired(&self) {
        self.watches_fired.fetch_add(1, Ordering::Relaxed);
    }

    /// Operations that ended, errors that aren't ignored, notifications.
    pub(crate) fn read(&self) -> (u64, u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.ended), load(&self.failed), load(&self.watches_fired))
    }
}

/// What all threads of a run share.
#[derive(Debug)]
pub(crate) struct Shared {
    epoch: Instant,
    pub(crate) access: Access,
    pub(crate) terms: Terms,
    /// Only where something is watched.
    pub(crate) changes: Option<Changes>,
    pub(crate) progress: Progress,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    stopped: AtomicBool,
    /// How many sessions have ended their load.
    ended: watch::Sender<u32>,
}

impl Shared {
    pub(crate) fn new(access: Access, terms: Terms) -> Self {
        Self {
            epoch: Instant::now(),
            changes: terms.watching.then(Changes::new),
            access,
            terms,
            progress: Progress::default(),
            bytes_sent: AtomicU64::new(0),
            bytes_received: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            ended: watch::Sender::new(0),
        }
    }

    /// Nanoseconds since the run's start, over nought.
    pub(crate) fn now(&self) -> u64 {
        // 584 years fit.
        self.epoch.elapsed().as_nanos() as u64 + FIRST_NANOSECOND
    }

    pub(crate) fn bytes_sent(&self, count: usize) {
        self.bytes_sent.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn bytes_received(&self, count: usize) {
        self.bytes_received.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Sent and received, with the warm-up.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.bytes_sent), load(&self.bytes_received))
    }

    /// No session makes another request.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// One session has ended its load.
    pub(crate) fn session_ended(&self) {
        let sessions = self.terms.sessions;
        self.ended.send_if_modified(|ended| {
            *ended += 1;
            *ended == sessions
        });
    }

    /// Returns once all have.
    pub(crate) async fn all_ended(&self) {
        let sessions = self.terms.sessions;
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended >= sessions).await;
    }
}
