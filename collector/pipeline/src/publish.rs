//! The interface between a receiver of requests and a publisher.
//!
//! A receiver passes a request's bytes and gets a [`Delivery`] to wait on. A publisher never
//! blocks: with no room it refuses at once, and the receiver gives its client a delay. Every
//! failure here is temporary except [`Refused::Unconfigured`]: a client must never be asked to drop
//! records for a fault behind the receiver.
//!
//! Accounting: the publisher counts records as buffered from the call on, and as out or refused
//! when their delivery ends, whether or not anyone still waits for it. It doesn't count what it
//! refuses in the call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use millrace_wire::Signal;
use millrace_wire::otlp::Checked;
use tokio::sync::oneshot;

use crate::budget::Reservation;

/// A checked request of one signal.
#[derive(Debug)]
pub struct Request<'a> {
    /// What its records are.
    pub signal: Signal,
    /// The request as plain protobuf, checked.
    pub bytes: &'a [u8],
    /// What the check found in it.
    pub checked: Checked,
    /// Its share of the budget: as many bytes as it has. It travels with the records.
    pub reservation: Reservation,
}

/// Something that takes requests and makes them safe.
pub trait Publish: Send + Sync {
    /// Takes a request, or refuses it whole. Copies the bytes; never blocks.
    ///
    /// # Errors
    /// Why nothing of it was taken.
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused>;

    /// Whether a signal has a destination.
    fn takes(&self, signal: Signal) -> bool;
}

/// Why a request was not taken or not delivered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// This signal has no destination: a matter of settings, which doesn't pass.
    #[error("{0} are not collected here: the settings give them nowhere to go")]
    Unconfigured(Signal),
    /// No room: the client should send again soon.
    #[error("the collector holds as much as it may; send again later")]
    Full,
    /// The next system does not take records now.
    #[error("the records were not taken: {0}; send again later")]
    Unavailable(String),
    /// The next system didn't say whether it stored them.
    #[error(
        "whether the records were stored is not known: {0}; send them again, and what was stored \
         may then be there twice"
    )]
    Unconfirmed(String),
    /// The process is shutting down.
    #[error("the collector is shutting down; send again")]
    Draining,
}

/// What became of a request that was taken and delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delivered {
    /// Records left out because no message can hold one; all others are delivered.
    pub rejected_records: u64,
}

/// The outcome of a request, to be waited for.
#[derive(Debug)]
pub struct Delivery(oneshot::Receiver<Result<Delivered, Refused>>);

/// The other end of a [`Delivery`]. Dropping it unanswered answers
/// [`Refused::Unconfirmed`].
#[derive(Debug)]
pub struct DeliverySender(oneshot::Sender<Result<Delivered, Refused>>);

impl Delivery {
    /// A delivery and its other end.
    #[must_use]
    pub fn pair() -> (DeliverySender, Self) {
        let (sender, receiver) = oneshot::channel();
        (DeliverySender(sender), Self(receiver))
    }
}

impl DeliverySender {
    /// Whether nobody waits any more: the client is gone, or was asked to send again.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.0.is_closed()
    }

    /// Reports the outcome. Nobody may be waiting any more.
    pub fn finish(self, result: Result<Delivered, Refused>) {
        let _ = self.0.send(result);
    }
}

impl Future for Delivery {
    type Output = Result<Delivered, Refused>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|answer| {
            answer.unwrap_or_else(|_| Err(Refused::Unconfirmed("its delivery was given up".into())))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Delivered, Delivery, Refused};

    /// Scenario: a publisher loses a request. Guarantee: whoever waits is asked to send again.
    #[tokio::test]
    async fn a_lost_delivery_is_an_answer_that_asks_for_another_try() {
        let (sender, delivery) = Delivery::pair();
        drop(sender);
        assert!(matches!(delivery.await, Err(Refused::Unconfirmed(_))));
        let (sender, delivery) = Delivery::pair();
        sender.finish(Ok(Delivered::default()));
        assert_eq!(delivery.await, Ok(Delivered { rejected_records: 0 }));
    }
}
