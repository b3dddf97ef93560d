//! Fills a topic once: the messages of a pool, round and round, compressed as an edge does it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::ClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dataset::Dataset;
use crate::say;
use crate::world::broker::{PARTITIONS, Topics};

/// How long the broker may take for all that is under way.
const FLUSH: Duration = Duration::from_secs(120);
/// A full queue is looked at again after this.
const FULL_WAIT: Duration = Duration::from_millis(20);
/// 128 MiB under way at most: 128 messages.
const QUEUE_KIB: &str = "131072";

/// A topic that has been filled.
#[derive(Debug, Clone)]
pub(crate) struct Filled {
    /// Its name.
    pub(crate) topic: String,
    /// What is in it.
    pub(crate) dataset: Dataset,
    /// Records in it.
    pub(crate) records: u64,
}

/// Counts what the broker refused.
#[derive(Clone, Default)]
struct Failures(Arc<AtomicU64>);

impl ClientContext for Failures {}

impl ProducerContext for Failures {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if result.is_err() {
            self.0.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// Makes `topic` and puts at least `records` records of `dataset` into it.
pub(crate) fn fill(topics: &Topics, topic: &str, dataset: Dataset, records: u64) -> Result<Filled> {
    let began = Instant::now();
    topics.make(topic)?;
    let failures = Failures::default();
    let producer: ThreadedProducer<Failures> = ClientConfig::new()
        .set("bootstrap.servers", topics.bootstrap())
        .set("acks", "all")
        .set("compression.codec", "zstd")
        .set("compression.level", "1")
        .set("linger.ms", "0")
        .set("message.max.bytes", "1016384")
        .set("batch.size", "1016384")
        .set("queue.buffering.max.kbytes", QUEUE_KIB)
        .create_with_context(failures.clone())
        .context("no producer")?;
    let pool = dataset.messages()?;
    let mut done = 0;
    for (number, message) in pool.iter().cycle().enumerate() {
        if done >= records {
            break;
        }
        let partition = i32::try_from(number % PARTITIONS as usize)?;
        enqueue(&producer, topic, partition, &message.bytes)?;
        done += message.records;
    }
    producer.flush(FLUSH).with_context(|| format!("{topic} was not filled"))?;
    match failures.0.load(Ordering::Acquire) {
        0 => {}
        count => bail!("the broker refused {count} messages of {topic}"),
    }
    say::progress(&format!(
        "filled {topic}: {done} records in {:.1} s",
        began.elapsed().as_secs_f64()
    ));
    Ok(Filled { topic: topic.to_owned(), dataset, records: done })
}

fn enqueue(
    producer: &ThreadedProducer<Failures>,
    topic: &str,
    partition: i32,
    payload: &[u8],
) -> Result<()> {
    let mut record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(payload);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                record = back;
                std::thread::sleep(FULL_WAIT);
            }
            Err((error, _)) => return Err(error).context("cannot enqueue"),
        }
    }
}
