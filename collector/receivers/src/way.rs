//! How requests that a receiver made itself are sent: of log files, of the kernel's log, of scraped
//! targets. Each try reserves its bytes, is handed to the publisher, and is counted.
//!
//! Must not decide what a refusal means: order, patience and giving up are the receiver's.

use std::sync::Arc;
use std::time::Duration;

use millrace_pipeline::backoff::BackoffPolicy;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{Delivery, Publish, Refused, Request};
use millrace_pipeline::telemetry::Telemetry;
use millrace_wire::Signal;
use millrace_wire::otlp::Checked;

/// How long a refused request waits: the first time no longer than a broker's hiccup, and never so
/// long that a node's logs rotate away meanwhile.
pub(crate) const SEND_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(5) };

/// Where requests go, and what they are counted by.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) budget: Budget,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) publisher: Arc<dyn Publish>,
}

impl std::fmt::Debug for Way {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Way").finish_non_exhaustive()
    }
}

/// The drain's deadline came before the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired;

impl Way {
    /// Sends once.
    ///
    /// # Errors
    /// When the budget has no room for it, or the publisher refuses it.
    pub(crate) fn send(
        &self,
        signal: Signal,
        bytes: &[u8],
        checked: &Checked,
    ) -> Result<Delivery, Refused> {
        let reservation = self.budget.try_reserve(bytes.len() as u64).ok_or(Refused::Full)?;
        let checked = checked.clone();
        let records = checked.records;
        let delivery = self.publisher.publish(Request { signal, bytes, checked, reservation })?;
        // With each try: the publisher counts a failed one as refused.
        self.telemetry.records_in(signal, records);
        Ok(delivery)
    }

    /// Sends once and waits for the answer.
    ///
    /// # Errors
    /// When the drain's deadline comes first.
    pub(crate) async fn deliver(
        &self,
        signal: Signal,
        bytes: &[u8],
        checked: &Checked,
        drain: &Drain,
    ) -> Result<Result<(), Refused>, Expired> {
        match self.send(signal, bytes, checked) {
            Ok(delivery) => tokio::select! {
                answer = delivery => Ok(answer.map(drop)),
                () = drain.expired() => Err(Expired),
            },
            Err(refused) => Ok(Err(refused)),
        }
    }
}
