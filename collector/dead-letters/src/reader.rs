//! Reads dead-letter topics from end to end, or one dead letter of them.
//!
//! It reads the messages that existed when the reading began. It commits nothing and joins no
//! group: only brokers with ACLs need the group's name.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_config::{GroupId, KafkaConnection, TopicName};
use millrace_kafka_tokens::{ErrorEvents, TokenSettings, TokenSource};
use millrace_pipeline::dead_letter::DeadLetterHeaders;
use millrace_pipeline::kafka_client;
use millrace_source_kafka::read_headers;
use millrace_wire::Signal;
use rdkafka::ClientConfig;
use rdkafka::Message;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::error::DeadLetterError;
use crate::select::PartitionOffset;
use crate::sent_offsets::{self, SentOffsets};

/// Maximum time for a broker's answer to a request.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum time without a message while more exist.
const SILENCE: Duration = Duration::from_secs(30);
/// Maximum time of one poll for a message.
const POLL_TIMEOUT: Duration = Duration::from_millis(200);

/// The dead-letter topics and their cluster.
#[derive(Debug, Clone)]
pub struct DeadLetterAccess {
    /// The cluster.
    pub connection: KafkaConnection,
    /// The group of the reader. It is never joined and nothing is committed in it.
    pub group: GroupId,
    /// The dead-letter topics, at least one.
    pub topics: Vec<DeadLetterTopic>,
}

/// A dead-letter topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetterTopic {
    /// Its name.
    pub name: TopicName,
    /// The signal of its dead letters, if known; dead letters also name it themselves.
    pub signal: Option<Signal>,
    /// The source topic of its dead letters, if known.
    pub source: Option<TopicName>,
}

/// A complete dead letter.
#[derive(Debug, Clone)]
pub struct DeadLetterRecord {
    /// Its position.
    pub position: PartitionOffset,
    /// The record's own time, in milliseconds since 1970.
    pub at_millis: Option<i64>,
    /// The signal of its records, as far as it is known.
    pub signal: Option<Signal>,
    /// The content of its headers.
    pub headers: DeadLetterHeaders,
    /// The record's key.
    pub key: Option<Vec<u8>>,
    /// The record's bytes.
    pub payload: Vec<u8>,
}

/// A message of a dead-letter topic.
pub(crate) enum Item {
    DeadLetter(Box<DeadLetterRecord>),
    /// Dead letters of this partition that were sent again.
    Mark(i32, SentOffsets),
}

pub(crate) struct DeadLetterReader {
    consumer: Arc<BaseConsumer>,
    /// Renews the client's tokens, if it authenticates by them.
    _tokens: Option<TokenSource>,
}

impl DeadLetterAccess {
    pub(crate) fn open_reader(&self) -> Result<DeadLetterReader, DeadLetterError> {
        let mut config = ClientConfig::new();
        for (name, value) in kafka_client::client_properties(&self.connection)? {
            config.set(name, value);
        }
        config
            .set("group.id", self.group.as_str())
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("enable.partition.eof", "true")
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "error")
            // A small queue suffices for reading single messages.
            .set("queued.max.messages.kbytes", "16384");
        let consumer: Arc<BaseConsumer> =
            Arc::new(config.create().map_err(DeadLetterError::Client)?);
        let failed = |reason| DeadLetterError::Client(KafkaError::ClientCreation(reason));
        let tokens = TokenSettings::of_connection(&self.connection).map(TokenSource::start);
        let tokens = tokens.transpose().map_err(|error| failed(error.to_string()))?;
        if let Some(tokens) = &tokens {
            tokens.attach(&consumer, ErrorEvents::Unpolled);
            tokens.wait_for_token(QUESTION_TIMEOUT).map_err(failed)?;
        }
        Ok(DeadLetterReader { consumer, _tokens: tokens })
    }
}

