//! A worker's membership in the consumer group, as the session needs it: messages, changes of the
//! assignment, commits, and the time.
//!
//! [`KafkaMember`] is librdkafka's consumer. Thousands of simulated groups test the session's rules
//! (`simulation`), so the session knows no more of Kafka than this trait. No rule belongs here: an
//! implementation only executes requests and reports events.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_kafka_tokens::Rebootstrap;
use millrace_pipeline::dead_letter::MessageHeader;
use millrace_pipeline::sink::{CompletionQueue, PartOutcome};
use rdkafka::Message;
use rdkafka::consumer::{CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::batches::headers::read_headers;
use crate::commits::committed_metadata::{CommittedOffset, read_committed};
use crate::commits::committer::Committer;
use crate::group::context::{ConsumerEvent, GroupConsumer, Mailbox};
use crate::settings::SourceSettings;
use crate::topics::ids::{IdRequest, SourceTopics, TopicIds};
use crate::topics::query_client::QueryClient;

/// A message as it was fetched.
pub(crate) trait FetchedMessage: Message {
    /// Returns its headers, whose names may not be text.
    fn raw_headers(&self) -> Vec<MessageHeader>;
}

impl FetchedMessage for BorrowedMessage<'_> {
    fn raw_headers(&self) -> Vec<MessageHeader> {
        read_headers(self)
    }
}

/// A membership in the group.
pub(crate) trait Member {
    /// A message, borrowed from the client's buffer.
    type Message<'a>: FetchedMessage
    where
        Self: 'a;

    /// Returns the time.
    fn now(&self) -> Instant;

    /// Returns a message, waiting for it at most `wait`.
    fn poll(&self, wait: Duration) -> Option<KafkaResult<Self::Message<'_>>>;

    /// Returns an answer of the sink, waiting for it at most `wait`.
    fn next_answer(&self, answers: &mut CompletionQueue, wait: Duration) -> Option<PartOutcome>;

    /// Describes an error of polling for people.
    fn describe_error(&self, error: &KafkaError) -> String {
        error.to_string()
    }

    /// Removes the next unhandled event.
    fn next_event(&self) -> Option<ConsumerEvent>;

    /// Returns whether this member has joined the group.
    fn has_joined(&self) -> bool;

