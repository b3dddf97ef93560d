//! One request's answer, shared by every message that carries a part of it.
//!
//! The answer is success only if each of its messages succeeded; a message dropped without an
//! answer counts as failed.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use millrace_pipeline::budget::Reservation;
use millrace_pipeline::cancellation::Cancellation;
use millrace_pipeline::mutex::lock;
use millrace_pipeline::publish::{DeliveryReceipt, DeliverySender, PublishError};

/// A part of a request within one message. The request is answered when its last part is dropped.
#[derive(Debug)]
pub(crate) struct RequestPart {
    request: Arc<PendingRequest>,
    /// The part's bytes in its message.
    pub(crate) bytes: usize,
    /// The number of its records.
    pub(crate) records: u64,
}

/// Who waits for a request, and how long.
#[derive(Debug)]
pub(crate) enum Waiter {
    /// A client, which is answered at the timeout at the latest, and may be gone before.
    Client(DeliverySender, Cancellation),
    /// The disk buffer, which waits without a limit: a timeout would only send a copy.
    Disk(DeliverySender),
    /// Nobody: the client was answered when its request was accepted, and won't send it again.
    Nobody,
    /// Nobody any more: the client was answered at the timeout, and sends it again.
    Expired,
}

/// A request until the client library has freed all its parts.
#[derive(Debug)]
struct PendingRequest {
    parts: AtomicUsize,
    delivered: AtomicUsize,
    failure: Mutex<Option<PublishError>>,
    result: DeliveryReceipt,
    waiter: Mutex<Waiter>,
    /// The records' reserved budget, until the client library has freed all of them.
    reservation: Option<Reservation>,
}

impl RequestPart {
    /// Returns the parts of one request, one for each message that carries it.
    pub(crate) fn new_parts(
        parts: usize,
        result: DeliveryReceipt,
        waiter: Waiter,
        reservation: Reservation,
    ) -> impl Iterator<Item = Self> {
        let request = Arc::new(PendingRequest {
            parts: AtomicUsize::new(parts),
            delivered: AtomicUsize::new(0),
            failure: Mutex::default(),
            result,
            waiter: Mutex::new(waiter),
            reservation: Some(reservation),
        });
        (0..parts).map(move |_| Self::of_request(&request))
    }

    fn of_request(request: &Arc<PendingRequest>) -> Self {
        Self { request: Arc::clone(request), bytes: 0, records: 0 }
    }

    /// Returns the part with its size.
    pub(crate) fn with_size(self, bytes: usize, records: u64) -> Self {
        Self { bytes, records, ..self }
    }

    /// Returns another part of the same request.
    pub(crate) fn another_part(&self) -> Self {
        self.request.parts.fetch_add(1, Ordering::AcqRel);
        Self::of_request(&self.request)
    }

    /// Returns whether no client waits for the request any more. False for a request that was
    /// answered when it was accepted: nobody will send that again.
    pub(crate) fn is_abandoned(&self) -> bool {
        match &*lock(&self.request.waiter) {
            Waiter::Client(sender, cancellation) => {
                sender.is_abandoned() || cancellation.is_cancelled()
            }
            Waiter::Disk(sender) => sender.is_abandoned(),
            Waiter::Nobody => false,
            Waiter::Expired => true,
        }
    }

    /// Records that the part is sent to Kafka. Returns false when no client waits for the request
    /// any more: then it must not be sent.
    pub(crate) fn begin_send(&self) -> bool {
        match &*lock(&self.request.waiter) {
            Waiter::Client(sender, cancellation) => {
                !sender.is_abandoned() && cancellation.begin_send()
            }
            Waiter::Disk(sender) => !sender.is_abandoned(),
            Waiter::Nobody => true,
            Waiter::Expired => false,
        }
    }

    /// Returns the latest time at which its client is answered, if one waits.
    pub(crate) fn response_deadline(&self) -> Option<Instant> {
        match &*lock(&self.request.waiter) {
            Waiter::Client(_, cancellation) => cancellation.response_deadline(),
            Waiter::Disk(_) | Waiter::Nobody | Waiter::Expired => None,
        }
    }

    /// Returns whether the disk buffer has the request.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(*lock(&self.request.waiter), Waiter::Disk(_))
    }

    /// Ends the wait at its message's timeout: a client that still waits learns that its request
    /// may be stored. Returns whether one did.
    pub(crate) fn expire_client(&self, why: &str) -> bool {
        let mut waiter = lock(&self.request.waiter);
        if !matches!(*waiter, Waiter::Client(..)) {
            return false;
        }
        if let Waiter::Client(sender, _) = std::mem::replace(&mut *waiter, Waiter::Expired) {
            sender.finish_with(Err(PublishError::Unconfirmed(why.to_owned())));
        }
        true
    }

    /// Records that this part's message is safe.
    pub(crate) fn mark_delivered(self) {
        self.request.delivered.fetch_add(1, Ordering::AcqRel);
    }

    /// Records that other parts replace this one.
    pub(crate) fn mark_replaced(self) {
        self.request.parts.fetch_sub(1, Ordering::AcqRel);
    }

    /// Records that this part's message is not safe.
    pub(crate) fn mark_failed(self, why: PublishError) {
        self.request.set_failure(why);
    }
}

impl PendingRequest {
    /// Stores the first reason, unless a later one means that a part may be stored: no answer may
    /// suggest that nothing was.
    fn set_failure(&self, why: PublishError) {
        let mut failure = lock(&self.failure);
        if failure.is_none() || matches!(why, PublishError::Unconfirmed(_)) {
            *failure = Some(why);
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        // Free the budget before the answer: an answered client may send again at once.
        drop(self.reservation.take());
        let waiter = self.waiter.get_mut().unwrap_or_else(PoisonError::into_inner);
        let sender = match std::mem::replace(waiter, Waiter::Nobody) {
            Waiter::Client(sender, _) | Waiter::Disk(sender) => sender,
            Waiter::Nobody | Waiter::Expired => return,
        };
        let (delivered, parts) = (*self.delivered.get_mut(), *self.parts.get_mut());
        let failure = self.failure.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        sender.finish_with(match failure {
            None if delivered == parts => Ok(std::mem::take(&mut self.result)),
            None => Err(PublishError::Unconfirmed("a message was abandoned".to_owned())),
            Some(why) if delivered == 0 => Err(why),
            // Part of it is stored: no answer may suggest that nothing was.
            Some(why) => Err(PublishError::Unconfirmed(why.to_string())),
        });
    }
}

#[cfg(test)]
mod tests;
