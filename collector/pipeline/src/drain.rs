//! The end of the process: one signal and one deadline, seen alike by threads and by async tasks.
//!
//! Draining begins once and is never undone. This module ends nothing by itself: each part stops
//! taking work when it sees the signal, finishes what it has, and gives up at the deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The signal, shared by clones.
#[derive(Debug, Clone)]
pub struct Drain {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    allowed: Duration,
    /// The same as `deadline.is_some()`, for poll loops that look at it with every message.
    begun: AtomicBool,
    deadline: watch::Sender<Option<Instant>>,
}

impl Drain {
    /// A signal not yet given; once it is, there are `allowed` until the deadline.
    #[must_use]
    pub fn new(allowed: Duration) -> Self {
        let (deadline, _) = watch::channel(None);
        Self { shared: Arc::new(Shared { allowed, begun: AtomicBool::new(false), deadline }) }
    }

    /// Gives the signal. The second and later calls change nothing: there is one deadline.
    pub fn begin(&self) {
        self.shared.deadline.send_if_modified(|deadline| {
            let first = deadline.is_none();
            if first {
                *deadline = Some(Instant::now() + self.shared.allowed);
                self.shared.begun.store(true, Ordering::Release);
            }
            first
        });
    }

    /// Whether the signal was given. Cheap enough for every turn of a loop.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.shared.begun.load(Ordering::Acquire)
    }

    /// When everything must be over; none before the signal.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        *self.shared.deadline.borrow()
    }

    /// What is left until the deadline, zero past it; all of it before the signal.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.deadline() {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => self.shared.allowed,
        }
    }

    /// Waits for the signal, for ever if it is never given.
    pub async fn begun(&self) {
        let mut deadline = self.shared.deadline.subscribe();
        // The sender lives in `self`, so this can't fail while we wait.
        let _ = deadline.wait_for(Option::is_some).await;
    }

    /// Waits for the deadline, for ever if the signal is never given.
    pub async fn expired(&self) {
        self.begun().await;
        tokio::time::sleep(self.remaining()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::Drain;
    use std::time::Duration;

    /// Scenario: the signal is given twice. Guarantee: the first deadline stands.
    #[test]
    fn the_first_signal_sets_the_one_deadline() {
        let drain = Drain::new(Duration::from_secs(60));
        assert!(!drain.is_begun());
        assert_eq!(drain.remaining(), Duration::from_secs(60));
        drain.begin();
        let deadline = drain.deadline();
        drain.clone().begin();
        assert_eq!(drain.deadline(), deadline);
        assert!(drain.is_begun());
    }

    /// Scenario: a task waits, a thread gives the signal. Guarantee: the task wakes, at once and
    /// also when it begins to wait only afterwards.
    #[tokio::test]
    async fn tasks_see_a_signal_given_by_a_thread() {
        let drain = Drain::new(Duration::ZERO);
        let giver = drain.clone();
        let waiter = drain.clone();
        let waiting = tokio::spawn(async move { waiter.begun().await });
        std::thread::spawn(move || giver.begin()).join().unwrap();
        waiting.await.unwrap();
        drain.begun().await;
        drain.expired().await;
    }
}
