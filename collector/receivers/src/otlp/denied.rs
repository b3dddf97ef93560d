//! Why a request was not taken, before gRPC or HTTP expresses it.
//!
//! The one place that decides whether a client may try again: a temporary failure always carries a
//! delay, a fault in the request never does. OTLP clients drop data after a code that isn't
//! retryable, so a mistake here is data loss.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millrace_pipeline::publish::Refused;
use millrace_pipeline::telemetry::Refusal;

/// An answer other than success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) kind: Kind,
    /// For the client's log.
    pub(crate) message: String,
}

/// What kind of answer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The bytes are not what they claim to be.
    Malformed,
    /// Longer than the limit.
    TooLarge,
    /// An unsupported compression or content type.
    Unsupported,
    /// A signal that isn't configured here.
    Unconfigured,
    /// No room; retry after the delay.
    Full(Duration),
    /// Temporary failure; retry after the delay.
    Unavailable(Duration),
}

impl Denied {
    pub(crate) fn malformed(message: impl Into<String>) -> Self {
        Self { kind: Kind::Malformed, message: message.into() }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self { kind: Kind::TooLarge, message: message.into() }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self { kind: Kind::Unsupported, message: message.into() }
    }

    pub(crate) fn full() -> Self {
        Refused::Full.into()
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self { kind: Kind::Unavailable(retry_delay()), message: message.into() }
    }
}

impl From<Refused> for Denied {
    fn from(refused: Refused) -> Self {
        let kind = match &refused {
            Refused::Unconfigured(_) => Kind::Unconfigured,
            Refused::Full => Kind::Full(retry_delay()),
            Refused::Unavailable(_) | Refused::Unconfirmed(_) | Refused::Draining => {
                Kind::Unavailable(retry_delay())
            }
        };
        Self { kind, message: refused.to_string() }
    }
}

/// The metric label of a publisher's refusal.
pub(crate) fn reason(refused: &Refused) -> Refusal {
    match refused {
        Refused::Unconfigured(_) => Refusal::Unconfigured,
        Refused::Full => Refusal::Full,
        Refused::Unavailable(_) | Refused::Unconfirmed(_) => Refusal::Unavailable,
        Refused::Draining => Refusal::Draining,
    }
}

/// Delay before a client's retry: one to two seconds, spread so that clients refused together don't
/// return together.
fn retry_delay() -> Duration {
    static TURN: AtomicU64 = AtomicU64::new(0);
    // Steps of the golden ratio fill an interval evenly, whatever the number of steps.
    let turn = TURN.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    Duration::from_millis(1000 + (turn >> 32) % 1000)
}

#[cfg(test)]
mod tests {
    use super::{Denied, Kind, retry_delay};
    use millrace_pipeline::publish::Refused;
    use millrace_wire::Signal;

    /// Scenario: each refusal of a publisher. Guarantee: passing trouble has a delay, and only it.
    #[test]
    fn passing_trouble_always_has_a_delay() {
        assert!(matches!(Denied::from(Refused::Full).kind, Kind::Full(_)));
        assert!(matches!(Denied::from(Refused::Draining).kind, Kind::Unavailable(_)));
        for passing in [Refused::Unavailable, Refused::Unconfirmed] {
            let denied = Denied::from(passing("away".to_owned()));
            assert!(matches!(denied.kind, Kind::Unavailable(_)));
        }
        assert_eq!(Denied::from(Refused::Unconfigured(Signal::Logs)).kind, Kind::Unconfigured);
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
