//! Decides once, for the client and the publisher of a request, whether its records may still be
//! sent.
//!
//! A client is answered by its deadline, whatever happened to its records. The answer states
//! whether they may be stored, so the receiver's cancellation and the publisher's hand-over must
//! agree on which came first: each is one step of the same atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// Records were sent to the next system.
const SENT: u8 = 1;
/// The client was answered, or is gone.
const CANCELLED: u8 = 2;

/// The state of a cancelled request's records, for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelOutcome {
    /// None of its records were sent, and none will be.
    Unsent,
    /// Some were sent, and may be stored.
    MayBeStored,
}

/// The publisher's view of a request's client. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    state: Arc<AtomicU8>,
    response_deadline: Option<Instant>,
}

impl Cancellation {
    /// The time by which the client is answered; `None` if it waits without limit.
    #[must_use]
    pub fn response_deadline(&self) -> Option<Instant> {
        self.response_deadline
    }

    /// Whether the client no longer waits.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Acquire) & CANCELLED != 0
    }

    /// Must be called before records are sent to the next system. Returns false if the client no
    /// longer waits: the records must then not be sent, because the client sends them again.
    #[must_use]
    pub fn begin_send(&self) -> bool {
        self.state.fetch_or(SENT, Ordering::AcqRel) & CANCELLED == 0
    }
}

/// The receiver's end. Dropping it cancels the request, as when a client closes its connection.
#[derive(Debug)]
pub struct Canceller(Cancellation);

impl Canceller {
    /// Returns a request whose client is answered by `answer_by`.
    #[must_use]
    pub fn new(answer_by: Instant) -> Self {
        let answer_by = Some(answer_by);
        Self(Cancellation { response_deadline: answer_by, ..Cancellation::default() })
    }

    /// Returns the publisher's view.
    #[must_use]
    pub fn cancellation(&self) -> Cancellation {
        self.0.clone()
    }

    /// Cancels the records that were not sent.
    pub fn cancel(&self) -> CancelOutcome {
        match self.0.state.fetch_or(CANCELLED, Ordering::AcqRel) & SENT {
            0 => CancelOutcome::Unsent,
            _ => CancelOutcome::MayBeStored,
        }
    }
}

impl Drop for Canceller {
    fn drop(&mut self) {
        self.cancel();
    }
}

#[cfg(test)]
mod tests;
