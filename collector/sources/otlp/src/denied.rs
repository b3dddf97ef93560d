//! Defines why a request was refused, before gRPC or HTTP encodes it.
//!
//! Only this file decides whether a client may retry: a temporary failure always carries a delay, a
//! fault in the request never does. OTLP clients drop data after a code that isn't retryable, so a
//! mistake here loses data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_pipeline::publish::PublishError;
use millrace_pipeline::telemetry::RefusalReason;

/// An answer other than success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denial {
    pub(crate) kind: DenialKind,
    /// The text for the client's log.
    pub(crate) message: String,
}

/// The kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DenialKind {
    /// The bytes don't match their declared format, or a rule refuses the request.
    Malformed,
    /// The request is longer than the limit.
    TooLarge,
    /// An unsupported compression or content type.
    Unsupported,
    /// The signal isn't configured.
    Unconfigured,
    /// The collector has no capacity; retry after the delay.
    Full(Duration),
    /// Temporary failure; retry after the delay.
    Unavailable(Duration),
}

impl Denial {
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self { kind: DenialKind::Malformed, message: message.into() }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self { kind: DenialKind::TooLarge, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self { kind: DenialKind::Unsupported, message: message.into() }
    }

    pub(crate) fn full() -> Self {
        PublishError::Full.into()
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: DenialKind::Unavailable(retry_delay()), message: message.into() }
    }
}

impl From<PublishError> for Denial {
    fn from(refused: PublishError) -> Self {
        let kind = match &refused {
            PublishError::Unconfigured(_) => DenialKind::Unconfigured,
            PublishError::TooLarge => DenialKind::TooLarge,
            PublishError::Rejected(_) => DenialKind::Malformed,
            PublishError::Full => DenialKind::Full(retry_delay()),
            PublishError::Unavailable(_)
            | PublishError::Unconfirmed(_)
            | PublishError::Draining => DenialKind::Unavailable(retry_delay()),
        };
        Self { kind, message: refused.to_string() }
    }
}

/// Returns the metric label of a publisher's refusal.
pub(crate) fn refusal_label(refused: &PublishError) -> RefusalReason {
    match refused {
        PublishError::Unconfigured(_) => RefusalReason::Unconfigured,
        PublishError::TooLarge => RefusalReason::TooLarge,
        PublishError::Rejected(_) => RefusalReason::RuleFailed,
        PublishError::Full => RefusalReason::Full,
        PublishError::Unavailable(_) => RefusalReason::Unavailable,
        PublishError::Unconfirmed(_) => RefusalReason::Unconfirmed,
        PublishError::Draining => RefusalReason::Draining,
    }
}

/// Returns the delay before a client's retry: one to two seconds, spread so that clients that were
/// refused together don't return together.
fn retry_delay() -> Duration {
    static STEPS: AtomicU64 = AtomicU64::new(0);
    // Steps of the golden ratio fill an interval evenly, whatever the number of steps.
    let turn = STEPS.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    Duration::from_millis(1000 + (turn >> 32) % 1000)
}

#[cfg(test)]
mod tests {
    use super::{Denial, DenialKind, retry_delay};
    use millrace_pipeline::publish::PublishError;
    use millrace_wire::Signal;

    /// Scenario: each refusal of a publisher. Guarantee: temporary failures have a delay, and only
    /// they.
    #[test]
    fn passing_trouble_always_has_a_delay() {
        assert!(matches!(Denial::from(PublishError::Full).kind, DenialKind::Full(_)));
        assert!(matches!(Denial::from(PublishError::Draining).kind, DenialKind::Unavailable(_)));
        for passing in [PublishError::Unavailable, PublishError::Unconfirmed] {
            let denied = Denial::from(passing("away".to_owned()));
            assert!(matches!(denied.kind, DenialKind::Unavailable(_)));
        }
        let rejected = Denial::from(PublishError::Rejected("a rule failed".to_owned()));
        assert_eq!(rejected.kind, DenialKind::Malformed);
        assert_eq!(
            Denial::from(PublishError::Unconfigured(Signal::Logs)).kind,
            DenialKind::Unconfigured
        );
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
