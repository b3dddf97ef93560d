//! One request's claim to an answer, held by every message that carries a part of it.
//!
//! The answer is success only if each of its messages succeeded; a message dropped without an
//! answer counts as failed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{Delivered, DeliverySender, Refused};

/// A share of a request's claim. The request is answered when its last share is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    claim: Arc<Claim>,
    /// What of its message is this share's.
    pub(crate) bytes: usize,
    /// The records in that.
    pub(crate) records: u64,
}

#[derive(Debug)]
struct Claim {
    shares: AtomicUsize,
    delivered: AtomicUsize,
    failure: OnceLock<Refused>,
    result: Delivered,
    /// None when the client has its answer already.
    sender: Mutex<Option<DeliverySender>>,
    /// The records' share of the budget, until all of them are off our hands.
    reservation: Option<Reservation>,
}

impl Ticket {
    /// Shares of one request, one for each message it is carried by.
    pub(crate) fn shares(
        shares: usize,
        result: Delivered,
        sender: Option<DeliverySender>,
        reservation: Reservation,
    ) -> impl Iterator<Item = Self> {
        let claim = Arc::new(Claim {
            shares: AtomicUsize::new(shares),
            delivered: AtomicUsize::new(0),
            failure: OnceLock::new(),
            result,
            sender: Mutex::new(sender),
            reservation: Some(reservation),
        });
        (0..shares).map(move |_| Self { claim: Arc::clone(&claim), bytes: 0, records: 0 })
    }

    /// The share of so much of a message.
    pub(crate) fn of(self, bytes: usize, records: u64) -> Self {
        Self { bytes, records, ..self }
    }

    /// Another share of the same claim.
    pub(crate) fn another(&self) -> Self {
        self.claim.shares.fetch_add(1, Ordering::AcqRel);
        Self { claim: Arc::clone(&self.claim), bytes: 0, records: 0 }
    }

    /// Whether nobody waits for the request any more. Never so when it was answered when taken:
    /// nobody will send that again.
    pub(crate) fn is_given_up(&self) -> bool {
        let sender = self.claim.sender.lock().unwrap_or_else(PoisonError::into_inner);
        sender.as_ref().is_some_and(DeliverySender::is_given_up)
    }

    /// This share's message is safe.
    pub(crate) fn delivered(self) {
        self.claim.delivered.fetch_add(1, Ordering::AcqRel);
    }

    /// Other shares replace this one's part of the request.
    pub(crate) fn replaced(self) {
        self.claim.shares.fetch_sub(1, Ordering::AcqRel);
    }

    /// This share's message is not.
    pub(crate) fn failed(self, why: Refused) {
        // The first reason is as good as any.
        let _ = self.claim.failure.set(why);
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // First the room, then the answer: whoever is answered may come back at once.
        drop(self.reservation.take());
        let sender = self.sender.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(sender) = sender else { return };
        let (delivered, shares) = (*self.delivered.get_mut(), *self.shares.get_mut());
        sender.finish(match self.failure.take() {
            None if delivered == shares => Ok(std::mem::take(&mut self.result)),
            None => Err(Refused::Unconfirmed("a message was given up".to_owned())),
            Some(why) if delivered == 0 => Err(why),
            // Part of it is stored: no answer may sound as if nothing was.
            Some(why) => Err(Refused::Unconfirmed(why.to_string())),
        });
    }
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/ticket.rs"]
mod tests;
