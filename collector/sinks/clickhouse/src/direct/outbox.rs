//! The queue of blocks for the sink, and the timer of the publisher's thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use millrace_pipeline::mutex::lock;
use millrace_pipeline::sink::{BlockOrigin, Completion, Insert, Sink};
use millrace_wire::Signal;

use super::batch::CutBatch;

/// A block that is being delivered.
pub(super) struct QueuedBlock {
    pub(super) batch: Arc<CutBatch>,
    pub(super) insert: Insert,
    pub(super) completion: Completion,
}

impl QueuedBlock {
    /// Submits the part. Returns it if it has to wait.
    fn submit_to(self, sink: &dyn Sink) -> Option<Self> {
        let Self { batch, insert, completion } = self;
        if batch.is_unwanted() {
            // Dropping it unanswered abandons it.
            return None;
        }
        let BlockOrigin { topic, partition, .. } = &insert.origin;
        if sink.is_blocked(topic, *partition, insert.block.table) {
            return Some(Self { batch, insert, completion });
        }
        let back = sink.submit(insert, completion).err()?;
        Some(Self { batch, insert: back.work, completion: back.completion })
    }
}

/// The queue, bounded by the number of unfinished batches, and its wake-ups.
#[derive(Default)]
pub(super) struct Outbox {
    state: Mutex<OutboxState>,
    wake: Condvar,
    all_done: Condvar,
}

#[derive(Default)]
struct OutboxState {
    queue: VecDeque<QueuedBlock>,
    /// The batches that are cut and not yet answered, by signal.
    unfinished: [usize; 3],
    /// An event occurred since the thread's last check.
    event: bool,
    stop: bool,
}

impl Outbox {
    /// Counts a batch that was cut.
    pub(super) fn batch_opened(&self, signal: Signal) {
        lock(&self.state).unfinished[signal.index()] += 1;
    }

    /// Counts a batch that was answered.
    pub(super) fn batch_done(&self, signal: Signal) {
        let mut state = lock(&self.state);
        let unfinished = &mut state.unfinished[signal.index()];
        *unfinished = unfinished.saturating_sub(1);
        if state.unfinished == [0; 3] {
            self.all_done.notify_all();
        }
    }

    pub(super) fn unfinished_count(&self, signal: Signal) -> usize {
        lock(&self.state).unfinished[signal.index()]
    }

    pub(super) fn push(&self, parts: Vec<QueuedBlock>) {
        let mut state = lock(&self.state);
        state.queue.extend(parts);
        state.event = true;
        self.wake.notify_one();
    }

    /// Makes the thread check again.
    pub(super) fn wake(&self) {
        lock(&self.state).event = true;
        self.wake.notify_one();
    }

    pub(super) fn stop(&self) {
        lock(&self.state).stop = true;
        self.wake.notify_all();
    }

    pub(super) fn is_stopped(&self) -> bool {
        lock(&self.state).stop
    }

    /// Sleeps until an event or `due`. Returns false when it is time to stop; the waiting parts are
    /// then abandoned.
    pub(super) fn wait_for_work(&self, due: Option<Instant>) -> bool {
        let state = lock(&self.state);
        let idle = |state: &mut OutboxState| !state.event && !state.stop;
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
        // Drop them outside the lock: each answers on drop.
        let left = std::mem::take(&mut state.queue);
        drop(state);
        drop(left);
        false
    }

    /// Waits until no batch is unfinished. Returns false if some still is at `until`.
    pub(super) fn wait_until_done(&self, until: Instant) -> bool {
        let wait = until.saturating_duration_since(Instant::now());
        let busy = |state: &mut OutboxState| state.unfinished != [0; 3];
        let waited = self.all_done.wait_timeout_while(lock(&self.state), wait, busy);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Submits the parts that the sink accepts. Returns whether some still wait. A waiting part
    /// doesn't block other parts, and one whose clients are gone is abandoned.
    pub(super) fn submit_waiting(&self, sink: &dyn Sink) -> bool {
        let queue = std::mem::take(&mut lock(&self.state).queue);
        let mut waiting: VecDeque<QueuedBlock> =
            queue.into_iter().filter_map(|part| part.submit_to(sink)).collect();
        let mut state = lock(&self.state);
        waiting.append(&mut state.queue);
        state.queue = waiting;
        !state.queue.is_empty()
    }
}