impl DeadLetterReader {
    /// Returns the number of partitions of a topic.
    ///
    /// # Errors
    /// When it doesn't exist or can't be queried.
    pub(crate) fn partition_count(&self, topic: &TopicName) -> Result<i32, DeadLetterError> {
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

    /// Reads all present messages of a topic, from the first dead letter of `since_millis` on.
    pub(crate) fn read_all(
        &self,
        topic: &DeadLetterTopic,
        since_millis: Option<i64>,
        each: &mut dyn FnMut(Item) -> Result<(), DeadLetterError>,
    ) -> Result<(), DeadLetterError> {
        let mut ends = HashMap::new();
        let mut starts = Vec::new();
        for partition in 0..self.partition_count(&topic.name)? {
            let (low, high) = self.watermarks_of(&topic.name, partition)?;
            let first = match since_millis {
                Some(since) => self.first_since(&topic.name, partition, since)?.unwrap_or(high),
                None => low,
            };
            if first.max(low) < high {
                starts.push(PartitionOffset { partition, offset: first.max(low) });
                ends.insert(partition, high);
            }
        }
        self.read_ranges(topic, &starts, ends, each)
    }

    /// Reads one dead letter; `None` if there is none at its position.
    pub(crate) fn read_one(
        &self,
        topic: &DeadLetterTopic,
        position: PartitionOffset,
    ) -> Result<Option<DeadLetterRecord>, DeadLetterError> {
        let mut found = None;
        if position.partition >= self.partition_count(&topic.name)? {
            return Ok(found);
        }
        let (low, high) = self.watermarks_of(&topic.name, position.partition)?;
        if !(low..high).contains(&position.offset) {
            return Ok(found);
        }
        let ends = HashMap::from([(position.partition, position.offset + 1)]);
        self.read_ranges(topic, &[position], ends, &mut |item| {
            if let Item::DeadLetter(dead_letter) = item
                && dead_letter.position == position
            {
                found = Some(*dead_letter);
            }
            Ok(())
        })?;
        Ok(found)
    }

    fn watermarks_of(
        &self,
        topic: &TopicName,
        partition: i32,
    ) -> Result<(i64, i64), DeadLetterError> {
        self.consumer
            .fetch_watermarks(topic.as_str(), partition, QUESTION_TIMEOUT)
            .map_err(|source| DeadLetterError::Topic { topic: topic.clone(), source })
    }

    /// Returns the offset of the first dead letter of that time or a later one, if there is one.
    fn first_since(
        &self,
        topic: &TopicName,
        partition: i32,
        since_millis: i64,
    ) -> Result<Option<i64>, DeadLetterError> {
        let failed = |source| DeadLetterError::Topic { topic: topic.clone(), source };
        let mut query = TopicPartitionList::new();
        let since = Offset::Offset(since_millis.max(0));
        query.add_partition_offset(topic.as_str(), partition, since).map_err(failed)?;
        let answer = self.consumer.offsets_for_times(query, QUESTION_TIMEOUT).map_err(failed)?;
        Ok(answer.elements().first().and_then(|element| match element.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }))
    }

    /// Reads from `starts` up to, not including, `ends`.
    fn read_ranges(
        &self,
        topic: &DeadLetterTopic,
        starts: &[PartitionOffset],
        mut ends: HashMap<i32, i64>,
        each: &mut dyn FnMut(Item) -> Result<(), DeadLetterError>,
    ) -> Result<(), DeadLetterError> {
        let Some(mut next) = starts.first().copied() else { return Ok(()) };
        let failed =
            |next, source| DeadLetterError::Read { topic: topic.name.clone(), next, source };
        let mut list = TopicPartitionList::new();
        for PartitionOffset { partition, offset } in starts {
            list.add_partition_offset(topic.name.as_str(), *partition, Offset::Offset(*offset))
                .map_err(|source| failed(next, source))?;
        }
        self.consumer.assign(&list).map_err(|source| failed(next, source))?;
        let mut heard = Instant::now();
        while !ends.is_empty() {
            match self.consumer.poll(POLL_TIMEOUT) {
                Some(Ok(message)) => {
                    heard = Instant::now();
                    let position = PartitionOffset {
                        partition: message.partition(),
                        offset: message.offset(),
                    };
                    let Some(end) = ends.get(&position.partition).copied() else { continue };
                    next = PartitionOffset { offset: position.offset + 1, ..position };
                    if position.offset < end {
                        each(parse_item(topic, &message))?;
                    }
                    if next.offset >= end {
                        ends.remove(&position.partition);
                    }
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    ends.remove(&partition);
                }
                Some(Err(error)) if is_transient(&error) => {}
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

/// Returns whether the client library recovers automatically.
fn is_transient(error: &KafkaError) -> bool {
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

fn parse_item(topic: &DeadLetterTopic, message: &BorrowedMessage<'_>) -> Item {
    let headers = read_headers(message);
    if message.payload().is_none()
        && let Some((_, Some(value))) =
            headers.iter().find(|(name, _)| name == sent_offsets::HEADER)
        && let Some(sent) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok())
    {
        return Item::Mark(message.partition(), sent);
    }
    let headers = DeadLetterHeaders::read(headers);
    Item::DeadLetter(Box::new(DeadLetterRecord {
        position: PartitionOffset { partition: message.partition(), offset: message.offset() },
        at_millis: message.timestamp().to_millis(),
        signal: headers.signal.or(topic.signal),
        headers,
        key: message.key().map(<[u8]>::to_vec),
        payload: message.payload().unwrap_or_default().to_vec(),
    }))
}
