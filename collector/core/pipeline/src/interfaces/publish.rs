//! The interface between a receiver of requests and a publisher.
//!
//! A receiver passes a request's bytes and gets a [`PendingDelivery`] to wait on. A publisher never
//! blocks: without capacity it refuses at once, and the receiver gives its client a delay. Every
//! failure is temporary except [`PublishError::Unconfigured`], [`PublishError::TooLarge`],
//! [`PublishError::Malformed`] and [`PublishError::Rejected`]: no client may drop records for a
//! fault behind the receiver.
//!
//! Accounting: the publisher counts records as buffered from the call on, and as out or refused
//! when their delivery ends, whether or not a receiver still waits. It doesn't count requests
//! refused in the call. A request whose client was answered at its deadline counts by its actual
//! result: refused as timed out if none of it was sent, out once it is stored, otherwise
//! unconfirmed.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use millrace_wire::Signal;
use millrace_wire::otlp::RequestOutline;
use tokio::sync::oneshot;

use crate::budget::Reservation;
use crate::cancellation::Cancellation;

/// A checked request of one signal.
#[derive(Debug)]
pub struct PublishRequest<'a> {
    /// The signal of its records.
    pub signal: Signal,
    /// The checked request as plain protobuf.
    pub bytes: &'a [u8],
    /// The results of the check.
    pub checked: RequestOutline,
    /// Its share of the budget, as many bytes as it has. It moves with the records.
    pub reservation: Reservation,
    /// Whether its client still waits; the publisher checks this before it sends records.
    pub cancellation: Cancellation,
    /// The address of the client's end of the connection, an IPv4 address in IPv6 as IPv4; `None`
    /// if the records were read or scraped.
    pub client: Option<IpAddr>,
}

/// Accepts requests and makes them safe.
pub trait Publish: Send + Sync {
    /// Accepts a request or refuses all of it. Copies the bytes; never blocks.
    ///
    /// # Errors
    /// The reason why it was refused.
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError>;

    /// Whether a signal has a destination.
    fn accepts_signal(&self, signal: Signal) -> bool;
}

/// The reason why a request was not accepted or not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// The settings give this signal no destination; a retry can't help.
    #[error("this collector does not accept {0}: its settings give them no destination")]
    Unconfigured(Signal),
    /// No capacity: the client should send again soon.
    #[error("the collector is at its memory or buffer limit; retry later")]
    Full,
    /// The request exceeds the total capacity: a smaller one would be accepted.
    #[error("the request needs more memory than the collector has; send smaller batches")]
    TooLarge,
    /// The bytes aren't a request of their signal; a retry can't help.
    #[error("the request is malformed: {0}")]
    Malformed(String),
    /// The next system does not accept records now.
    #[error("the records were not accepted: {0}; retry later")]
    Unavailable(String),
    /// The next system didn't report whether it stored them.
    #[error("the records may be stored: {0}; retry, which stores the stored ones again")]
    Unconfirmed(String),
    /// A rule of the collector refuses the request; a retry can't help.
    #[error("{0}")]
    Rejected(String),
    /// The process is shutting down.
    #[error("the collector is shutting down; retry")]
    Draining,
}

impl PublishError {
    /// Returns why a request isn't accepted that needs `bytes` of the budget: only a client whose
    /// request never fits has to send a smaller one.
    #[must_use]
    pub fn of_full_budget(reservation: &Reservation, bytes: u64) -> Self {
        if reservation.can_ever_cover(bytes) { Self::Full } else { Self::TooLarge }
    }
}

/// The result of a delivered request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeliveryReceipt {
    /// Records omitted because no message can hold one; all others are delivered.
    pub rejected_records: u64,
    /// Records omitted because their times are not accepted.
    pub out_of_range_records: u64,
}

impl DeliveryReceipt {
    /// Returns the result of a delivery that omitted records too large for a message.
    #[must_use]
    pub fn with_rejected(rejected_records: u64) -> Self {
        Self { rejected_records, ..Self::default() }
    }

    fn add(&mut self, other: &Self) {
        let Self { rejected_records, out_of_range_records } = other;
        self.rejected_records += rejected_records;
        self.out_of_range_records += out_of_range_records;
    }
}

/// The awaitable outcome of a request: of all its parts, if it was divided.
#[derive(Debug)]
pub struct PendingDelivery {
    first: Answer,
    /// The other parts: none of usual requests.
    others: Vec<Answer>,
    /// The sum of the parts that were delivered.
    receipt: DeliveryReceipt,
}

/// One part's answer, until it has come.
type Answer = Option<oneshot::Receiver<Result<DeliveryReceipt, PublishError>>>;

