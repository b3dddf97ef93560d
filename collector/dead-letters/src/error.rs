//! Errors of the dead-letter commands, and what to do about each.

use std::io;

use millrace_config::{SecretError, TopicName};
use millrace_exporters::kafka::ProducerError;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::select::Place;

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum DeadLetterError {
    /// A secret file of the connection.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The client library refused a setting, such as a certificate it can't read.
    #[error("the kafka client cannot be set up: {0}; check the connection's settings")]
    Client(#[source] KafkaError),
    /// The producer.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A topic that can't be read or asked for.
    #[error("topic {topic}: {source}; {}", advice(source))]
    Topic {
        /// The topic.
        topic: TopicName,
        /// What the client library said.
        source: KafkaError,
    },
    /// Reading stopped in the middle.
    #[error("topic {topic}, {next}: {source}; {}", advice(source))]
    Read {
        /// The topic.
        topic: TopicName,
        /// What would have been read next.
        next: Place,
        /// What the client library said.
        source: KafkaError,
    },
    /// The broker sent nothing any more.
    #[error("topic {topic}, {next}: nothing came for {seconds} s; is the broker there? Try again")]
    Silent {
        /// The topic.
        topic: TopicName,
        /// What would have been read next.
        next: Place,
        /// How long was waited.
        seconds: u64,
    },
    /// There is no letter at this place.
    #[error("topic {topic} has no letter at {place}; `list` says which it has")]
    Absent {
        /// The topic.
        topic: TopicName,
        /// The place.
        place: Place,
    },
    /// A letter was not taken. What was sent before it is marked.
    #[error(
        "letter {place} of {from} was not taken by {to}: {code}; mend that and run again: what \
         was sent and marked stays sent"
    )]
    NotTaken {
        /// The dead-letter topic.
        from: TopicName,
        /// The letter.
        place: Place,
        /// Its destination.
        to: TopicName,
        /// Why.
        code: Code,
    },
    /// Letters were sent, and then the mark was not taken.
    #[error(
        "topic {topic}: the mark that {places} are sent was not taken: {code}; they were sent, and \
         will be sent twice by the next run unless it leaves them out"
    )]
    NotMarked {
        /// The dead-letter topic.
        topic: TopicName,
        /// What was sent, as ranges of places.
        places: String,
        /// Why.
        code: Code,
    },
    /// Nobody reads the answer any more, or it can't be written.
    #[error("cannot write the answer: {0}")]
    Output(#[from] io::Error),
}

/// What a person can do about it.
fn advice(error: &KafkaError) -> &'static str {
    match error.rdkafka_error_code() {
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
            "check its name; a dead-letter topic must exist before the first letter"
        }
        Some(Code::TopicAuthorizationFailed) => {
            "give the user Read and Describe on it, and Write for `resend`"
        }
        Some(Code::GroupAuthorizationFailed) => {
            "name a group with --group that the user may read with; nothing is committed in it"
        }
        Some(Code::Authentication | Code::SaslAuthenticationFailed | Code::SSL) => {
            "check the user, its password and the certificates"
        }
        _ => "check that the brokers can be reached from here, and try again",
    }
}
