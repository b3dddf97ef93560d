//! Stores events from librdkafka to a consumer until the worker handles them.
//!
//! librdkafka calls back from inside `poll`. Handling a revocation there would drain inserts inside
//! the callback. Instead the event is only stored, and the worker calls `assign` or `unassign` when
//! it is done: librdkafka waits for that call, and heartbeats continue.
//!
//! The mailbox stays short: librdkafka sends the next rebalance only after the last was answered,
//! and a worker has one commit and one request for topics in flight.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use millrace_kafka_tokens::describe_refusal;
use millrace_pipeline::mutex::lock;
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::TopicPartitionList;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};

use crate::topics::ids::TopicIds;

/// A consumer of the group.
pub(crate) type GroupConsumer = BaseConsumer<Mailbox>;

/// An event that the worker has to handle.
#[derive(Debug)]
pub(crate) enum ConsumerEvent {
    /// Partitions to take over, by topic and number.
    Assigned(Vec<(String, i32)>),
    /// Partitions to release.
    Revoked {
        /// The partitions by topic and number.
        partitions: Vec<(String, i32)>,
        /// The partitions already belong to another member: nothing may be committed for them.
        lost: bool,
    },
    /// The ids of the topics in the settings, in their order. Arrives before the answer to the
    /// commit that it was requested with.
    Topics(TopicIds),
    /// The answer to the commit in flight.
    Committed(Result<(), KafkaError>),
}

/// The context of a worker's consumer.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    events: Mutex<VecDeque<ConsumerEvent>>,
    /// The consumer is being closed: nobody reads the mailbox any more, so rebalances are answered
    /// at once.
    closing: AtomicBool,
    /// Why Kafka refuses this client, if its newest error is a refusal.
    refusal: Mutex<Option<String>>,
}

impl Mailbox {
    pub(crate) fn next(&self) -> Option<ConsumerEvent> {
        lock(&self.events).pop_front()
    }

    pub(crate) fn mark_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn push(&self, event: ConsumerEvent) {
        lock(&self.events).push_back(event);
    }

    /// Describes an error of polling: one of connections by the refusal that caused it, if there is
    /// one. An error of a topic has its own cause.
    pub(crate) fn describe_error(&self, error: &KafkaError) -> String {
        let is_of_connections = matches!(
            error.rdkafka_error_code(),
            Some(
                RDKafkaErrorCode::SSL
                    | RDKafkaErrorCode::Authentication
                    | RDKafkaErrorCode::SaslAuthenticationFailed
                    | RDKafkaErrorCode::AllBrokersDown
            )
        );
        let refusal = lock(&self.refusal).clone().filter(|_| is_of_connections);
        refusal.unwrap_or_else(|| error.to_string())
    }
}

impl ClientContext for Mailbox {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        forward_log(level, facility, message);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!(%error, reason, "kafka client error");
        match error.rdkafka_error_code() {
            // "All brokers down" only summarises earlier errors.
            None | Some(RDKafkaErrorCode::AllBrokersDown) => {}
            Some(code) => *lock(&self.refusal) = describe_refusal(code, reason),
        }
    }
}

/// Logs librdkafka's lines. They name brokers and topics, never credentials.
pub(crate) fn forward_log(level: RDKafkaLogLevel, facility: &str, message: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error
        | RDKafkaLogLevel::Warning => tracing::warn!(facility, message, "librdkafka"),
        RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => {
            tracing::info!(facility, message, "librdkafka");
        }
        RDKafkaLogLevel::Debug => tracing::debug!(facility, message, "librdkafka"),
    }
}

impl ConsumerContext for Mailbox {
    fn rebalance(
        &self,
        consumer: &BaseConsumer<Self>,
        kind: RDKafkaRespErr,
        list: &mut TopicPartitionList,
    ) {
        if self.closing.load(Ordering::Acquire) {
            let answered = match consumer.rebalance_protocol() {
                RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
                RebalanceProtocol::Eager | RebalanceProtocol::None => consumer.unassign(),
            };
            if let Err(error) = answered {
                tracing::debug!(%error, "releasing partitions while closing");
            }
            return;
        }
        let partitions = list_partitions(list);
        self.push(match kind {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => {
                ConsumerEvent::Assigned(partitions)
            }
            _ => ConsumerEvent::Revoked { partitions, lost: consumer.assignment_lost() },
        });
    }
}

fn list_partitions(list: &TopicPartitionList) -> Vec<(String, i32)> {
    list.elements().iter().map(|e| (e.topic().to_owned(), e.partition())).collect()
}

#[cfg(test)]
mod tests {
    use rdkafka::client::ClientContext;
    use rdkafka::error::KafkaError;
    use rdkafka::types::RDKafkaErrorCode as Code;

    use super::Mailbox;

    /// Scenario: a broker's certificate is refused, then polling reports that all brokers are down,
    /// and that a topic is unknown; then a broker can't be reached. Guarantee: the first report has
    /// the refusal, the second its own cause, and a newer error replaces the refusal.
    #[test]
    fn an_error_of_connections_names_the_refusal_and_one_of_topics_does_not() {
        let mailbox = Mailbox::default();
        let describe = |code| mailbox.describe_error(&KafkaError::MessageConsumption(code));
        mailbox.error(KafkaError::Global(Code::SSL), "certificate verify failed");
        mailbox.error(KafkaError::Global(Code::AllBrokersDown), "1/1 brokers are down");
        assert!(describe(Code::AllBrokersDown).contains("certificate verify failed"));
        let unknown = describe(Code::UnknownTopicOrPartition);
        assert!(!unknown.contains("certificate"), "{unknown}");
        mailbox.error(KafkaError::Global(Code::BrokerTransportFailure), "connection refused");
        assert!(!describe(Code::AllBrokersDown).contains("certificate"));
    }
}
