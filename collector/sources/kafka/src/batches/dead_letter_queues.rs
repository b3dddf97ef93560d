//! The queues of dead letters by signal, and the limits within which a signal's partitions are
//! read.
//!
//! Each signal has its own dead-letter topic, so each has its own queue and limits: while one topic
//! is missing, only the partitions of that signal stop.

use std::collections::VecDeque;

use millrace_ledger::Ticket;
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::sink::DeadLetter;
use millrace_wire::Signal;

use crate::batches::outcomes::DeadLetterId;
use crate::group::partition_key::PartitionKey;

/// The dead letters of one signal that may be in flight, per worker. Three signals leave a quarter
/// of the worker's 1,024 answers to inserts.
const MAX_IN_FLIGHT: usize = 256;
/// The dead letters of one signal, waiting and in flight, at which its partitions aren't read,
/// whatever their bytes. A batch has at most 256 of them, so a few batches may be cut while the
/// topic is unavailable.
const MAX_DEAD_LETTERS: usize = 512;
/// A message that can't be stored, and the memory reserved for it.
pub(crate) struct PendingDeadLetter {
    pub(crate) ticket: Ticket<PartitionKey>,
    pub(crate) id: DeadLetterId,
    pub(crate) dead_letter: Box<DeadLetter>,
    pub(crate) cover: Reservation,
}

/// The dead letters of one signal.
#[derive(Default)]
struct SignalQueue {
    waiting: VecDeque<PendingDeadLetter>,
    in_flight: usize,
    /// The bytes of waiting and in-flight ones.
    bytes: u64,
}

/// The dead letters of one worker.
pub(crate) struct DeadLetterQueues {
    by_signal: [SignalQueue; Signal::ALL.len()],
    max_bytes: u64,
}

impl DeadLetterQueues {
    /// Creates queues that each hold at most `max_bytes`, or one dead letter.
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { by_signal: Default::default(), max_bytes }
    }

    pub(crate) fn push(&mut self, pending: PendingDeadLetter) {
        let queue = &mut self.by_signal[pending.dead_letter.signal.index()];
        queue.bytes += pending.dead_letter.memory_bytes() as u64;
        queue.waiting.push_back(pending);
    }

    /// Removes the next dead letter of a signal whose batch `may_send` accepts, unless too many are
    /// in flight. It counts as in flight until [`DeadLetterQueues::return_front`] or
    /// [`DeadLetterQueues::record_answered`].
    pub(crate) fn pop(
        &mut self,
        signal: Signal,
        may_send: impl Fn(&Ticket<PartitionKey>) -> bool,
    ) -> Option<PendingDeadLetter> {
        let queue = &mut self.by_signal[signal.index()];
        if queue.in_flight >= MAX_IN_FLIGHT {
            return None;
        }
        let at = queue.waiting.iter().position(|pending| may_send(&pending.ticket))?;
        let next = queue.waiting.remove(at)?;
        queue.in_flight += 1;
        Some(next)
    }

    /// Puts back a dead letter for which the sink had no capacity: it is the next one again.
    pub(crate) fn return_front(&mut self, pending: PendingDeadLetter) {
        let queue = &mut self.by_signal[pending.dead_letter.signal.index()];
        queue.in_flight -= 1;
        queue.waiting.push_front(pending);
    }

    /// Records that a dead letter of this length was answered.
    pub(crate) fn record_answered(&mut self, signal: Signal, bytes: u64) {
        let queue = &mut self.by_signal[signal.index()];
        queue.in_flight -= 1;
        queue.bytes -= bytes;
    }

    /// Returns whether the partitions of a signal must not be read now. One dead letter always
    /// fits.
    pub(crate) fn is_full(&self, signal: Signal) -> bool {
        let SignalQueue { waiting, in_flight, bytes } = &self.by_signal[signal.index()];
        let count = waiting.len() + in_flight;
        count >= MAX_DEAD_LETTERS || (count > 0 && *bytes >= self.max_bytes)
    }

    /// Drops a partition's waiting dead letters of batches from an offset on. Returns how many of
    /// `signal` there were.
    pub(crate) fn drop_from(&mut self, key: PartitionKey, first: i64, signal: Signal) -> u64 {
        let queue = &mut self.by_signal[signal.index()];
        let before = queue.waiting.len();
        let bytes = &mut queue.bytes;
        queue.waiting.retain(|pending| {
            let stays = pending.ticket.key != key || pending.ticket.range.first() < first;
            if !stays {
                *bytes -= pending.dead_letter.memory_bytes() as u64;
            }
            stays
        });
        (before - queue.waiting.len()) as u64
    }

    /// Returns the batches of the waiting dead letters.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Ticket<PartitionKey>> {
        self.by_signal.iter().flat_map(|queue| queue.waiting.iter().map(|pending| &pending.ticket))
    }
}

#[cfg(test)]
mod tests;
