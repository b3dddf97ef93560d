//! Errors of the dead-letter commands, and what to do about each.

use std::io;

use millrace_config::{SecretError, TopicName};
use millrace_sink_kafka::ProducerError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::select::PartitionOffset;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    /// A secret file of the connection is unusable.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The client library refused a setting, such as a certificate it can't read.
    #[error("cannot create the Kafka client: {0}; check the connection settings")]
    Client(#[source] KafkaError),
    /// The producer failed.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A topic can't be read or queried.
    #[error("topic {topic}: {source}; {}", advice(source))]
    Topic {
        /// The topic.
        topic: TopicName,
        /// The client library's error.
        source: KafkaError,
    },
    /// Reading stopped before the end.
    #[error("topic {topic}, {next}: {source}; {}", advice(source))]
    Read {
        /// The topic.
        topic: TopicName,
        /// The next position to read.
        next: PartitionOffset,
        /// The client library's error.
        source: KafkaError,
    },
    /// The broker stopped sending messages.
    #[error(
        "topic {topic}, {next}: no message arrived for {seconds} s; check that the broker is \
         reachable, then retry"
    )]
    Silent {
        /// The topic.
        topic: TopicName,
        /// The next position to read.
        next: PartitionOffset,
        /// How long the command waited, in seconds.
        seconds: u64,
    },
    /// There is no dead letter at this position.
    #[error("topic {topic} has no dead letter at {place}; `list` prints the existing ones")]
    Absent {
        /// The topic.
        topic: TopicName,
        /// The position.
        place: PartitionOffset,
    },
    /// A dead letter was not accepted. Those sent before it are marked.
    #[error(
        "{to} did not accept dead letter {place} of {from}: {code}; fix the cause and run the \
         command again: dead letters that were sent and marked are skipped"
    )]
    NotAccepted {
        /// The dead-letter topic.
        from: TopicName,
        /// The position of the dead letter.
        place: PartitionOffset,
        /// Its destination.
        to: TopicName,
        /// The cause.
        code: Code,
    },
    /// Dead letters were sent, but the mark was not accepted.
    #[error(
        "topic {topic}: {places} were sent, but the mark of this was not accepted: {code}; the \
         next run sends them again unless it excludes them"
    )]
    NotMarked {
        /// The dead-letter topic.
        topic: TopicName,
        /// The sent dead letters, as ranges of positions.
        places: String,
        /// The cause.
        code: Code,
    },
    /// The reader of the output is gone, or it can't be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

/// Returns the advice for an error.
fn advice(error: &KafkaError) -> &'static str {
    match error.rdkafka_error_code() {
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
            "check the topic name; a dead-letter topic must exist before the first dead letter"
        }
        Some(Code::TopicAuthorizationFailed) => {
            "grant the user Read and Describe on the topic, and Write for `resend`"
        }
        Some(Code::GroupAuthorizationFailed) => {
            "set --group to a consumer group that the user may read with; nothing is committed in \
             it"
        }
        Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL) => {
            "check the user name, the password and the certificates"
        }
        _ => "check that the brokers are reachable, then retry",
    }
}
