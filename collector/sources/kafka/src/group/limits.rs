//! Decides which partitions are read, and alone pauses and resumes them.
//!
//! A partition may reach its own limit, and then only it isn't read: a range that isn't answered,
//! such as a dead letter whose topic is missing, stops its partition once the ledger has no further
//! range for it, and waiting dead letters stop the partitions of their signal.

use rdkafka::error::KafkaResult;

use crate::group::member::Member;
use crate::group::partition::AssignedPartition;
use crate::group::partition_key::PartitionKey;
use crate::group::session::{Flow, GroupSession};

impl<M: Member> GroupSession<M> {
    /// Returns whether the partition is read when any is: it stays, none of its tables is blocked,
    /// the budget holds what it repeats, no divided batch waits to be read again, and it has
    /// reached none of its limits.
    pub(crate) fn is_readable(&self, key: PartitionKey, partition: &AssignedPartition) -> bool {
        !partition.leaving
            && partition.stalled_table.is_none()
            && !partition.lacks_memory
            && !self.ledger.has_divided(key)
            && self.ledger.has_capacity(key)
            && !self.dead_letters.is_full(self.topic_of(key).signal)
    }

    /// Pauses and resumes partitions that have changed.
    pub(crate) fn pause_and_resume(&mut self) {
        let is_paused = self.flow == Flow::Paused;
        let is_read =
            |key: PartitionKey, it: &AssignedPartition| !is_paused && self.is_readable(key, it);
        let now = self.partitions.iter().map(|(key, it)| (*key, is_read(*key, it), it.is_read));
        let changed = now.filter(|(_, is_read, before)| *before != Some(*is_read));
        let (resumed, paused): (Vec<_>, Vec<_>) = changed.partition(|(_, is_read, _)| *is_read);
        self.set_read(&resumed, true, M::resume);
        self.set_read(&paused, false, M::pause);
    }

    fn set_read(
        &mut self,
        changed: &[(PartitionKey, bool, Option<bool>)],
        is_read: bool,
        change: impl Fn(&M, &rdkafka::TopicPartitionList) -> KafkaResult<()>,
    ) {
        if changed.is_empty() {
            return;
        }
        let list = self.partition_list(changed.iter().map(|(key, ..)| *key));
        tracing::debug!(worker = self.worker, ?list, is_read, "partitions");
        if let Err(error) = change(&self.member, &list) {
            tracing::warn!(worker = self.worker, %error, is_read, "cannot pause or resume partitions");
        }
        for (key, ..) in changed {
            if let Some(partition) = self.partitions.get_mut(key) {
                partition.is_read = Some(is_read);
            }
        }
    }
}
