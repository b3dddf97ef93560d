//! Kafka errors under stable reasons, in words that don't vary while the cause is the same (a
//! status is written only when it changes).

use millrace_crds::Reason;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::error::{Category, Step, StepError};

/// A failed conversation with Kafka.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// The stable reason.
    pub reason: Reason,
    /// What happened, where, and what to do next.
    pub message: String,
    /// The broker says that it is temporary: retry within the same conversation.
    pub passes: bool,
}

impl Failure {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), passes: false }
    }

    /// The runtime is stopping.
    pub(super) fn interrupted() -> Self {
        Self::new(Reason::KafkaUnreachable, "the conversation with Kafka was interrupted")
    }

    /// More wait for this cluster than the operator lets.
    pub(super) fn crowded() -> Self {
        let message = "too many wait for this Kafka cluster already; tried again by itself";
        Self::new(Reason::KafkaUnreachable, message)
    }

    /// An answer of the broker to `what`, a verb phrase naming the object.
    pub(super) fn answered(what: &str, code: RDKafkaErrorCode) -> Self {
        use RDKafkaErrorCode as Code;
        let reason = match code {
            Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed => Reason::KafkaNotAuthorized,
            Code::SaslAuthenticationFailed | Code::Authentication => {
                Reason::KafkaAuthenticationFailed
            }
            Code::InvalidReplicationFactor => Reason::ReplicationImpossible,
            Code::InvalidConfig => Reason::TopicSettingRefused,
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
            _ => Reason::KafkaRefused,
        };
        let advice = match reason {
            Reason::KafkaNotAuthorized => "; grant it to the user in the credentials",
            Reason::ReplicationImpossible => {
                "; write a replicationFactor that is at most the number of brokers"
            }
            Reason::TopicSettingRefused => "; correct the topic's settings",
            _ => "",
        };
        let passes = matches!(
            code,
            Code::CoordinatorLoadInProgress
                | Code::CoordinatorNotAvailable
                | Code::NotCoordinator
                | Code::UnstableOffsetCommit
        );
        let message = format!("cannot {what}: {}{advice}", words(code));
        Self { reason, message, passes }
    }

    /// A failed call while doing `what`.
    pub(super) fn call(what: &str, error: &KafkaError) -> Self {
        match error.rdkafka_error_code() {
            Some(code) => Self::answered(what, code),
            None => Self::new(Reason::KafkaRefused, format!("cannot {what}: {error}")),
        }
    }

    /// As the failure of a reconcile's step.
    #[must_use]
    pub fn at(self, step: Step) -> StepError {
        StepError::new(step, Category::External, self.reason, self)
    }
}

/// librdkafka's text for a code, without its prefix.
fn words(code: RDKafkaErrorCode) -> String {
    let text = code.to_string();
    // "InvalidConfig (Broker: Configuration is invalid)": the part in brackets is the readable one.
    match (text.find('('), text.rfind(')')) {
        (Some(open), Some(close)) if open < close => text[open + 1..close].to_owned(),
        _ => text,
    }
}

/// Removes what varies between attempts (times, counts, resolved addresses) from librdkafka's
/// message about a connection: `Connect to ipv4#10.0.0.1:9092 failed: Connection refused (after 0ms
/// in state CONNECT)`.
pub(super) fn settled(text: &str) -> String {
    let text = text.split(" (after ").next().unwrap_or(text);
    let text = text.split(", 1 identical").next().unwrap_or(text);
    // "sasl_plaintext://host:port/bootstrap: cause": the cause alone stays the same.
    let text = match text.split_once("/bootstrap: ") {
        Some((_, cause)) => cause,
        None => text,
    };
    text.trim().trim_end_matches(['.', ':']).to_owned()
}

#[cfg(test)]
#[path = "../../tests/unit/kafka/failure.rs"]
mod tests;
