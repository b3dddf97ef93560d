//! Classifies Kafka's errors for records: whether waiting can help, and what a person has to do.

use rdkafka::types::RDKafkaErrorCode as Code;

/// The kind of failure; it decides readiness and the metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Brokers are down, slow or moving: waiting helps.
    Passing,
    /// Only the queue is full: waiting helps, soon.
    Full,
    /// The message is longer than the topic accepts.
    TooLarge,
    /// Kafka refuses the log-in or the rights.
    Denied,
    /// The topic does not exist.
    NoTopic,
    /// The client library can't continue; only a new process can.
    Fatal,
}

impl Class {
    /// Returns the class of an error.
    pub(crate) fn from_code(code: Code) -> Self {
        match code {
            Code::QueueFull => Self::Full,
            Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
                Self::TooLarge
            }
            Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::SSL
            | Code::TopicAuthorizationFailed
            | Code::ClusterAuthorizationFailed => Self::Denied,
            Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition => {
                Self::NoTopic
            }
            Code::Fatal => Self::Fatal,
            _ => Self::Passing,
        }
    }

    /// Returns the metric label.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Full => "full",
            Self::TooLarge => "too_large",
            Self::Denied => "denied",
            Self::NoTopic => "no_topic",
            Self::Fatal => "fatal",
        }
    }

    /// Returns the action for a person.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Passing | Self::Full => {
                "senders retry; if this persists, check the brokers and the network"
            }
            Self::TooLarge => "raise the topic's max.message.bytes or lower maxMessageBytes",
            Self::Denied => "check the user name, the password, the ACLs and the certificates",
            Self::NoTopic => "create the topic or correct its name",
            Self::Fatal => "the process ends and must be restarted",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Code};

    /// Scenario: codes of each kind. Guarantee: only those that a person must repair are
    /// distinguished.
    #[test]
    fn codes_fall_into_their_classes() {
        let passing = [
            Code::MessageTimedOut,
            Code::NotEnoughReplicas,
            Code::NotLeaderForPartition,
            Code::BrokerTransportFailure,
            Code::AllBrokersDown,
            Code::RequestTimedOut,
            Code::PurgeQueue,
        ];
        assert!(passing.iter().all(|code| Class::from_code(*code) == Class::Passing));
        assert_eq!(Class::from_code(Code::MessageSizeTooLarge), Class::TooLarge);
        assert_eq!(Class::from_code(Code::TopicAuthorizationFailed), Class::Denied);
        assert_eq!(Class::from_code(Code::UnknownTopicOrPartition), Class::NoTopic);
        assert_eq!(Class::from_code(Code::QueueFull), Class::Full);
        assert_eq!(Class::from_code(Code::Fatal), Class::Fatal);
    }
}
