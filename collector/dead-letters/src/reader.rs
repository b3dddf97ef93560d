//! Reads dead-letter topics from end to end, or one dead letter of them.
//!
//! It reads the messages that existed when the reading began. It commits nothing and joins no
//! group: brokers with access rules only need the group's name.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use millrace_config::{GroupId, KafkaConnection, TopicName};
use millrace_pipeline::dead_letter::Letter;
use millrace_pipeline::kafka_client;
use millrace_receivers::kafka::headers;
use millrace_wire::Signal;
use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::error::DeadLetterError;
use crate::select::Place;
use crate::sent::{self, Sent};

/// How long a broker may take to answer a question.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(15);
/// How long messages that are there may fail to come.
const SILENCE: Duration = Duration::from_secs(30);
/// How long one poll for a message takes.
const LOOK: Duration = Duration::from_millis(200);

/// Where letters lie and how to get there.
#[derive(Debug, Clone)]
pub struct Desk {
    /// The cluster.
    pub connection: KafkaConnection,
    /// The group to read as. It is never joined and nothing is committed in it.
    pub group: GroupId,
    /// The dead-letter topics, one at least.
    pub topics: Vec<DeadLetterTopic>,
}

/// A dead-letter topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterTopic {
    /// Its name.
    pub name: TopicName,
    /// What its letters are, if that is known; letters say so themselves.
    pub signal: Option<Signal>,
    /// Where its letters come from, if that is known.
    pub source: Option<TopicName>,
}

/// A letter, whole.
#[derive(Debug, Clone)]
pub struct Found {
    /// Its place.
    pub place: Place,
    /// The record's own time, in milliseconds since 1970.
    pub at_millis: Option<i64>,
    /// What its records are, as far as that is known.
    pub signal: Option<Signal>,
    /// What its headers say.
    pub letter: Letter,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's bytes.
    pub payload: Vec<u8>,
}

/// What a dead-letter topic holds.
pub(crate) enum Item {
    Letter(Box<Found>),
    /// Letters of this partition that were sent again.
    Mark(i32, Sent),
}

pub(crate) struct Reader {
    consumer: BaseConsumer,
}

impl Desk {
    pub(crate) fn reader(&self) -> Result<Reader, DeadLetterError> {
        let mut config = ClientConfig::new();
        for (name, value) in kafka_client::properties(&self.connection)? {
            config.set(name, value);
        }
        config
            .set("group.id", self.group.as_str())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "error")
            // Whoever looks at single messages can wait for few of them.
            .set("queued.max.messages.kbytes", "16384");
        Ok(Reader { consumer: config.create().map_err(DeadLetterError::Client)? })
    }
}

impl Reader {
    /// How many partitions a topic has.
    ///
    /// # Errors
    /// When it isn't there or can't be asked for.
    pub(crate) fn partitions(&self, topic: &TopicName) -> Result<i32, DeadLetterError> {
        let failed = |source| DeadLetterError::Topic { topic: topic.clone(), source };
        let metadata = self.consumer.fetch_metadata(Some(topic.as_str()), QUESTION_TIMEOUT);
        let metadata = metadata.map_err(failed)?;
        let found = metadata.topics().iter().find(|found| found.name() == topic.as_str());
        let code = match found.map(|found| found.error()) {
            None => Some(Code::UnknownTopicOrPartition),
            Some(error) => error.map(Code::from),
        };
        match code {
            Some(code) => Err(failed(KafkaError::MetadataFetch(code))),
            None => {
                Ok(found.map_or(0, |found| i32::try_from(found.partitions().len()).unwrap_or(0)))
            }
        }
    }

    /// Reads all that is in a topic now, from the first letter of `since_millis` on.
    pub(crate) fn read_all(
        &self,
        topic: &DeadLetterTopic,
        since_millis: Option<i64>,
        each: &mut dyn FnMut(Item) -> Result<(), DeadLetterError>,
    ) -> Result<(), DeadLetterError> {
        let mut ends = HashMap::new();
        let mut starts = Vec::new();
        for partition in 0..self.partitions(&topic.name)? {
            let (low, high) = self.bounds(&topic.name, partition)?;
            let first = match since_millis {
                Some(since) => self.first_since(&topic.name, partition, since)?.unwrap_or(high),
                None => low,
            };
            if first.max(low) < high {
                starts.push(Place { partition, offset: first.max(low) });
                ends.insert(partition, high);
            }
        }
        self.read(topic, &starts, ends, each)
    }

