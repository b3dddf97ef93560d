//! Sends requests that a receiver made itself: from log files, the kernel's log and scraped
//! targets. Each attempt reserves its bytes, goes to the publisher, and is counted.
//!
//! It must not decide what a refusal means: order, retries and giving up are the receiver's
//! decision.

use std::sync::Arc;
use std::time::Duration;

use crate::budget::Budget;
use crate::delivery::backoff::BackoffPolicy;
use crate::delivery::cancellation::Cancellation;
use crate::drain::Drain;
use crate::publish::{PendingDelivery, Publish, PublishError, PublishRequest};
use crate::telemetry::Telemetry;
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
    /// Sends a request once.
    ///
    /// # Errors
    /// If the budget has no capacity for it, or the publisher refuses it.
    pub fn send_once(
        &self,
        signal: Signal,
        bytes: &[u8],
        checked: &RequestOutline,
    ) -> Result<PendingDelivery, PublishError> {
        let reservation = self.budget.try_reserve(bytes.len() as u64).ok_or(PublishError::Full)?;
        let (checked, cancellation) = (checked.clone(), Cancellation::default());
        let records = checked.records;
        let delivery = self.publisher.publish(PublishRequest {
            signal,
            bytes,
            checked,
            reservation,
            cancellation,
            client: None,
        })?;
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
