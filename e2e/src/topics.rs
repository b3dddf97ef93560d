//! Topics on a test's broker: put raw bytes in, count and read what is there, make them again.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, FutureProducer, FutureRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use crate::wait;

/// A local broker answers in less, or is broken.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A message read back, whole.
#[derive(Debug, Clone)]
pub struct Raw {
    /// The value.
    pub payload: Vec<u8>,
    /// Headers in order, values as text.
    pub headers: Vec<(String, String)>,
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

/// Produce one message and wait for the broker's acknowledgement.
///
/// # Errors
/// When the broker doesn't take it in time.
pub fn produce(bootstrap: &str, topic: &str, partition: i32, payload: &[u8]) -> Result<()> {
    let producer: BaseProducer = client(bootstrap).create()?;
    let record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(payload);
    producer.send(record).map_err(|(error, _)| error).context("cannot enqueue")?;
    producer.flush(TIMEOUT).with_context(|| format!("{topic} took no message"))
}

/// Produce messages to partitions, one after the other with a pause between, and wait for the
/// broker's acknowledgement of all.
///
/// # Errors
/// When the broker doesn't take them in time.
pub fn produce_all(
    bootstrap: &str,
    topic: &str,
    messages: impl Iterator<Item = (i32, Vec<u8>)>,
    pause: Duration,
) -> Result<()> {
    let producer: BaseProducer = client(bootstrap).create()?;
    for (partition, payload) in messages {
        let record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(&payload);
        producer.send(record).map_err(|(error, _)| error).context("cannot enqueue")?;
        producer.poll(Duration::ZERO);
        std::thread::sleep(pause);
    }
    producer.flush(TIMEOUT).with_context(|| format!("{topic} took not every message"))
}

/// Produce one message of any length, uncompressed.
///
/// # Errors
/// When the broker doesn't take it in time.
pub fn produce_long(bootstrap: &str, topic: &str, partition: i32, payload: &[u8]) -> Result<()> {
    let producer: FutureProducer =
        client(bootstrap).set("message.max.bytes", "900000000").create()?;
    let record = FutureRecord::<(), [u8]>::to(topic).partition(partition).payload(payload);
    match block_on(producer.send(record, TIMEOUT))? {
        Ok(_) => Ok(()),
        Err((error, _)) => bail!("{topic} took no message of {} bytes: {error}", payload.len()),
    }
}

fn admin(bootstrap: &str) -> Result<AdminClient<DefaultClientContext>> {
    Ok(client(bootstrap).create()?)
}

fn block_on<F: Future>(future: F) -> Result<F::Output> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future))
}

/// Delete the messages of a partition that lie before an offset.
///
/// # Errors
/// When the broker doesn't.
pub fn delete_before(bootstrap: &str, topic: &str, partition: i32, offset: i64) -> Result<()> {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset))?;
    let deleted = block_on(admin(bootstrap)?.delete_records(&list, &AdminOptions::new()))??;
    let element = deleted.find_partition(topic, partition).context("no answer")?;
    element.error().with_context(|| format!("cannot delete from {topic}/{partition}"))
}

/// Give a topic these settings, by name and value; all others go back to the broker's defaults.
///
/// # Errors
/// When the broker doesn't take it.
pub fn configure(bootstrap: &str, topic: &str, settings: &[(&str, &str)]) -> Result<()> {
    let config = AlterConfig::new(ResourceSpecifier::Topic(topic));
    let config = settings.iter().fold(config, |config, (name, value)| config.set(name, value));
    let answers = block_on(admin(bootstrap)?.alter_configs([&config], &AdminOptions::new()))??;
    match answers.into_iter().next() {
        Some(Ok(_)) => Ok(()),
        other => bail!("cannot configure {topic}: {other:?}"),
    }
}

/// Make a topic.
///
/// # Errors
/// When the broker doesn't do it.
pub fn create(bootstrap: &str, topic: &str, partitions: i32) -> Result<()> {
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    let answers = block_on(admin(bootstrap)?.create_topics([&new], &AdminOptions::new()))??;
    match answers.into_iter().next() {
        Some(Ok(_)) => Ok(()),
        other => bail!("cannot create {topic}: {other:?}"),
    }
}

