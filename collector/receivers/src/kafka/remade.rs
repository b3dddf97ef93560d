//! Topics that are deleted and made again while they are read.
//!
//! Two signs show it. A partition's offsets begin again below what was taken of it: seen with its
//! next message, if the new topic is shorter than the old one was. And the topic's id changes,
//! which is requested with every commit: a commit names a batch after its last message was taken,
//! and the batch is sent once that commit and the ids are answered, so with effectively-once
//! delivery everything sent belongs to the topic it was read from. Batches that wait then may
//! belong to either topic: they are dropped, and the new one is read from its first message.
//!
//! Limits: with at-least-once delivery, batches are sent before the answer, and what they held of
//! the new topic is stored again. A broker whose metadata lag behind gives the old id for that
//! long. A commit for the old topic taken for one of the new is replaced as soon as the id is
//! known; a process killed between the two leaves it behind.

use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::member::Member;
use super::partition::{Key, Partition};
use super::session::Session;
use super::topics::{LOOK_INTERVAL, TopicId};

impl<M: Member> Session<M> {
    /// Requests the topics' ids, if no commit has for a while.
    pub(super) fn look_at_topics(&mut self) {
        if self.now < self.next_look || self.partitions.is_empty() {
            return;
        }
        self.next_look = self.now + LOOK_INTERVAL;
        if self.commits.in_flight.is_empty() {
            self.member.look_at_topics();
        }
    }

    /// Handles the topics' present ids.
    pub(super) fn topics_are(&mut self, ids: &[Option<TopicId>]) {
        self.next_look = self.now + LOOK_INTERVAL;
        for (topic, id) in (0_u16..).zip(ids) {
            let Some(known) = self.topic_ids.get_mut(usize::from(topic)) else { continue };
            let Some(id) = *id else { continue };
            if known.replace(id).is_some_and(|before| before != id) {
                self.topic_is_another(topic);
            }
        }
    }

    fn topic_is_another(&mut self, topic: u16) {
        // The old one's commits mean nothing for the new one.
        self.confirmed.retain(|key, _| key.topic != topic);
        if !self.commits.in_flight.is_empty() {
            self.commits.outdated.insert(topic);
        }
        let keys = self.partitions.keys().copied().filter(|key| key.topic == topic);
        let mut beginnings = TopicPartitionList::new();
        for key in keys.collect::<Vec<Key>>() {
            self.go_to_the_beginning(key);
            let Some(topic) = self.topic(key) else { continue };
            let zero = Offset::Offset(0);
            let added = beginnings.add_partition_offset(&topic.name, key.partition, zero);
            if let Err(error) = added {
                tracing::error!(%error, "cannot name the beginning to commit it");
            }
        }
        if beginnings.count() == 0 {
            return;
        }
        // An offset of the old topic may have been committed as one of the new.
        if let Err(error) = self.member.commit_and_forget(&beginnings) {
            tracing::warn!(worker = self.worker, %error, "cannot commit the beginning");
        }
    }

    fn go_to_the_beginning(&mut self, key: Key) {
        self.begin_anew(key, 0);
        let leaving = self.partitions.get(&key).is_none_or(|partition| partition.leaving);
        if !leaving && !self.shared.drain.is_begun() {
            self.go_to(key, Offset::Beginning);
        }
    }

    /// The partition begins again: its topic was deleted and made again, or the commit is of
    /// another one. Open batches of the old one are forgotten: no offset shows any more whether
    /// they are stored.
    pub(super) fn begin_anew(&mut self, key: Key, offset: i64) {
        self.discard_open(key);
        self.drop_work(key);
        let Some(Partition { next_offset: expected, leaving, kept_back, lacks_room, .. }) =
            self.partitions.remove(&key)
        else {
            return;
        };
        if let Some(topic) = self.topic(key) {
            tracing::warn!(
                topic = %topic.name, partition = key.partition, expected, offset,
                "the partition begins again: its topic was made anew"
            );
        }
        self.confirmed.remove(&key);
        self.ledger.assign(key, Some(offset), Vec::new());
        let partition = Partition::new(Some(offset));
        let partition = Partition { leaving, kept_back, lacks_room, ..partition };
        self.partitions.insert(key, partition);
    }
}
