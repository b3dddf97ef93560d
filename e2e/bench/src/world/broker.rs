//! Topics on the benchmark's broker: made, measured, and a group's way through one watched.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use millrace_e2e::topics;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// Partitions of every topic: two for each core of a small machine.
pub(crate) const PARTITIONS: i32 = 4;
/// A local broker answers in less, or is broken.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How soon a follower notices its end.
const FOLLOW_POLL: Duration = Duration::from_millis(100);

/// The broker's address and a client for its administration.
pub(crate) struct Topics {
    bootstrap: String,
    admin: AdminClient<DefaultClientContext>,
    runtime: tokio::runtime::Runtime,
}

impl Topics {
    pub(crate) fn new(bootstrap: &str) -> Result<Self> {
        let admin = client(bootstrap).create().context("no Kafka admin client")?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { bootstrap: bootstrap.to_owned(), admin, runtime })
    }

    /// `host:port` of the broker.
    pub(crate) fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// Makes an empty topic, and one for its dead letters.
    pub(crate) fn make(&self, topic: &str) -> Result<()> {
        let letters = dead_letters(topic);
        let of = |name, count| NewTopic::new(name, count, TopicReplication::Fixed(1));
        let wanted = [of(topic, PARTITIONS), of(&letters, 1)];
        let made = self.admin.create_topics(&wanted, &AdminOptions::new());
        for outcome in self.runtime.block_on(made)? {
            if let Err((topic, error)) = outcome {
                bail!("cannot make the topic {topic}: {error}");
            }
        }
        Ok(())
    }

    /// Makes an empty topic of one partition that keeps the newest record of each key.
    pub(crate) fn make_compacted(&self, topic: &str) -> Result<()> {
        let wanted = NewTopic::new(topic, 1, TopicReplication::Fixed(1));
        let wanted = [wanted.set("cleanup.policy", "compact")];
        let made = self.admin.create_topics(&wanted, &AdminOptions::new());
        for outcome in self.runtime.block_on(made)? {
            if let Err((topic, error)) = outcome {
                bail!("cannot make the topic {topic}: {error}");
            }
        }
        Ok(())
    }

    /// Removes a topic and its dead letters: a benchmark's disk is not endless.
    pub(crate) fn remove(&self, topic: &str) -> Result<()> {
        let letters = dead_letters(topic);
        let gone = self.admin.delete_topics(&[topic, &letters], &AdminOptions::new());
        self.runtime.block_on(gone).with_context(|| format!("cannot remove {topic}"))?;
        Ok(())
    }

    /// Low and high watermark of each partition.
    pub(crate) fn watermarks(&self, topic: &str) -> Result<Vec<(i64, i64)>> {
        let consumer: BaseConsumer = client(&self.bootstrap).create()?;
        watermarks(&consumer, topic, PARTITIONS)
    }

    /// Fails when records of a topic were laid aside instead of stored.
    pub(crate) fn no_dead_letters(&self, topic: &str) -> Result<()> {
        let letters = dead_letters(topic);
        let consumer: BaseConsumer = client(&self.bootstrap).create()?;
        let marks = watermarks(&consumer, &letters, 1)?;
        match marks.iter().map(|(low, high)| high - low).sum() {
            0 => Ok(()),
            count => bail!("{count} messages of {topic} went to {letters}"),
        }
    }

    /// Reads all of a topic and gives each message to `each`.
    pub(crate) fn read_all(&self, topic: &str, mut each: impl FnMut(&[u8])) -> Result<()> {
        let marks = self.watermarks(topic)?;
        let mut left: i64 = marks.iter().map(|(low, high)| high - low).sum();
        let consumer = topics::reader(&self.bootstrap, topic, PARTITIONS)?;
        while left > 0 {
            let message = consumer.poll(TIMEOUT).context("the topic went silent")??;
            each(message.payload().unwrap_or_default());
            left -= 1;
        }
        Ok(())
    }

    /// Reads a topic as it grows and gives each message to `each`, on a thread of its own.
    pub(crate) fn follow(
        &self,
        topic: &str,
        mut each: impl FnMut(&[u8]) + Send + 'static,
    ) -> Result<Follower> {
        let consumer = topics::reader(&self.bootstrap, topic, PARTITIONS)?;
        let ends = Arc::new(AtomicBool::new(false));
        let ending = Arc::clone(&ends);
        let follow = move || {
            while !ending.load(Ordering::Acquire) {
                // The client tries again by itself; what it can't read is missed by the caller.
                if let Some(Ok(message)) = consumer.poll(FOLLOW_POLL) {
                    each(message.payload().unwrap_or_default());
                }
            }
        };
        let thread = thread::Builder::new().name("follower".to_owned()).spawn(follow)?;
        Ok(Follower { ends, thread: Some(thread) })
    }
}

/// Follows a topic until it is dropped.
#[derive(Debug)]
pub(crate) struct Follower {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn dead_letters(topic: &str) -> String {
    format!("{topic}_dead_letter")
}

fn client(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

fn watermarks(consumer: &BaseConsumer, topic: &str, count: i32) -> Result<Vec<(i64, i64)>> {
    (0..count)
        .map(|partition| consumer.fetch_watermarks(topic, partition, TIMEOUT))
        .collect::<Result<_, _>>()
        .with_context(|| format!("no watermarks of {topic}"))
}

/// Bytes of a topic's segments on the broker's disk: as compressed by whoever produced them.
pub(crate) fn stored_bytes(broker_dir: &Path, topic: &str) -> Result<u64> {
    let mut bytes = 0;
    for partition in 0..PARTITIONS {
        let folder = broker_dir.join("data").join(format!("{topic}-{partition}"));
        let files = fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))?;
        for file in files {
            let file = file?;
            if file.path().extension().is_some_and(|extension| extension == "log") {
                bytes += file.metadata()?.len();
            }
        }
    }
    Ok(bytes)
}

/// A consumer group seen from outside: one client, kept, so that a look costs one request.
pub(crate) struct Group {
    consumer: BaseConsumer,
    list: TopicPartitionList,
    ends: Vec<i64>,
}

impl Group {
    /// Watches a group on a topic that no longer grows.
    pub(crate) fn watch(topics: &Topics, group: &str, topic: &str) -> Result<Self> {
        let consumer: BaseConsumer = client(topics.bootstrap()).set("group.id", group).create()?;
        let mut list = TopicPartitionList::new();
        list.add_partition_range(topic, 0, PARTITIONS - 1);
        let ends = topics.watermarks(topic)?.into_iter().map(|(_, high)| high).collect();
        Ok(Self { consumer, list, ends })
    }

    /// Messages that it has not committed yet.
    pub(crate) fn behind(&self) -> Result<i64> {
        use RDKafkaErrorCode as Code;
        let committed = match self.consumer.committed_offsets(self.list.clone(), TIMEOUT) {
            Ok(committed) => committed,
            // A fresh broker still loads the group's coordinator: nothing is committed yet.
            Err(error) => match error.rdkafka_error_code() {
                Some(
                    Code::NotCoordinator
                    | Code::CoordinatorNotAvailable
                    | Code::CoordinatorLoadInProgress,
                ) => return Ok(self.ends.iter().sum()),
                _ => return Err(error.into()),
            },
        };
        let offset = |element: &TopicPartitionListElem<'_>| match element.offset() {
            Offset::Offset(offset) => offset,
            _ => 0,
        };
        let elements = committed.elements();
        let ends = self.ends.iter().copied();
        Ok(ends.zip(&elements).map(|(end, element)| end - offset(element)).sum())
    }
}
