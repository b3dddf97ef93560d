//! Detects topics that are deleted and recreated while they are read.
//!
//! Two signs show it. A partition's offsets begin again below what was accepted of it: its next
//! message shows that, if the new topic is shorter than the old one was. And the topic's id
//! changes, which is requested with every commit: a batch is sent once a commit and the ids are
//! answered that were requested after its last message was accepted, so with effectively-once
//! delivery everything sent belongs to the topic whose id its tokens name. Batches that wait then
//! may belong to either topic: they are dropped, and the new one is read from its first message.
//!
//! Commits name the id of their topic, in short. A commit of the old topic that Kafka applied to
//! the new one has another, so whoever reads it begins at the new topic's first message.
//!
//! Limits: with at-least-once delivery only repeated batches wait for the answer; the others' rows
//! of the new topic are stored again. A broker whose metadata lag returns the old id for that long.

use millrace_ledger::Promises;
use rdkafka::topic_partition_list::Offset;

use crate::group::member::Member;
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;
use crate::topics::ids::{ID_REQUEST_INTERVAL, TopicId};

impl<M: Member> GroupSession<M> {
    /// Requests the topics' ids, if no commit has for a while.
    pub(crate) fn request_topic_ids(&mut self) {
        if self.now < self.next_id_request || self.partitions.is_empty() {
            return;
        }
        self.next_id_request = self.now + ID_REQUEST_INTERVAL;
        if !self.commits.is_in_flight() {
            self.member.request_topic_ids();
        }
    }

    /// Handles the topics' present ids.
    pub(crate) fn handle_topic_ids(&mut self, ids: &[Option<TopicId>]) {
        self.next_id_request = self.now + ID_REQUEST_INTERVAL;
        for (topic, id) in (0_u16..).zip(ids) {
            let Some(known) = self.topic_ids.get_mut(usize::from(topic)) else { continue };
            // Brokers without ids may be among others while they are upgraded.
            let Some(id) = id.filter(|id| known.is_none() || *id != TopicId::NONE) else {
                continue;
            };
            if known.replace(id).is_some_and(|before| before != TopicId::NONE && before != id) {
                self.restart_topic(topic);
            }
        }
    }

    /// Returns the number that commits and tokens of this partition's topic have.
    pub(crate) fn topic_number(&self, key: PartitionKey) -> Option<u32> {
        self.topic_ids.get(usize::from(key.topic)).copied().flatten().and_then(TopicId::number)
    }

    fn restart_topic(&mut self, topic: u16) {
        self.commits.forget_topic(topic);
        let keys = self.partitions.keys().copied().filter(|key| key.topic == topic);
        for key in keys.collect::<Vec<PartitionKey>>() {
            self.restart_partition(key, 0);
            if self.can_reread(key) {
                self.seek_to(key, Offset::Beginning);
            }
        }
    }

    /// Restarts a partition whose topic was deleted and recreated, or whose commit is of another
    /// topic. Open batches of the old one are dropped: no offset shows any more whether they are
    /// stored.
    pub(crate) fn restart_partition(&mut self, key: PartitionKey, offset: i64) {
        let Some(old) = self.partitions.get(&key) else { return };
        let (expected, leaving) = (old.next_offset, old.leaving);
        tracing::warn!(
            topic = %self.topic_of(key).name, partition = key.partition, expected, offset,
            "the partition begins again: its topic was recreated"
        );
        self.drop_partition(key);
        self.begin_partition(key, Some(offset), Promises::default());
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.leaving = leaving;
        }
    }
}
