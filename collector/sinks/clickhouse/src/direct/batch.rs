//! A cut batch: its requests are stored here until every block of them is answered.

use std::ops::Range;
use std::sync::Mutex;

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::mutex::lock;
use millrace_pipeline::publish::DeliverySender;
use millrace_pipeline::sink::{DeliveryOutcome, Rejection, TableIndex};
use millrace_wire::Signal;

/// A request in a batch.
#[derive(Debug)]
pub(super) struct BatchRequest {
    /// Its end in the batch's bytes; it begins where the previous one ends.
    pub(super) end: usize,
    /// The number of its records.
    pub(super) records: u64,
    /// Answers the client; `None` when the client already has its answer.
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
pub(super) struct CutBatch {
    pub(super) signal: Signal,
    pub(super) records: u64,
    /// All requests in sequence, needed to separate bad ones from good ones.
    bytes: Vec<u8>,
    /// The end of each request in `bytes`.
    ends: Vec<usize>,
    state: Mutex<BatchState>,
    /// Covers the bytes.
    _reservation: Reservation,
}

#[derive(Debug)]
struct BatchState {
    requests: Vec<BatchRequest>,
    unanswered: usize,
    is_abandoned: bool,
    refused: Vec<RefusedPart>,
}

impl CutBatch {
    /// Creates a batch that waits for the answers of `parts` blocks.
    pub(super) fn new(
        signal: Signal,
        bytes: Vec<u8>,
        requests: Vec<BatchRequest>,
        parts: usize,
        reservation: Reservation,
    ) -> Self {
        Self {
            signal,
            records: requests.iter().map(|held| held.records).sum(),
            bytes,
            ends: requests.iter().map(|held| held.end).collect(),
            state: Mutex::new(BatchState {
                requests,
                unanswered: parts,
                is_abandoned: false,
                refused: Vec::new(),
            }),
            _reservation: reservation,
        }
    }

    /// Records the answer to the block of a table and day. Returns whether it was the last one.
    pub(super) fn record_answer(
        &self,
        (table, day): (TableIndex, i32),
        outcome: DeliveryOutcome,
    ) -> bool {
        let mut state = lock(&self.state);
        match outcome {
            DeliveryOutcome::Stored => {}
            DeliveryOutcome::Rejected(rejection) => {
                state.refused.push(RefusedPart { table, day, rejection });
            }
            DeliveryOutcome::Abandoned | DeliveryOutcome::Deferred => state.is_abandoned = true,
        }
        state.unanswered = state.unanswered.saturating_sub(1);
        state.unanswered == 0
    }

    /// Returns the refused blocks, once all are answered; `None` if one was abandoned.
    pub(super) fn take_refusals(&self) -> Option<Vec<RefusedPart>> {
        let mut state = lock(&self.state);
        (!state.is_abandoned).then(|| std::mem::take(&mut state.refused))
    }

    /// Returns whether all waiting clients are gone: they send the batch again, so it needn't be
    /// stored.
    pub(super) fn is_unwanted(&self) -> bool {
        let is_abandoned =
            |held: &BatchRequest| held.sender.as_ref().is_some_and(DeliverySender::is_abandoned);
        let state = lock(&self.state);
        !state.requests.is_empty() && state.requests.iter().all(is_abandoned)
    }

    /// Removes the requests, to answer them.
    pub(super) fn take_requests(&self) -> Vec<BatchRequest> {
        std::mem::take(&mut lock(&self.state).requests)
    }

    /// Returns the number of requests.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of the requests in `span`, in order.
    pub(super) fn request_bytes(&self, span: Range<usize>) -> impl Iterator<Item = &[u8]> {
        let start = |index: usize| match index {
            0 => 0,
            index => self.ends.get(index - 1).copied().unwrap_or(self.bytes.len()),
        };
        span.filter_map(move |index| self.bytes.get(start(index)..*self.ends.get(index)?))
    }
}
