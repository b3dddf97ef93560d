//! How many inserts run at once: as many as configured, fewer while the server is overloaded.
//!
//! Additive increase, multiplicative decrease, as in TCP: an answer that means overload (too many
//! parts, too many queries, no memory) or a very slow insert halves the number, down to one; as
//! many good answers as may run at once raise it by one. Inserts that began before a cut don't cut
//! again, so inserts that fail together cut once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of inserts that may run at once.
#[derive(Debug)]
pub(super) struct Window {
    most: usize,
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    allowed: usize,
    /// Places that were cut while taken: they go when they are given back.
    owed: usize,
    good: usize,
    last_cut: Option<Instant>,
}

/// The right to run one insert.
#[derive(Debug)]
pub(super) struct Place {
    window: Arc<Window>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Window {
    /// A window of `most` places, all of them open.
    pub(super) fn new(most: usize) -> Self {
        let most = most.max(1);
        let state = State { allowed: most, owed: 0, good: 0, last_cut: None };
        Self { most, places: Arc::new(Semaphore::new(most)), state: Mutex::new(state) }
    }

    /// A place if one is free.
    pub(super) fn try_enter(self: &Arc<Self>) -> Option<Place> {
        let permit = Arc::clone(&self.places).try_acquire_owned().ok()?;
        Some(Place { window: Arc::clone(self), permit: Some(permit) })
    }

    /// A place, once one is free.
    pub(super) async fn enter(self: &Arc<Self>) -> Option<Place> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.places).acquire_owned().await.ok()?;
        Some(Place { window: Arc::clone(self), permit: Some(permit) })
    }

    /// How many may run at once now.
    pub(super) fn allowed(&self) -> usize {
        self.lock().allowed
    }

    /// The server said that it is too much, to an insert that began at `started`.
    pub(super) fn too_much(&self, started: Instant, now: Instant) {
        let mut state = self.lock();
        state.good = 0;
        // What began before the last cut says nothing about the window since.
        if state.last_cut.is_some_and(|cut| started < cut) {
            return;
        }
        state.last_cut = Some(now);
        let gone = state.allowed - (state.allowed / 2).max(1);
        state.allowed -= gone;
        state.owed += gone - self.places.forget_permits(gone);
    }

    /// An insert went well.
    pub(super) fn went_well(&self) {
        let mut state = self.lock();
        if state.allowed == self.most {
            return;
        }
        state.good += 1;
        if state.good < state.allowed {
            return;
        }
        state.good = 0;
        state.allowed += 1;
        match state.owed {
            0 => self.places.add_permits(1),
            _ => state.owed -= 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves whole values behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut state = self.window.lock();
        if state.owed > 0 {
            state.owed -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/clickhouse/window.rs"]
mod tests;