/// Delete a topic that holds messages, and make one of the same name with as many partitions. Both
/// are answered by the controller: until the broker has read of it, it acknowledges messages to the
/// deleted topic, and then drops them. So this waits for the broker to serve the new topic.
///
/// # Errors
/// When the topic is empty, or the broker doesn't do it in time.
pub fn make_again(bootstrap: &str, topic: &str) -> Result<()> {
    let before = watermarks(bootstrap, topic)?;
    ensure!(before.iter().any(|(_, high)| *high > 0), "{topic} is empty: nothing tells it apart");
    let partitions = i32::try_from(before.len())?;
    let admin = admin(bootstrap)?;
    let options = AdminOptions::new();
    for answer in block_on(admin.delete_topics(&[topic], &options))?? {
        answer.map_err(|(topic, error)| anyhow::anyhow!("cannot delete {topic}: {error}"))?;
    }
    let again = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    // The name is free only once all of the old topic is gone.
    wait::until("the topic to be made again", TIMEOUT, || {
        match block_on(admin.create_topics([&again], &options))??.into_iter().next() {
            Some(Ok(_)) => Ok(()),
            other => bail!("{other:?}"),
        }
    })?;
    wait::until("the broker to serve the new topic", TIMEOUT, || {
        let now = watermarks(bootstrap, topic)?;
        ensure!(now.len() == before.len(), "{} of {} partitions", now.len(), before.len());
        ensure!(now.iter().all(|marks| *marks == (0, 0)), "still the old one: {now:?}");
        Ok(())
    })
}

/// Low and high watermark of each partition.
///
/// # Errors
/// When the broker doesn't answer.
pub fn watermarks(bootstrap: &str, topic: &str) -> Result<Vec<(i64, i64)>> {
    let consumer: BaseConsumer = client(bootstrap).create()?;
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
    let found = metadata.topics().first().context("no metadata")?;
    if let Some(error) = found.error() {
        bail!("topic {topic}: {error:?}");
    }
    let ids = found.partitions().iter().map(rdkafka::metadata::MetadataPartition::id);
    let marks = ids.map(|id| consumer.fetch_watermarks(topic, id, TIMEOUT));
    marks.collect::<Result<_, _>>().with_context(|| format!("no watermarks of {topic}"))
}

/// Which brokers have all of each partition of a topic, by node id; the partition's leader first.
///
/// # Errors
/// When no broker answers, or a partition has no leader.
pub fn in_sync(bootstrap: &str, topic: &str) -> Result<Vec<Vec<i32>>> {
    let consumer: BaseConsumer = client(bootstrap).create()?;
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT)?;
    let found = metadata.topics().first().context("no metadata")?;
    let in_sync = |partition: &rdkafka::metadata::MetadataPartition| {
        let leader = partition.leader();
        ensure!(leader >= 0, "partition {} of {topic} has no leader", partition.id());
        let others = partition.isr().iter().copied().filter(|id| *id != leader);
        Ok([leader].into_iter().chain(others).collect())
    };
    found.partitions().iter().map(in_sync).collect()
}

/// How many messages a topic holds.
///
/// # Errors
/// When the broker doesn't answer.
pub fn count(bootstrap: &str, topic: &str) -> Result<i64> {
    Ok(watermarks(bootstrap, topic)?.iter().map(|(low, high)| high - low).sum())
}

/// A group's committed offset by partition; `None` where it never committed.
///
/// # Errors
/// When the broker doesn't answer.
pub fn committed(bootstrap: &str, group: &str, topic: &str) -> Result<Vec<Option<i64>>> {
    let partitions = watermarks(bootstrap, topic)?.len();
    let consumer: BaseConsumer = client(bootstrap).set("group.id", group).create()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_range(topic, 0, i32::try_from(partitions)? - 1);
    let offsets = consumer.committed_offsets(list, TIMEOUT)?;
    let offset = |element: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match element
        .offset()
    {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    };
    Ok(offsets.elements().into_iter().map(offset).collect())
}

/// Read everything a topic holds.
///
/// # Errors
/// When the broker doesn't answer, or messages that it counts can't be read in time.
pub fn read_all(bootstrap: &str, topic: &str) -> Result<Vec<Raw>> {
    let wanted = usize::try_from(count(bootstrap, topic)?)?;
    let partitions = i32::try_from(watermarks(bootstrap, topic)?.len())?;
    let consumer = reader(bootstrap, topic, partitions)?;
    let mut read = Vec::with_capacity(wanted);
    while read.len() < wanted {
        let message = consumer.poll(TIMEOUT).context("the topic went silent")??;
        read.push(raw(&message));
    }
    Ok(read)
}

/// A consumer of a topic's partitions from their first message on. It commits nothing: the event of
/// a commit, every five seconds, would end a poll with nothing.
///
/// # Errors
/// When the client can't be made.
pub fn reader(bootstrap: &str, topic: &str, partitions: i32) -> Result<BaseConsumer> {
    let mut config = client(bootstrap);
    config.set("group.id", "e2e-reader").set("enable.auto.commit", "false");
    let consumer: BaseConsumer = config.create()?;
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        list.add_partition_offset(topic, partition, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    Ok(consumer)
}

fn raw(message: &BorrowedMessage<'_>) -> Raw {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    let text =
        |value: Option<&[u8]>| String::from_utf8_lossy(value.unwrap_or_default()).into_owned();
    Raw {
        payload: message.payload().unwrap_or_default().to_vec(),
        headers: headers.map(|header| (header.key.to_owned(), text(header.value))).collect(),
    }
}
