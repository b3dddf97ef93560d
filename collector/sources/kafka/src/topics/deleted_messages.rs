//! Skips batches to be repeated whose messages retention has deleted.
//!
//! If messages follow them, the next one shows it, and promises before it are dropped. If none
//! follows, nothing would show it: the repeated batch stays half full, and every commit names the
//! promise at an offset that is deleted. So the partition's beginning, which is requested with its
//! lag, is compared with the awaited offset. Such batches are done, the commit passes them, and
//! their messages are counted as lost with it.

use std::time::Duration;

use millrace_pipeline::batch::CutReason;
use rdkafka::topic_partition_list::Offset;

use crate::group::member::Member;
use crate::group::partition_key::PartitionKey;
use crate::group::session::GroupSession;

/// How long a deleted message is awaited: it may have been fetched before.
const DELETED_AFTER: Duration = Duration::from_secs(10);

impl<M: Member> GroupSession<M> {
    /// Skips promises below the partition's beginning, once none of their messages can arrive any
    /// more.
    pub(crate) fn pass_deleted(&mut self, key: PartitionKey, low: i64) {
        let now = self.now;
        let is_begun = self.shared.drain.is_begun();
        let promised = self.ledger.has_promises(key);
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let repeats =
            partition.open.as_ref().is_some_and(crate::group::partition::OpenBatch::has_fixed_end);
        let next = partition.next_offset;
        let reads = partition.is_read == Some(true) && !is_begun;
        if !reads || !(promised || repeats) || low <= next || partition.pending_seek.is_some() {
            partition.awaits_deleted = None;
            return;
        }
        let awaited = partition.awaits_deleted.filter(|(offset, _)| *offset == next);
        let (_, since) = *partition.awaits_deleted.insert(awaited.unwrap_or((next, now)));
        if now - since < DELETED_AFTER {
            return;
        }
        partition.awaits_deleted = None;
        if let Some(open) = partition.open.as_ref().and_then(|open| open.to_intent())
            && repeats
            && open.range.next() <= low
        {
            // All that was read of it in time.
            if !self.cut_batch(key, CutReason::Repeat) {
                return;
            }
            self.pass_to(key, next, open.range.next());
        }
        if let Some(end) = self.ledger.pass_deleted(key, low) {
            self.pass_to(key, next, end);
        }
    }

    /// Continues at `end`; the messages before it are deleted.
    fn pass_to(&mut self, key: PartitionKey, next: i64, end: i64) {
        let topic = self.topic_of(key);
        let Some(partition) = self.partitions.get(&key) else { return };
        tracing::warn!(
            topic = %topic.name, partition = key.partition, from = next, to = end,
            "batches to be repeated were deleted"
        );
        if partition.has_position {
            self.shared.lag.record_gap(&topic.name, key.partition, next, end);
        }
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.next_offset = end;
        }
        // The seek also drops messages that were fetched before.
        self.seek_to(key, Offset::Offset(end));
    }
}
