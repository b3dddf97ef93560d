//! The drain of the process: one signal and one deadline, for threads and async tasks.
//!
//! A drain begins once and is never undone. It may be announced before it begins: the process is
//! then not ready but still accepts work, so that load balancers can stop first; the deadline
//! counts from the announcement. This module ends nothing itself: each part stops accepting work at
//! the signal, finishes what it has, and stops at the deadline.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// A drain, shared by clones.
#[derive(Debug, Clone)]
pub struct Drain {
    shared: Arc<DrainInner>,
}

#[derive(Debug)]
struct DrainInner {
    allowed: Duration,
    /// The same as `State::begun`, for poll loops that check it with every message.
    begun: AtomicBool,
    state: watch::Sender<DrainState>,
}

#[derive(Debug, Clone, Copy, Default)]
struct DrainState {
    /// Set by the announcement, or by the beginning without one.
    deadline: Option<Instant>,
    begun: bool,
}

impl Drain {
    /// Returns a drain that hasn't begun. The deadline is `allowed` after its announcement or
    /// beginning.
    #[must_use]
    pub fn new(allowed: Duration) -> Self {
        let (state, _) = watch::channel(DrainState::default());
        Self { shared: Arc::new(DrainInner { allowed, begun: AtomicBool::new(false), state }) }
    }

    /// Announces the drain and sets the deadline. Later calls change nothing.
    pub fn announce(&self) {
        self.advance_state(false, || Instant::now() + self.shared.allowed);
    }

    /// Begins the drain. Later calls change nothing: there is one deadline.
    pub fn begin(&self) {
        self.advance_state(true, || Instant::now() + self.shared.allowed);
    }

    /// Begins the drain with this deadline, for callers with their own clock. Does not change a
    /// deadline that is already set.
    pub fn begin_by(&self, deadline: Instant) {
        self.advance_state(true, || deadline);
    }

    fn advance_state(&self, begin: bool, deadline: impl FnOnce() -> Instant) {
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

    /// Whether the drain was announced or has begun: the process should get no new work.
    #[must_use]
    pub fn is_announced(&self) -> bool {
        self.deadline().is_some()
    }

    /// Whether the drain has begun. Cheap enough for every iteration of a loop.
    #[must_use]
    pub fn is_begun(&self) -> bool {
        self.shared.begun.load(Ordering::Acquire)
    }

    /// The time by which all work must end; `None` before the announcement or beginning.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.shared.state.borrow().deadline
    }

    /// The time until the deadline, zero past it; the full time before one is set.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        match self.deadline() {
            Some(deadline) => deadline.saturating_duration_since(Instant::now()),
            None => self.shared.allowed,
        }
    }

    /// Waits for the drain to begin, forever if it never does.
    pub async fn wait_for_begin(&self) {
        let mut state = self.shared.state.subscribe();
        // The sender lives in `self`, so this can't fail while we wait.
        let _ = state.wait_for(|state| state.begun).await;
    }

    /// Waits for the deadline, forever if the drain never begins.
    pub async fn wait_for_deadline(&self) {
        self.wait_for_begin().await;
        tokio::time::sleep(self.remaining()).await;
    }
}

#[cfg(test)]
mod tests;
