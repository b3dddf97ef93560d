//! Limits how many inserts run at once: as many as configured, fewer while the server is
//! overloaded.
//!
//! Additive increase, multiplicative decrease, as in TCP: an answer that means overload (too many
//! parts, too many queries, no memory) or a very slow insert halves the number, down to one; as
//! many good answers as may run at once raise it by one. Inserts that began before a cut don't cut
//! again, so inserts that fail together cut once.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use millrace_pipeline::mutex::lock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The window of inserts that may run at once.
#[derive(Debug)]
pub(crate) struct InsertWindow {
    most: usize,
    slots: Arc<Semaphore>,
    state: Mutex<WindowState>,
}

#[derive(Debug)]
struct WindowState {
    allowed: usize,
    /// The slots that were cut while in use: they are removed when they are freed.
    pending_cuts: usize,
    good: usize,
    last_cut: Option<Instant>,
}

/// The permission to run one insert.
#[derive(Debug)]
pub(crate) struct InsertSlot {
    window: Arc<InsertWindow>,
    permit: Option<OwnedSemaphorePermit>,
}

impl InsertWindow {
    /// Creates a window of `most` free slots.
    pub(crate) fn new(most: usize) -> Self {
        let most = most.max(1);
        let state = WindowState { allowed: most, pending_cuts: 0, good: 0, last_cut: None };
        Self { most, slots: Arc::new(Semaphore::new(most)), state: Mutex::new(state) }
    }

    /// Returns a slot if one is free.
    pub(crate) fn try_enter(self: &Arc<Self>) -> Option<InsertSlot> {
        let permit = Arc::clone(&self.slots).try_acquire_owned().ok()?;
        Some(InsertSlot { window: Arc::clone(self), permit: Some(permit) })
    }

    /// Returns a slot, once one is free.
    pub(crate) async fn acquire_slot(self: &Arc<Self>) -> Option<InsertSlot> {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        Some(InsertSlot { window: Arc::clone(self), permit: Some(permit) })
    }

    /// Returns how many inserts may run at once now.
    pub(crate) fn allowed(&self) -> usize {
        lock(&self.state).allowed
    }

    /// Records an overload that the server reported to an insert that began at `started`.
    pub(crate) fn record_overload(&self, started: Instant, now: Instant) {
        let mut state = lock(&self.state);
        state.good = 0;
        // An insert from before the last cut is no evidence about the window since.
        if state.last_cut.is_some_and(|cut| started < cut) {
            return;
        }
        state.last_cut = Some(now);
        let removed = state.allowed - (state.allowed / 2).max(1);
        state.allowed -= removed;
        state.pending_cuts += removed - self.slots.forget_permits(removed);
    }

    /// Records a success.
    pub(crate) fn record_success(&self) {
        let mut state = lock(&self.state);
        if state.allowed == self.most {
            return;
        }
        state.good += 1;
        if state.good < state.allowed {
            return;
        }
        state.good = 0;
        state.allowed += 1;
        match state.pending_cuts {
            0 => self.slots.add_permits(1),
            _ => state.pending_cuts -= 1,
        }
    }
}

impl Drop for InsertSlot {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut state = lock(&self.window.state);
        if state.pending_cuts > 0 {
            state.pending_cuts -= 1;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests;
