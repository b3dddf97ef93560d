//! Defines why a request was refused, before gRPC or HTTP encodes it.
//!
//! Only this file decides whether a client may retry: a temporary failure always carries a delay, a
//! fault in the request never does. OTLP clients drop data after a code that isn't retryable, so a
//! mistake here loses data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_pipeline::publish::PublishError;
use millrace_pipeline::telemetry::RefusalReason;

/// The gRPC codes of answers, which a `google.rpc.Status` over HTTP has too. INTERNAL and UNKNOWN
/// are excluded on purpose: they make an OTLP client drop its data.
pub(crate) mod code {
    pub(crate) const OK: u32 = 0;
    pub(crate) const INVALID_ARGUMENT: u32 = 3;
    pub(crate) const RESOURCE_EXHAUSTED: u32 = 8;
    pub(crate) const UNIMPLEMENTED: u32 = 12;
    pub(crate) const UNAVAILABLE: u32 = 14;
}

/// An answer other than success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) reason: RefusalReason,
    /// The text for the client's log.
    pub(crate) message: String,
}

impl Denial {
    pub(crate) fn new(reason: RefusalReason, message: impl ToString) -> Self {
        Self { reason, message: message.to_string() }
    }

    pub(crate) fn full() -> Self {
        PublishError::Full.into()
    }

    pub(crate) fn too_large(limit_bytes: usize) -> Self {
        let message = format!("the request exceeds {limit_bytes} bytes; send smaller batches");
        Self::new(RefusalReason::TooLarge, message)
    }

    /// Returns the answer's gRPC code.
    pub(crate) const fn code(&self) -> u32 {
        match self.reason {
            // OTLP has no code for a request that is too large. Some clients treat
            // RESOURCE_EXHAUSTED without a delay that way, but others retry for ever.
            RefusalReason::Malformed
            | RefusalReason::TooLarge
            | RefusalReason::TimeOutOfRange
            | RefusalReason::RuleFailed => code::INVALID_ARGUMENT,
            RefusalReason::Unsupported | RefusalReason::Unconfigured => code::UNIMPLEMENTED,
            RefusalReason::Full => code::RESOURCE_EXHAUSTED,
            RefusalReason::Unavailable
            | RefusalReason::Draining
            | RefusalReason::Timeout
            | RefusalReason::Unconfirmed => code::UNAVAILABLE,
        }
    }

    /// Returns the delay before the client's retry; `None` if a retry can't help.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        matches!(self.code(), code::RESOURCE_EXHAUSTED | code::UNAVAILABLE).then(retry_delay)
    }
}

impl From<PublishError> for Denial {
    fn from(refused: PublishError) -> Self {
        let reason = match &refused {
            PublishError::Unconfigured(_) => RefusalReason::Unconfigured,
            PublishError::TooLarge => RefusalReason::TooLarge,
            PublishError::Malformed(_) => RefusalReason::Malformed,
            PublishError::Rejected(_) => RefusalReason::RuleFailed,
            PublishError::Full => RefusalReason::Full,
            PublishError::Unavailable(_) => RefusalReason::Unavailable,
            PublishError::Unconfirmed(_) => RefusalReason::Unconfirmed,
            PublishError::Draining => RefusalReason::Draining,
        };
        Self::new(reason, refused)
    }
}

/// Returns the delay before a client's retry: one to two seconds, spread so that clients that were
/// refused together don't return together.
fn retry_delay() -> Duration {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    // Steps of the golden ratio fill an interval evenly, whatever the number of steps.
    let step = STEPS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    Duration::from_millis(1000 + (step >> 32) % 1000)
}

#[cfg(test)]
mod tests {
    use super::{Denial, code, retry_delay};
    use millrace_pipeline::publish::PublishError;
    use millrace_wire::Signal;

    /// Scenario: each refusal of a publisher. Guarantee: temporary failures have a delay, and only
    /// they.
    #[test]
    fn passing_trouble_always_has_a_delay() {
        let answer = |refused: PublishError| {
            let denied = Denial::from(refused);
            (denied.code(), denied.retry_after().is_some())
        };
        assert_eq!(answer(PublishError::Full), (code::RESOURCE_EXHAUSTED, true));
        assert_eq!(answer(PublishError::Draining), (code::UNAVAILABLE, true));
        for passing in [PublishError::Unavailable, PublishError::Unconfirmed] {
            assert_eq!(answer(passing("away".to_owned())), (code::UNAVAILABLE, true));
        }
        for lasting in [PublishError::Malformed, PublishError::Rejected] {
            let refused = lasting("a field is cut off".to_owned());
            assert_eq!(answer(refused), (code::INVALID_ARGUMENT, false));
        }
        assert_eq!(answer(PublishError::TooLarge), (code::INVALID_ARGUMENT, false));
        let unconfigured = PublishError::Unconfigured(Signal::Logs);
        assert_eq!(answer(unconfigured), (code::UNIMPLEMENTED, false));
    }

    /// Scenario: a thousand clients refused together. Guarantee: their delays are spread.
    #[test]
    fn delays_are_between_one_and_two_seconds_and_spread() {
        let mut delays: Vec<u128> = (0..1000).map(|_| retry_delay().as_millis()).collect();
        delays.sort_unstable();
        delays.dedup();
        assert!(delays.len() > 500, "{}", delays.len());
        assert!(delays.iter().all(|delay| (1000..2000).contains(delay)));
    }
}
