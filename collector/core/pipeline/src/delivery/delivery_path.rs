//! Sends requests that a receiver made itself: from log files, the kernel's log and scraped
//! targets. Each attempt reserves its bytes, goes to the publisher, and is counted.
//!
//! Apart from a malformed request, which nothing can repair, it must not decide what a refusal
//! means: order, retries and giving up are the receiver's decision.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budget;
use crate::delivery::backoff::BackoffPolicy;
use crate::delivery::cancellation::Cancellation;
use crate::drain::Drain;
use crate::publish::{DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest};
use crate::telemetry::{RefusalReason, Telemetry};
use millrace_wire::Signal;
use millrace_wire::otlp::RequestOutline;

/// The waits of a refused request: the first is no longer than a broker's short failure, and none
/// is so long that a node's logs rotate away in the meantime.
pub const SEND_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// The destination of requests and the telemetry that counts them.
#[derive(Clone)]
pub struct DeliveryPath {
    /// The budget from which each request's bytes are reserved.
    pub budget: Budget,
    /// The telemetry that counts records.
    pub telemetry: Arc<Telemetry>,
    /// The publisher that accepts the requests.
    pub publisher: Arc<dyn Publish>,
}

impl std::fmt::Debug for DeliveryPath {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("DeliveryPath").finish_non_exhaustive()
    }
}

/// The drain's deadline came before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

impl DeliveryPath {
    /// Sends a request once. One that is refused as malformed counts as delivered without its
    /// records: nobody could correct it, and sent again for ever it would stop its source.
    ///
    /// # Errors
    /// If the budget has no capacity for it, or the publisher refuses it for now.
    pub fn send_once(
        &self,
        signal: Signal,
        bytes: &[u8],
        checked: &RequestOutline,
    ) -> Result<PendingDelivery, PublishError> {
        let reservation = self.budget.try_reserve(bytes.len() as u64).ok_or(PublishError::Full)?;
        let (checked, cancellation) = (checked.clone(), Cancellation::default());
        let records = checked.records;
        let delivery = match self.publisher.publish(PublishRequest {
            signal,
            bytes,
            checked,
            reservation,
            cancellation,
            client: None,
        }) {
            Err(PublishError::Malformed(_)) => {
                self.telemetry.record_refused(signal, RefusalReason::Malformed, records);
                PendingDelivery::delivered(DeliveryReceipt::with_rejected(records))
            }
            delivery => delivery?,
        };
        // Counted with each attempt: the publisher counts a failed one as refused.
        self.telemetry.records_in(signal, records);
        Ok(delivery)
    }

    /// Sends a request once and waits for the answer.
    ///
    /// # Errors
    /// If the drain's deadline comes first.
    pub async fn send_and_wait(
        &self,
        signal: Signal,
        bytes: &[u8],
        checked: &RequestOutline,
        drain: &Drain,
    ) -> Result<Result<(), PublishError>, Expired> {
        match self.send_once(signal, bytes, checked) {
            Ok(delivery) => tokio::select! {
                answer = delivery => Ok(answer.map(drop)),
                () = drain.wait_for_deadline() => Err(Expired),
            },
            Err(refused) => Ok(Err(refused)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Refuses each request as malformed.
    struct Refusing;

    impl Publish for Refusing {
        fn publish(&self, _: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
            Err(PublishError::Malformed("a field is cut off".to_owned()))
        }

        fn accepts_signal(&self, _: Signal) -> bool {
            true
        }
    }

    /// Scenario: a source without clients sends a request that is refused as malformed. Guarantee:
    /// its records are counted as refused and the source continues.
    #[tokio::test]
    async fn a_malformed_request_does_not_stop_its_source() {
        let budget = Budget::new(1 << 20);
        let telemetry = Arc::new(Telemetry::new(budget.clone(), "0", "system").unwrap());
        let path = DeliveryPath { budget, telemetry, publisher: Arc::new(Refusing) };
        let sent = path.send_once(Signal::Logs, b"x", &RequestOutline::unjoinable(3)).unwrap();
        assert_eq!(sent.await, Ok(DeliveryReceipt::with_rejected(3)));
        let metrics = path.telemetry.render().unwrap();
        let line = "millrace_records_refused_total{reason=\"malformed\",signal=\"logs\"} 3";
        assert!(metrics.contains(line), "{metrics}");
    }
}