    /// Reads one letter. None when there is none at its place.
    pub(crate) fn read_one(
        &self,
        topic: &DeadLetterTopic,
        place: Place,
    ) -> Result<Option<Found>, DeadLetterError> {
        let mut found = None;
        if place.partition >= self.partitions(&topic.name)? {
            return Ok(found);
        }
        let (low, high) = self.bounds(&topic.name, place.partition)?;
        if !(low..high).contains(&place.offset) {
            return Ok(found);
        }
        let ends = HashMap::from([(place.partition, place.offset + 1)]);
        self.read(topic, &[place], ends, &mut |item| {
            if let Item::Letter(letter) = item
                && letter.place == place
            {
                found = Some(*letter);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn bounds(&self, topic: &TopicName, partition: i32) -> Result<(i64, i64), DeadLetterError> {
        self.consumer
            .fetch_watermarks(topic.as_str(), partition, QUESTION_TIMEOUT)
            .map_err(|source| DeadLetterError::Topic { topic: topic.clone(), source })
    }

    /// The offset of the first letter of that time or a later one; none if there is none.
    fn first_since(
        &self,
        topic: &TopicName,
        partition: i32,
        since_millis: i64,
    ) -> Result<Option<i64>, DeadLetterError> {
        let failed = |source| DeadLetterError::Topic { topic: topic.clone(), source };
        let mut asked = TopicPartitionList::new();
        let since = Offset::Offset(since_millis.max(0));
        asked.add_partition_offset(topic.as_str(), partition, since).map_err(failed)?;
        let answer = self.consumer.offsets_for_times(asked, QUESTION_TIMEOUT).map_err(failed)?;
        Ok(answer.elements().first().and_then(|element| match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }))
    }

    /// Reads from `starts` up to, not including, `ends`.
    fn read(
        &self,
        topic: &DeadLetterTopic,
        starts: &[Place],
        mut ends: HashMap<i32, i64>,
        each: &mut dyn FnMut(Item) -> Result<(), DeadLetterError>,
    ) -> Result<(), DeadLetterError> {
        let Some(mut next) = starts.first().copied() else { return Ok(()) };
        let failed =
            |next, source| DeadLetterError::Read { topic: topic.name.clone(), next, source };
        let mut list = TopicPartitionList::new();
        for Place { partition, offset } in starts {
            list.add_partition_offset(topic.name.as_str(), *partition, Offset::Offset(*offset))
                .map_err(|source| failed(next, source))?;
        }
        self.consumer.assign(&list).map_err(|source| failed(next, source))?;
        let mut heard = Instant::now();
        while !ends.is_empty() {
            match self.consumer.poll(LOOK) {
                Some(Ok(message)) => {
                    heard = Instant::now();
                    let place = Place { partition: message.partition(), offset: message.offset() };
                    let Some(end) = ends.get(&place.partition).copied() else { continue };
                    next = Place { offset: place.offset + 1, ..place };
                    if place.offset < end {
                        each(item(topic, &message))?;
                    }
                    if next.offset >= end {
                        ends.remove(&place.partition);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ends.remove(&partition);
                }
                Some(Err(error)) if passes(&error) => {}
                Some(Err(source)) => return Err(failed(next, source)),
                None => {}
            }
            if heard.elapsed() > SILENCE {
                let (topic, seconds) = (topic.name.clone(), SILENCE.as_secs());
                return Err(DeadLetterError::Silent { topic, next, seconds });
            }
        }
        Ok(())
    }
}

/// Whether the client library continues by itself.
fn passes(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(
            Code::BrokerTransportFailure
                | Code::AllBrokersDown
                | Code::OperationTimedOut
                | Code::NotLeaderForPartition
                | Code::LeaderNotAvailable
                | Code::Resolve
        )
    )
}

fn item(topic: &DeadLetterTopic, message: &BorrowedMessage<'_>) -> Item {
    let headers = headers(message);
    if message.payload().is_none()
        && let Some((_, Some(value))) = headers.iter().find(|(name, _)| name == sent::HEADER)
        && let Some(sent) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok())
    {
        return Item::Mark(message.partition(), sent);
    }
    let letter = Letter::read(headers);
    Item::Letter(Box::new(Found {
        place: Place { partition: message.partition(), offset: message.offset() },
        at_millis: message.timestamp().to_millis(),
        signal: letter.signal.or(topic.signal),
        letter,
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().unwrap_or_default().to_vec(),
    }))
}
