//! Maps Kafka errors to stable reasons, with messages that don't vary while the cause is the same
//! (a status is written only when it changes).

use millrace_crds::Reason;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::error::{Category, ReconcileStep, StepError};

/// A failed operation on Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The stable reason.
    pub reason: Reason,
    /// What happened, where, and what to do next.
    pub message: String,
    /// Whether the broker reports a temporary error: retry within the same call.
    pub passes: bool,
}

impl Failure {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), passes: false }
    }

    /// Creates the failure for a runtime shutdown.
    pub(super) fn interrupted() -> Self {
        Self::new(Reason::KafkaUnreachable, "the exchange with Kafka was interrupted")
    }

    /// Creates the failure for too many waiting calls to one cluster.
    pub(super) fn queue_full() -> Self {
        let message = "too many requests wait for this Kafka cluster; the operator retries \
                       automatically";
        Self::new(Reason::KafkaUnreachable, message)
    }

    /// Creates the failure for a broker's response to `what`, a verb phrase naming the object.
    pub(super) fn from_code(what: &str, code: RDKafkaErrorCode) -> Self {
        use RDKafkaErrorCode as Code;
        let reason = match code {
            Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed => Reason::KafkaNotAuthorized,
            Code::SaslAuthenticationFailed | Code::Authentication => {
                Reason::KafkaAuthenticationFailed
            }
            Code::InvalidReplicationFactor => Reason::TooFewBrokers,
            Code::InvalidConfig => Reason::TopicSettingRejected,
            Code::UnknownTopic | Code::UnknownTopicOrPartition => Reason::TopicMissing,
            Code::SSL => Reason::KafkaTlsFailed,
            Code::Resolve => Reason::KafkaHostUnknown,
            Code::OperationTimedOut
            | Code::RequestTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::LeaderNotAvailable
            | Code::BrokerNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::UnstableOffsetCommit
            | Code::NetworkException
            | Code::NoEnt
            | Code::NotLeaderForPartition
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::UnknownPartition => Reason::KafkaUnreachable,
            _ => Reason::KafkaRequestRejected,
        };
        let advice = match reason {
            Reason::KafkaNotAuthorized => "; grant it to the user in the credentials",
            Reason::TooFewBrokers => {
                "; write a replicationFactor that is at most the number of brokers"
            }
            Reason::TopicSettingRejected => "; correct the topic's settings",
            _ => "",
        };
        let passes = matches!(
            code,
            Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::UnstableOffsetCommit
        );
        let message = format!("cannot {what}: {}{advice}", code_text(code));
        Self { reason, message, passes }
    }

    /// Creates the failure for a library error during `what`.
    pub(super) fn from_error(what: &str, error: &KafkaError) -> Self {
        match error.rdkafka_error_code() {
            Some(code) => Self::from_code(what, code),
            None => Self::new(Reason::KafkaRequestRejected, format!("cannot {what}: {error}")),
        }
    }

    /// Converts it into the failure of a reconcile's step.
    #[must_use]
    pub fn at_step(self, step: ReconcileStep) -> StepError {
        StepError::new(step, Category::External, self.reason, self)
    }
}

/// Returns librdkafka's text for a code, without its prefix.
fn code_text(code: RDKafkaErrorCode) -> String {
    let text = code.to_string();
    // "InvalidConfig (Broker: Configuration is invalid)": the part in brackets is the readable one.
    match (text.find('('), text.rfind(')')) {
        (Some(open), Some(close)) if open < close => text[open + 1..close].to_owned(),
        _ => text,
    }
}

/// Removes the parts that vary between attempts (times, counts, resolved addresses) from
/// librdkafka's message about a connection: `Connect to ipv4#10.0.0.1:9092 failed: Connection
/// refused (after 0ms in state CONNECT)`.
pub(super) fn strip_variable_parts(text: &str) -> String {
    let text = text.split(" (after ").next().unwrap_or(text);
    let text = text.split(", 1 identical").next().unwrap_or(text);
    // "sasl_plaintext://host:port/bootstrap: cause": only the cause is stable.
    let text = match text.split_once("/bootstrap: ") {
        Some((_, cause)) => cause,
        None => text,
    };
    text.trim().trim_end_matches(['.', ':']).to_owned()
}

#[cfg(test)]
mod tests;
