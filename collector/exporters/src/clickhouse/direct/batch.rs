//! A cut batch: its requests, kept until every block of them is answered.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::DeliverySender;
use millrace_pipeline::sink::{Rejection, TableIndex};
use millrace_wire::Signal;

/// A request in a batch.
#[derive(Debug)]
pub(super) struct Held {
    /// Where it ends in the batch's bytes; it begins where the one before ends.
    pub(super) end: usize,
    /// Records in it.
    pub(super) records: u64,
    /// Who waits; none when the client has its answer already.
    pub(super) sender: Option<DeliverySender>,
}

/// A block that was refused for its rows.
#[derive(Clone, Debug)]
pub(super) struct RefusedPart {
    pub(super) table: TableIndex,
    pub(super) day: i32,
    pub(super) rejection: Rejection,
}

/// A cut batch.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) signal: Signal,
    pub(super) records: u64,
    /// All requests in sequence: needed to separate bad ones from good ones.
    bytes: Vec<u8>,
    /// Where each request is in them.
    ends: Vec<usize>,
    state: Mutex<State>,
    /// Covers the bytes.
    _reservation: Reservation,
}

#[derive(Debug)]
struct State {
    requests: Vec<Held>,
    unanswered: usize,
    given_up: bool,
    refused: Vec<RefusedPart>,
}

impl Batch {
    /// A batch of which `parts` blocks are to be answered.
    pub(super) fn new(
        signal: Signal,
        bytes: Vec<u8>,
        requests: Vec<Held>,
        parts: usize,
        reservation: Reservation,
    ) -> Self {
        Self {
            signal,
            records: requests.iter().map(|held| held.records).sum(),
            bytes,
            ends: requests.iter().map(|held| held.end).collect(),
            state: Mutex::new(State {
                requests,
                unanswered: parts,
                given_up: false,
                refused: Vec::new(),
            }),
            _reservation: reservation,
        }
    }

    /// Notes one block's answer: `None` when it is stored, else the refusal, or nothing for a block
    /// that was given up. True when it was the last one.
    pub(super) fn answered(&self, trouble: Option<Option<RefusedPart>>) -> bool {
        let mut state = self.lock();
        match trouble {
            None => {}
            Some(Some(refused)) => state.refused.push(refused),
            Some(None) => state.given_up = true,
        }
        state.unanswered = state.unanswered.saturating_sub(1);
        state.unanswered == 0
    }

    /// The refused blocks, once all are answered; none if one was given up.
    pub(super) fn verdict(&self) -> Option<Vec<RefusedPart>> {
        let mut state = self.lock();
        (!state.given_up).then(|| std::mem::take(&mut state.refused))
    }

    /// Whether all who waited are gone: they send it again, so it needn't be stored.
    pub(super) fn is_unwanted(&self) -> bool {
        let gone = |held: &Held| held.sender.as_ref().is_some_and(DeliverySender::is_given_up);
        let state = self.lock();
        !state.requests.is_empty() && state.requests.iter().all(gone)
    }

    /// The requests, to be answered.
    pub(super) fn take_requests(&self) -> Vec<Held> {
        std::mem::take(&mut self.lock().requests)
    }

    /// How many requests there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Some of the requests' bytes, in order.
    pub(super) fn requests(&self, span: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let start = |index: usize| match index {
            0 => 0,
            index => self.ends.get(index - 1).copied().unwrap_or(self.bytes.len()),
        };
        span.filter_map(move |index| self.bytes.get(start(index)..*self.ends.get(index)?))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic ends the process, so a poisoned lock is not seen outside tests.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
