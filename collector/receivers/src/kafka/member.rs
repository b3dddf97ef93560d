//! A worker's place in the consumer group, as the session needs it: messages, changes of the
//! assignment, commits, and the time.
//!
//! [`KafkaMember`] is librdkafka's consumer. Thousands of simulated groups test the session's rules
//! (`simulation`), so the session knows no more of Kafka than this trait. No rule belongs here: an
//! implementation does what it is asked and reports what happened.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_pipeline::sink::{Answer, Answers};
use rdkafka::Message;
use rdkafka::consumer::{CommitMode, Consumer, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::asker::Asker;
use super::committer::Committer;
use super::context::{Event, GroupConsumer, Mailbox};
use super::headers::{RawHeader, headers};
use super::metadata::{Committed, committed};
use super::settings::SourceSettings;
use super::topics::{Question, TopicIds, Topics};

/// A message as it was fetched.
pub(super) trait Fetched: Message {
    /// Its headers, whose names may not be text.
    fn raw_headers(&self) -> Vec<RawHeader>;
}

impl Fetched for BorrowedMessage<'_> {
    fn raw_headers(&self) -> Vec<RawHeader> {
        headers(self)
    }
}

/// A membership in the group.
pub(super) trait Member {
    /// A message, borrowed from the client's buffer.
    type Message<'a>: Fetched
    where
        Self: 'a;

    /// The time.
    fn now(&self) -> Instant;

    /// A message, waiting for it at most `wait`.
    fn poll(&self, wait: Duration) -> Option<KafkaResult<Self::Message<'_>>>;

    /// An answer of the sink, waiting for it at most `wait`.
    fn answer(&self, answers: &mut Answers, wait: Duration) -> Option<Answer>;

    /// Events not handled yet.
    fn event(&self) -> Option<Event>;

    /// Whether this member has joined the group.
    fn has_joined(&self) -> bool;

    /// Takes assigned partitions over, from the offsets in the list.
    fn assign(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Gives partitions back.
    fn unassign(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Stops fetching.
    fn pause(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Fetches again.
    fn resume(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Reads a partition from another offset on; what was fetched may still come.
    fn seek(&self, topic: &str, partition: i32, offset: Offset) -> KafkaResult<()>;

    /// The committed offsets of partitions, waiting for them at most `wait`.
    fn committed(&self, list: TopicPartitionList, wait: Duration) -> KafkaResult<Vec<Committed>>;

    /// Requests a commit, answered by [`Event::Committed`], and before it, if a broker gives the
    /// ids, by [`Event::Topics`]. False when one is in flight.
    fn commit(&self, list: TopicPartitionList) -> bool;

    /// The topics' ids, waiting for seconds at most; `None` when no broker gives them.
    fn topics(&self) -> Option<TopicIds>;

    /// Requests the same without waiting, answered by [`Event::Topics`].
    fn look_at_topics(&self);

    /// Requests a commit without waiting for its answer.
    fn commit_and_forget(&self, list: &TopicPartitionList) -> KafkaResult<()>;

    /// Before the end: rebalances are answered without the session from here on.
    fn close(&self);
}

/// Why a member can't join.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error("cannot make a consumer: {0}")]
    Client(#[from] KafkaError),
    #[error("cannot start the committing thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A member by librdkafka.
pub(super) struct KafkaMember {
    consumer: Arc<GroupConsumer>,
    topics: Arc<Topics>,
    /// None once closed.
    committer: RefCell<Option<Committer>>,
}

impl KafkaMember {
    /// Makes the consumer and subscribes it.
    pub(super) fn join(
        settings: &SourceSettings,
        worker: u16,
        asker: &Asker,
    ) -> Result<Self, JoinError> {
        let client = settings.group_client(worker);
        let consumer: GroupConsumer = client.create_with_context(Mailbox::default())?;
        let topics: Vec<&str> = settings.topics.iter().map(|t| t.name.as_ref()).collect();
        consumer.subscribe(&topics)?;
        let consumer = Arc::new(consumer);
        let names = settings.topics.iter().map(|topic| Arc::clone(&topic.name));
        let topics = Arc::new(Topics::new(asker.client(settings)?, names));
        let committer = Committer::start(worker, Arc::clone(&consumer), Arc::clone(&topics))?;
        Ok(Self { consumer, topics, committer: RefCell::new(Some(committer)) })
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
        self.consumer.poll(wait)
    }

    fn answer(&self, answers: &mut Answers, wait: Duration) -> Option<Answer> {
        answers.next_within(wait)
    }

    fn event(&self) -> Option<Event> {
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

    fn committed(&self, list: TopicPartitionList, wait: Duration) -> KafkaResult<Vec<Committed>> {
        self.consumer.committed_offsets(list, wait).map(|answer| committed(&answer))
    }

    fn commit(&self, list: TopicPartitionList) -> bool {
        self.committer.borrow().as_ref().is_some_and(|committer| committer.commit(list))
    }

    fn topics(&self) -> Option<TopicIds> {
        self.topics.ask().and_then(Question::answer)
    }

    fn look_at_topics(&self) {
        if let Some(committer) = self.committer.borrow().as_ref() {
            committer.look();
        }
    }

    fn commit_and_forget(&self, list: &TopicPartitionList) -> KafkaResult<()> {
        self.consumer.commit(list, CommitMode::Async)
    }

    fn close(&self) {
        self.consumer.context().close();
        if let Some(committer) = self.committer.take() {
            committer.close();
        }
    }
}
