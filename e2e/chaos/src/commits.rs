//! What a group has committed, read from Kafka's own topic of commits (`__consumer_offsets`) in the
//! order in which it was written.
//!
//! The broker's answer to "what is committed" can be old for a moment after a restart, so a look
//! that shows a lower offset than one before doesn't tell that anybody committed one. The topic
//! does. It reads as a bystander and knows the two layouts it needs; other records are passed over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

/// Kafka's topic of commits.
const TOPIC: &str = "__consumer_offsets";
/// A broker that doesn't answer in this is down, which is a fault's business.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The longest wait for one more record.
const POLL: Duration = Duration::from_millis(100);

/// A commit of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// The partition of the watched topic.
    pub partition: i32,
    /// What was committed.
    pub offset: i64,
}

/// A reader of the commits of one group and topic.
pub struct Commits {
    consumer: BaseConsumer,
    group: String,
    topic: String,
    is_assigned: bool,
    /// By partition of Kafka's topic: what is read next. Read again after a reset, a record would
    /// look like a commit that went back.
    next: BTreeMap<i32, i64>,
}

impl std::fmt::Debug for Commits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Commits").field("group", &self.group).finish_non_exhaustive()
    }
}

impl Commits {
    /// A reader that begins with the first commit that is kept.
    ///
    /// # Errors
    /// When no client can be had.
    pub fn new(bootstrap: &str, group: &str, topic: &str) -> Result<Self> {
        let consumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "chaos-commits")
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            .set("reconnect.backoff.max.ms", "500")
            .create()?;
        let (group, topic) = (group.to_owned(), topic.to_owned());
        Ok(Self { consumer, group, topic, is_assigned: false, next: BTreeMap::new() })
    }

    /// The commits that were written since the last call, in order, as far as they are there
    /// within `limit`.
    ///
    /// # Errors
    /// When commits that were read already are no longer in the topic: it was cut.
    pub fn read(&mut self, limit: Duration) -> Result<Vec<Commit>> {
        let (mut all, deadline) = (Vec::new(), Instant::now() + limit);
        if !self.is_assigned && !self.assign() {
            return Ok(all);
        }
        while Instant::now() < deadline {
            // Errors are news about connections: a broker that is down is a fault's business.
            let Some(Ok(record)) = self.consumer.poll(POLL) else { break };
            let next = self.next.entry(record.partition()).or_insert(0);
            if record.offset() < *next {
                continue;
            }
            *next = record.offset() + 1;
            let (key, value) = (record.key().unwrap_or_default(), record.payload());
            all.extend(commit(key, value.unwrap_or_default(), &self.group, &self.topic));
        }
        self.is_whole()?;
        Ok(all)
    }

    /// Begins to read, once Kafka has made its topic: with the group's first commit.
    fn assign(&mut self) -> bool {
        let Ok(metadata) = self.consumer.fetch_metadata(Some(TOPIC), TIMEOUT) else { return false };
        let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
        let mut list = TopicPartitionList::new();
        for partition in 0..i32::try_from(partitions).unwrap_or(0) {
            if list.add_partition_offset(TOPIC, partition, Offset::Beginning).is_err() {
                return false;
            }
        }
        self.is_assigned = partitions > 0 && self.consumer.assign(&list).is_ok();
        self.is_assigned
    }

    fn is_whole(&self) -> Result<()> {
        for (partition, next) in &self.next {
            let marks = self.consumer.fetch_watermarks(TOPIC, *partition, TIMEOUT);
            let Ok((_, end)) = marks else { continue };
            if end < *next {
                bail!("{TOPIC} {partition} was read up to {next} and now ends at {end}");
            }
        }
        Ok(())
    }
}

/// The commit in a record, if it is one of this group and topic. Layouts: Kafka's
/// `OffsetCommitKey` 0 and 1 (version, group, topic, partition), and the beginning that all
/// versions of `OffsetCommitValue` have in common (version, offset).
fn commit(key: &[u8], value: &[u8], group: &str, topic: &str) -> Option<Commit> {
    let (version, key) = short(key)?;
    let (of, key) = text(key)?;
    let (about, key) = text(key)?;
    let partition = i32::from_be_bytes(key.get(..4)?.try_into().ok()?);
    let (_, value) = short(value)?;
    let offset = i64::from_be_bytes(value.get(..8)?.try_into().ok()?);
    let ours = (0..=1).contains(&version) && of == group.as_bytes() && about == topic.as_bytes();
    ours.then_some(Commit { partition, offset })
}

fn short(bytes: &[u8]) -> Option<(i16, &[u8])> {
    let (head, rest) = bytes.split_at_checked(2)?;
    Some((i16::from_be_bytes(head.try_into().ok()?), rest))
}

fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = short(bytes)?;
    rest.split_at_checked(usize::try_from(length).ok()?)
}

/// The commits that lie below one before them.
#[derive(Debug, Default)]
pub struct Falls {
    last: BTreeMap<i32, i64>,
}

impl Falls {
    /// Names the commits among `commits` that went back.
    pub fn among(&mut self, commits: &[Commit]) -> Vec<String> {
        let mut falls = Vec::new();
        for Commit { partition, offset } in commits {
            let last = self.last.entry(*partition).or_insert(*offset);
            if offset < last {
                falls.push(format!("partition {partition}: {last} was committed, then {offset}"));
            }
            *last = *offset;
        }
        falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(version: i16, group: &str, topic: &str, partition: i32) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat();
        let head = version.to_be_bytes();
        [&head[..], &text(group), &text(topic), &partition.to_be_bytes()].concat()
    }

    /// Scenario: a commit, one of another group, one of another topic, a group's own record, a
    /// commit that was deleted, half a record. Guarantee: only ours is read.
    #[test]
    fn a_commit_of_the_group_is_read_and_other_records_are_not() {
        let value = [&3i16.to_be_bytes()[..], &77i64.to_be_bytes(), &[0; 10]].concat();
        let read = |key: &[u8], value: &[u8]| commit(key, value, "g", "t");
        let ours = record(1, "g", "t", 4);
        assert_eq!(read(&ours, &value), Some(Commit { partition: 4, offset: 77 }));
        assert_eq!(read(&record(1, "other", "t", 4), &value), None);
        assert_eq!(read(&record(1, "g", "other", 4), &value), None);
        assert_eq!(read(&record(2, "g", "t", 4), &value), None);
        assert_eq!(read(&ours, &[]), None);
        assert_eq!(read(&ours[..9], &value), None);
    }

    /// Scenario: commits of two partitions that grow, repeat and fall. Guarantee: the fall is
    /// named, over the calls, and nothing else.
    #[test]
    fn a_commit_below_the_one_before_is_named() {
        let commit = |partition, offset| Commit { partition, offset };
        let mut falls = Falls::default();
        assert!(falls.among(&[commit(0, 5), commit(1, 3), commit(0, 5)]).is_empty());
        let fallen = falls.among(&[commit(1, 4), commit(0, 2), commit(0, 3)]);
        assert_eq!(fallen, ["partition 0: 5 was committed, then 2"]);
    }
}
