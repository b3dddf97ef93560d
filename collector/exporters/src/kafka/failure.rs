//! The meaning of Kafka's errors for records: whether waiting can help, and what a person has to
//! do.

use rdkafka::types::RDKafkaErrorCode as Code;

/// What kind of failure it is; decides readiness and the metric's label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Brokers are away, slow or moving: waiting helps.
    Passing,
    /// Only the queue is full: waiting helps, soon.
    Full,
    /// The message is longer than the topic takes.
    TooLarge,
    /// Kafka refuses our log-in or rights.
    Denied,
    /// The topic does not exist.
    NoTopic,
    /// The client library can't continue; only a new process can.
    Fatal,
}

impl Class {
    /// The class of an error.
    pub(crate) fn of(code: Code) -> Self {
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

    /// The metric label.
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

    /// What to do about it; none for what passes.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Passing | Self::Full => "it passes by itself; senders are told to come back",
            Self::TooLarge => "raise the topic's max.message.bytes or lower maxMessageBytes",
            Self::Denied => "check the user, its password, its rights and the certificates",
            Self::NoTopic => "create the topic or correct its name",
            Self::Fatal => "the process has to start again",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Code};

    /// Scenario: codes of each kind. Guarantee: only what a person must repair is distinguished.
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
        assert!(passing.iter().all(|code| Class::of(*code) == Class::Passing));
        assert_eq!(Class::of(Code::MessageSizeTooLarge), Class::TooLarge);
        assert_eq!(Class::of(Code::TopicAuthorizationFailed), Class::Denied);
        assert_eq!(Class::of(Code::UnknownTopicOrPartition), Class::NoTopic);
        assert_eq!(Class::of(Code::QueueFull), Class::Full);
        assert_eq!(Class::of(Code::Fatal), Class::Fatal);
    }
}
