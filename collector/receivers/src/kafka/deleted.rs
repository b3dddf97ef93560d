//! Batches to be repeated whose messages retention has deleted.
//!
//! If messages follow them, the next one shows it, and promises before it are dropped. If none
//! follows, nothing would show it: the repeated batch stays half full, and every commit names the
//! promise at an offset that is gone. So the partition's beginning, which is requested with its
//! lag, is compared with the awaited offset. Such batches are done, the commit passes them, and
//! their messages are counted as lost with it.

use std::time::Duration;

use millrace_pipeline::batch::CutReason;
use rdkafka::topic_partition_list::Offset;

use super::member::Member;
use super::partition::Key;
use super::session::Session;

/// How long a deleted message may be awaited: it may have been fetched before.
const DELETED_AFTER: Duration = Duration::from_secs(10);

impl<M: Member> Session<M> {
    /// Skips promises below the partition's beginning, once none of their messages can come any
    /// more.
    pub(super) fn pass_deleted(&mut self, key: Key, low: i64) {
        let reads = self.has_turn(key) && !self.is_paused() && !self.shared.drain.is_begun();
        let now = self.now;
        let promised = self.ledger.has_promises(key);
        let Some(partition) = self.partitions.get_mut(&key) else { return };
        let repeats = partition.open.as_ref().is_some_and(super::partition::OpenBatch::is_repeat);
        let next = partition.next_offset;
        if !reads || !(promised || repeats) || low <= next || partition.goes_to.is_some() {
            partition.awaits_deleted = None;
            return;
        }
        let awaited = partition.awaits_deleted.filter(|(offset, _)| *offset == next);
        let (_, since) = *partition.awaits_deleted.insert(awaited.unwrap_or((next, now)));
        if now - since < DELETED_AFTER {
            return;
        }
        partition.awaits_deleted = None;
        if let Some(open) = partition.open.as_ref().and_then(|open| open.intent())
            && repeats
            && open.range.next() <= low
        {
            // All that was read of it in time.
            if !self.cut(key, CutReason::Repeat) {
                return;
            }
            self.pass_to(key, next, open.range.next());
        }
        if let Some(end) = self.ledger.pass_deleted(key, low) {
            self.pass_to(key, next, end);
        }
    }

    /// Continues at `end`; the messages before it are gone.
    fn pass_to(&mut self, key: Key, next: i64, end: i64) {
        let (Some(topic), Some(partition)) = (self.topic(key), self.partitions.get(&key)) else {
            return;
        };
        tracing::warn!(
            topic = %topic.name, partition = key.partition, from = next, to = end,
            "batches to be repeated were deleted"
        );
        if partition.is_placed {
            self.shared.lag.passed_over(&topic.name, key.partition, next, end);
        }
        if let Some(partition) = self.partitions.get_mut(&key) {
            partition.next_offset = end;
        }
        // Also drops what was fetched before.
        self.go_to(key, Offset::Offset(end));
    }
}
