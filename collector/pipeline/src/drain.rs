//! The end of the process: one signal and one deadline, for threads and async tasks alike.
//!
//! Draining begins once and is never undone. It may be announced before it begins: the process is
//! then not ready but still takes work, so that load balancers can stop first; the deadline counts
//! from the announcement. This module ends nothing itself: each part stops taking work at the
//! signal, finishes what it has, and gives up at the deadline.

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
    /// The same as `State::begun`, for poll loops that look at it with every message.
    begun: AtomicBool,
    state: watch::Sender<State>,
}

#[derive(Debug, Clone, Copy, Default)]
struct State {
    /// Set by the announcement, or by the beginning if there was none.
    deadline: Option<Instant>,
    begun: bool,
}

impl Drain {
    /// A signal not yet given; once it is announced or given, there are `allowed` until the
    /// deadline.
    #[must_use]
    pub fn new(allowed: Duration) -> Self {
        let (state, _) = watch::channel(State::default());
        Self { shared: Arc::new(Shared { allowed, begun: AtomicBool::new(false), state }) }
    }

    /// Sets the deadline and announces the signal. Later calls change nothing.
    pub fn announce(&self) {
        self.advance(false, || Instant::now() + self.shared.allowed);
    }

    /// Gives the signal. The second and later calls change nothing: there is one deadline.
    pub fn begin(&self) {
        self.advance(true, || Instant::now() + self.shared.allowed);
    }

    /// Gives the signal with this deadline, for whoever has a clock of its own. Changes nothing
    /// about a deadline that is set.
    pub fn begin_by(&self, deadline: Instant) {
        self.advance(true, || deadline);
    }

    fn advance(&self, begin: bool, deadline: impl FnOnce() -> Instant) {
        self.shared.state.send_if_modified(|state| {
            let before = (state.deadline, state.begun);
            state.deadline.get_or_insert_with(deadline);
            state.begun |= begin;
            if state.begun {
                self.shared.begun.store(true, Ordering::Release);
            }
            before != (state.deadline, state.begun)
        });
    }

    /// Whether the end was announced, or has begun: the process should be given no new work.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.deadline().is_some()
    }

    /// Whether the signal was given. Cheap enough for every turn of a loop.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.shared.begun.load(Ordering::Acquire)
    }

    /// When everything must be over; none before the announcement or the signal.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.shared.state.borrow().deadline
    }

    /// What is left until the deadline, zero past it; all of it before there is one.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.deadline() {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => self.shared.allowed,
        }
    }

    /// Waits for the signal, for ever if it is never given.
    pub async fn begun(&self) {
        let mut state = self.shared.state.subscribe();
        // The sender lives in `self`, so this can't fail while we wait.
        let _ = state.wait_for(|state| state.begun).await;
    }

    /// Waits for the deadline, for ever if the signal is never given.
    pub async fn expired(&self) {
        self.begun().await;
        tokio::time::sleep(self.remaining()).await;
    }
}

#[cfg(test)]
#[path = "../tests/unit/drain.rs"]
mod tests;