/// The other end of a [`PendingDelivery`]. Dropping it unanswered answers
/// [`PublishError::Unconfirmed`].
#[derive(Debug)]
pub struct DeliverySender(oneshot::Sender<Result<DeliveryReceipt, PublishError>>);

impl PendingDelivery {
    /// Returns a delivery and its other end.
    #[must_use]
    pub fn new_pair() -> (DeliverySender, Self) {
        let (sender, receiver) = oneshot::channel();
        let (first, others, receipt) = (Some(receiver), Vec::new(), DeliveryReceipt::default());
        (DeliverySender(sender), Self { first, others, receipt })
    }

    /// Returns a delivery that has ended.
    #[must_use]
    pub fn delivered(receipt: DeliveryReceipt) -> Self {
        Self { first: None, others: Vec::new(), receipt }
    }

    /// Adds the delivery of another part of the request. The result is the sum of both, or the
    /// first error.
    pub fn join(&mut self, other: Self) {
        let Self { first, others, receipt } = other;
        self.others.push(first);
        self.others.extend(others);
        self.receipt.add(&receipt);
    }
}

impl DeliverySender {
    /// Whether no receiver waits any more: the client is gone, or must send again.
    #[must_use]
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }

    /// Reports the outcome, also if no receiver waits any more.
    pub fn finish_with(self, result: Result<DeliveryReceipt, PublishError>) {
        let _ = self.0.send(result);
    }
}

impl Future for PendingDelivery {
    type Output = Result<DeliveryReceipt, PublishError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { first, others, receipt } = &mut *self;
        let mut is_pending = false;
        for part in std::iter::once(first).chain(others) {
            let Some(answer) = part else { continue };
            match Pin::new(answer).poll(context) {
                Poll::Pending => is_pending = true,
                Poll::Ready(Ok(Ok(delivered))) => {
                    receipt.add(&delivered);
                    *part = None;
                }
                Poll::Ready(Ok(Err(refused))) => return Poll::Ready(Err(refused)),
                Poll::Ready(Err(_)) => {
                    let error = PublishError::Unconfirmed("delivery was abandoned".into());
                    return Poll::Ready(Err(error));
                }
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(Ok(std::mem::take(receipt))) }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::{DeliveryReceipt, PendingDelivery, PublishError};

    fn poll(delivery: &mut PendingDelivery) -> Poll<Result<DeliveryReceipt, PublishError>> {
        Pin::new(delivery).poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Scenario: a publisher loses a request. Guarantee: the receiver asks its client to send
    /// again.
    #[tokio::test]
    async fn a_lost_delivery_is_an_answer_that_asks_for_another_try() {
        let (sender, delivery) = PendingDelivery::new_pair();
        drop(sender);
        assert!(matches!(delivery.await, Err(PublishError::Unconfirmed(_))));
        let (sender, delivery) = PendingDelivery::new_pair();
        sender.finish_with(Ok(DeliveryReceipt::default()));
        assert_eq!(delivery.await, Ok(DeliveryReceipt::default()));
        let receipt = DeliveryReceipt::with_rejected(2);
        assert_eq!(PendingDelivery::delivered(receipt.clone()).await, Ok(receipt));
    }

    /// Scenario: a request in three parts: all are delivered, in any order; one is refused; one is
    /// lost. Guarantee: the sum once the last has come; the error at once.
    #[tokio::test]
    async fn the_outcome_of_a_divided_request_is_that_of_all_its_parts() {
        let refused = || Err(PublishError::Full);
        for fate in [Some(Ok(DeliveryReceipt::with_rejected(4))), Some(refused()), None] {
            let (first, mut delivery) = PendingDelivery::new_pair();
            let (second, part) = PendingDelivery::new_pair();
            delivery.join(part);
            let (third, part) = PendingDelivery::new_pair();
            delivery.join(part);
            third.finish_with(Ok(DeliveryReceipt::with_rejected(2)));
            assert!(poll(&mut delivery).is_pending());
            let expected = match &fate {
                Some(Ok(_)) => Ok(DeliveryReceipt::with_rejected(7)),
                Some(Err(_)) => Err(PublishError::Full),
                None => Err(PublishError::Unconfirmed("delivery was abandoned".into())),
            };
            match fate {
                Some(fate) => second.finish_with(fate),
                None => drop(second),
            }
            let first = if expected.is_ok() {
                assert!(poll(&mut delivery).is_pending());
                first.finish_with(Ok(DeliveryReceipt::with_rejected(1)));
                None
            } else {
                Some(first)
            };
            assert_eq!(delivery.await, expected);
            drop(first);
        }
    }
}