    /// Takes assigned partitions over, from the offsets in the list.
    fn assign(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Releases partitions.
    fn unassign(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Stops fetching.
    fn pause(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Fetches again.
    fn resume(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Reads a partition from another offset on; messages that were fetched before may still
    /// arrive.
    fn seek(&self, topic: &str, partition: i32, offset: Offset) -> KafkaResult<()>;

    /// Returns the committed offsets of partitions, waiting for them at most `wait`.
    fn committed_offsets(
        &self,
        list: TopicPartitionList,
        wait: Duration,
    ) -> KafkaResult<Vec<CommittedOffset>>;

    /// Requests a commit, answered by [`ConsumerEvent::Committed`], and before it, if a broker
    /// returns the ids, by [`ConsumerEvent::Topics`]. Returns false when one is in flight.
    fn commit(&self, list: TopicPartitionList) -> bool;

    /// Returns the topics' ids, waiting for seconds at most; `None` when no broker returns them.
    fn topic_ids(&self) -> Option<TopicIds>;

    /// Requests the same without waiting, answered by [`ConsumerEvent::Topics`].
    fn request_topic_ids(&self);

    /// Requests a commit without waiting for its answer.
    fn commit_and_forget(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Prepares the end: rebalances are answered without the session from here on.
    fn close(&self);
}

/// Why a member can't join.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    #[error("cannot create a consumer: {0}")]
    Client(#[from] KafkaError),
    #[error("cannot start the committing thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A member by librdkafka.
pub(crate) struct KafkaMember {
    consumer: Arc<GroupConsumer>,
    rebootstrap: Rebootstrap,
    topics: Arc<SourceTopics>,
    /// `None` once closed.
    committer: RefCell<Option<Committer>>,
}

impl KafkaMember {
    /// Creates the consumer and subscribes it.
    pub(crate) fn join_group(
        settings: &SourceSettings,
        worker: u16,
        query_client: &QueryClient,
    ) -> Result<Self, JoinError> {
        let client = settings.group_client(worker);
        let consumer: GroupConsumer = client.create_with_context(Mailbox::default())?;
        let topics: Vec<&str> = settings.topics.iter().map(|t| t.name.as_ref()).collect();
        consumer.subscribe(&topics)?;
        let consumer = Arc::new(consumer);
        query_client.authenticate(settings, &consumer)?;
        let names = settings.topics.iter().map(|topic| Arc::clone(&topic.name));
        let topics = Arc::new(SourceTopics::new(query_client.ensure_client(settings)?, names));
        let committer = Committer::start(worker, Arc::clone(&consumer), Arc::clone(&topics))?;
        let rebootstrap = Rebootstrap::of_client(&client);
        Ok(Self { consumer, rebootstrap, topics, committer: RefCell::new(Some(committer)) })
    }

    fn is_cooperative(&self) -> bool {
        matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::Cooperative)
    }
}

impl Member for KafkaMember {
    type Message<'a> = BorrowedMessage<'a>;

    fn now(&self) -> Instant {
        Instant::now()
    }

    fn poll(&self, wait: Duration) -> Option<KafkaResult<BorrowedMessage<'_>>> {
        let polled = self.consumer.poll(wait);
        // A client that receives messages knows brokers.
        if !matches!(polled, Some(Ok(_))) {
            let now = Instant::now();
            let code =
                polled.as_ref().and_then(|polled| polled.as_ref().err()?.rdkafka_error_code());
            if code == Some(RDKafkaErrorCode::AllBrokersDown) {
                self.rebootstrap.report_unreachable(now);
            }
            self.rebootstrap.run_due(&*self.consumer, now);
        }
        polled
    }

    fn next_answer(&self, answers: &mut CompletionQueue, wait: Duration) -> Option<PartOutcome> {
        answers.next_within(wait)
    }

    fn describe_error(&self, error: &KafkaError) -> String {
        self.consumer.context().describe_error(error)
    }

    fn next_event(&self) -> Option<ConsumerEvent> {
        self.consumer.context().next()
    }

    fn has_joined(&self) -> bool {
        !matches!(self.consumer.rebalance_protocol(), RebalanceProtocol::None)
    }

    fn assign(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        match self.is_cooperative() {
            true => self.consumer.incremental_assign(list),
            false => self.consumer.assign(list),
        }
    }

    fn unassign(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        match self.is_cooperative() {
            true => self.consumer.incremental_unassign(list),
            false => self.consumer.unassign(),
        }
    }

    fn pause(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.consumer.pause(list)
    }

    fn resume(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.consumer.resume(list)
    }

    fn seek(&self, topic: &str, partition: i32, offset: Offset) -> KafkaResult<()> {
        self.consumer.seek(topic, partition, offset, Duration::ZERO).or_else(|error| {
            tracing::debug!(%error, "seek refused, assigning again");
            let mut list = TopicPartitionList::new();
            list.add_partition_offset(topic, partition, offset)?;
            self.consumer.incremental_unassign(&list)?;
            self.consumer.incremental_assign(&list)
        })
    }

    fn committed_offsets(
        &self,
        list: TopicPartitionList,
        wait: Duration,
    ) -> KafkaResult<Vec<CommittedOffset>> {
        self.consumer.committed_offsets(list, wait).map(|answer| read_committed(&answer))
    }

    fn commit(&self, list: TopicPartitionList) -> bool {
        self.committer.borrow().as_ref().is_some_and(|committer| committer.commit(list))
    }

    fn topic_ids(&self) -> Option<TopicIds> {
        self.topics.request_ids().and_then(IdRequest::await_ids)
    }

    fn request_topic_ids(&self) {
        if let Some(committer) = self.committer.borrow().as_ref() {
            committer.request_topic_ids();
        }
    }

    fn commit_and_forget(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.consumer.commit(list, CommitMode::Async)
    }

    fn close(&self) {
        self.consumer.context().mark_closing();
        if let Some(committer) = self.committer.take() {
            committer.close();
        }
    }
}
