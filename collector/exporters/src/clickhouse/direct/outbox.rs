//! Blocks that wait for the sink, and the timer of the publisher's thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use millrace_pipeline::sink::{Completion, Insert, Sink};
use millrace_wire::Signal;

use super::batch::Batch;

/// A block on its way.
pub(super) struct Part {
    pub(super) batch: Arc<Batch>,
    pub(super) insert: Insert,
    pub(super) completion: Completion,
}

/// The queue, bounded by the batches that may be unfinished, and its wake-ups.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<State>,
    wake: Condvar,
    all_done: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Part>,
    /// Batches cut and not yet answered, by signal.
    unfinished: [usize; 3],
    /// Something happened since the thread last looked.
    event: bool,
    stop: bool,
}

impl Outbox {
    /// A batch was cut.
    pub(super) fn opened(&self, signal: Signal) {
        self.lock().unfinished[signal.index()] += 1;
    }

    /// A batch was answered.
    pub(super) fn done(&self, signal: Signal) {
        let mut state = self.lock();
        let unfinished = &mut state.unfinished[signal.index()];
        *unfinished = unfinished.saturating_sub(1);
        if state.unfinished == [0; 3] {
            self.all_done.notify_all();
        }
    }

    pub(super) fn unfinished(&self, signal: Signal) -> usize {
        self.lock().unfinished[signal.index()]
    }

    pub(super) fn push(&self, parts: Vec<Part>) {
        let mut state = self.lock();
        state.queue.extend(parts);
        state.event = true;
        self.wake.notify_one();
    }

    /// Makes the thread check again.
    pub(super) fn wake(&self) {
        self.lock().event = true;
        self.wake.notify_one();
    }

    pub(super) fn stop(&self) {
        self.lock().stop = true;
        self.wake.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stop
    }

    /// Sleeps until something happens or is due. False when it is time to stop; what still waited
    /// is given up then.
    pub(super) fn wait(&self, due: Option<Instant>) -> bool {
        let state = self.lock();
        let idle = |state: &mut State| !state.event && !state.stop;
        let mut state = match due {
            None => self.wake.wait_while(state, idle).unwrap_or_else(PoisonError::into_inner),
            Some(due) => {
                let wait = due.saturating_duration_since(Instant::now());
                let waited = self.wake.wait_timeout_while(state, wait, idle);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        state.event = false;
        if !state.stop {
            return true;
        }
        // Dropped outside the lock: each answers for itself.
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        false
    }

    /// Waits until no batch is unfinished. False when that takes longer than until `until`.
    pub(super) fn wait_until_done(&self, until: Instant) -> bool {
        let wait = until.saturating_duration_since(Instant::now());
        let busy = |state: &mut State| state.unfinished != [0; 3];
        let waited = self.all_done.wait_timeout_while(self.lock(), wait, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Hands over what the sink takes. True when something still waits.
    pub(super) fn submit(&self, sink: &dyn Sink) -> bool {
        loop {
            let Some(Part { batch, insert, completion }) = self.next(sink) else {
                return !self.lock().queue.is_empty();
            };
            if batch.is_unwanted() {
                // Dropped unanswered: given up.
                continue;
            }
            if let Err(back) = sink.submit(insert, completion) {
                let part = Part { batch, insert: back.work, completion: back.completion };
                self.lock().queue.push_front(part);
                return true;
            }
        }
    }

    /// The first block that can go somewhere, or that nobody wants.
    fn next(&self, sink: &dyn Sink) -> Option<Part> {
        let mut state = self.lock();
        let goes =
            |part: &Part| !sink.is_blocked(part.insert.block.table) || part.batch.is_unwanted();
        let at = state.queue.iter().position(goes)?;
        state.queue.remove(at)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic ends the process, so a poisoned lock is not seen outside tests.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
