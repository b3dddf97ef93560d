//! Group membership: takes over and releases partitions.
//!
//! A revoked partition is first drained: nothing more is read from it, its open batch is cut, and
//! it leaves once everything of it is stored and committed, or at the deadline. The next owner
//! reads again what isn't stored by then.
//!
//! When the process drains, a worker that is done continues to answer the group, without accepting
//! anything, until all workers of the process are done ([`crate::group::finish`]).

use std::sync::Arc;
use std::time::Duration;

use millrace_ledger::{Promises, decode_metadata};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::batch::CutReason;
use millrace_pipeline::failpoint;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::commits::committed_metadata::CommittedOffset;
use crate::group::context::ConsumerEvent;
use crate::group::finish::{UncommittedPartition, UncommittedReason};
use crate::group::member::Member;
use crate::group::partition::AssignedPartition;
use crate::group::partition_key::PartitionKey;
use crate::group::session::{GroupSession, PendingJoin, PendingLeave};

/// The maximum time to finish a revoked partition. The group waits for it: well under librdkafka's
/// `max.poll.interval.ms` of 300 s, and longer than an insert usually takes.
const LEAVE_DEADLINE: Duration = Duration::from_secs(10);
/// The part of the drain's time that is reserved for leaving the group.
const CLOSE_MARGIN: Duration = Duration::from_millis(300);
/// The timeout of requests for committed offsets.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer below this process's own commits is doubted. A restarted broker answers with
/// all commits once it has read its own topic of them, which takes less than this; afterwards a
/// lower offset was committed on purpose.
const DOUBT_TIME: Duration = Duration::from_secs(10);
/// The delay between unanswered requests for committed offsets.
const JOIN_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), longest: Duration::from_secs(10) };

impl<M: Member> GroupSession<M> {
    pub(crate) fn handle_event(&mut self, event: ConsumerEvent) {
        match event {
            ConsumerEvent::Assigned(partitions) => {
                let keys: Vec<PartitionKey> = self.keys_of(&partitions);
                tracing::info!(worker = self.worker, ?partitions, "partitions assigned");
                let seed = u64::from(self.worker);
                let backoff = Backoff::new(JOIN_BACKOFF, seed);
                let next_try = self.now;
                self.joining = Some(PendingJoin { keys, next_try, backoff, doubted_until: None });
            }
            ConsumerEvent::Revoked { partitions, lost } => {
                tracing::info!(worker = self.worker, ?partitions, lost, "partitions revoked");
                self.begin_leaving(&partitions, lost);
            }
            ConsumerEvent::Topics(ids) => self.handle_topic_ids(&ids),
            ConsumerEvent::Committed(result) => self.handle_committed(result),
        }
    }

    /// Requests the committed offsets, and begins there.
    pub(crate) fn continue_joining(&mut self) {
        let Some(joining) = self.joining.as_ref() else { return };
        if self.shared.drain.is_begun() {
            return self.join_unread();
        }
        if joining.next_try > self.now {
            return;
        }
        let mut list = self.partition_list(joining.keys.iter().copied());
        // The group waits for an answer, and an empty list needs no request.
        let known = if list.count() == 0 {
            Ok(Vec::new())
        } else {
            // Request the ids before the committed offsets: if the topic changes in between, the
            // next request shows it.
            let Some(ids) = self.member.topic_ids() else {
                return self.retry_joining("no broker reports the topics' ids");
            };
            let is_known = |key: &PartitionKey| ids.get(usize::from(key.topic)) != Some(&None);
            if !joining.keys.iter().all(is_known) {
                return self.retry_joining("a broker doesn't know an assigned topic yet");
            }
            self.handle_topic_ids(&ids);
            let known = self.member.committed_offsets(list, COMMITTED_TIMEOUT);
            // The requests may have taken seconds.
            self.now = self.member.now();
            known
        };
        let known = match known {
            Ok(known) => known,
            Err(error) => return self.retry_joining(&error.to_string()),
        };
        if self.is_doubtful(&known) {
            return;
        }
        self.joining = None;
        list = TopicPartitionList::new();
        for entry in known {
            let offset = self.begin_at_commit(&entry).map_or(Offset::Invalid, Offset::Offset);
            if let Err(error) = list.add_partition_offset(&entry.topic, entry.partition, offset) {
                tracing::error!(%error, "cannot list an assigned partition");
            }
        }
        if let Err(error) = self.member.assign(&list) {
            tracing::error!(worker = self.worker, %error, "cannot accept assigned partitions");
            self.shared.status.set_trouble(self.worker, error.to_string());
        }
    }

    /// Answers an assignment at once, while the process drains: other members wait for that answer.
    /// Nothing will be read from it, so no committed offsets are needed.
    fn join_unread(&mut self) {
        let Some(joining) = self.joining.take() else { return };
        let mut list = TopicPartitionList::new();
        for key in joining.keys {
            let topic = &self.topic_of(key).name;
            // At the end there are no messages to fetch.
            if let Err(error) = list.add_partition_offset(topic, key.partition, Offset::End) {
                tracing::error!(%error, "cannot list an assigned partition");
            }
        }
        if let Err(error) = self.member.assign(&list) {
            tracing::warn!(worker = self.worker, %error, "cannot accept partitions while draining");
        }
        if let Err(error) = self.member.pause(&list) {
            tracing::debug!(worker = self.worker, %error, "cannot pause unread partitions");
        }
    }

    fn retry_joining(&mut self, error: &str) {
        tracing::warn!(worker = self.worker, %error, "cannot read committed offsets; retrying");
        self.shared.status.set_trouble(self.worker, format!("reading committed offsets: {error}"));
        if let Some(joining) = self.joining.as_mut() {
            joining.next_try = self.now + joining.backoff.next_wait();
        }
    }

    /// Returns whether to repeat the request: the answer is lower than one that the broker returned
    /// or confirmed to this session before. Beginning there would read stored messages again, in
    /// other batches.
    fn is_doubtful(&mut self, known: &[CommittedOffset]) -> bool {
        let below = known.iter().find_map(|entry| {
            let key = self.key_of(&entry.topic, entry.partition)?;
            let own = self.commits.confirmed_offset(key)?;
            entry.offset.is_none_or(|offset| offset < own).then_some((entry, own))
        });
        let Some((CommittedOffset { topic, partition, offset, .. }, own)) = below else {
            return false;
        };
        let Some(joining) = self.joining.as_mut() else { return false };
        let until = *joining.doubted_until.get_or_insert(self.now + DOUBT_TIME);
        let doubted = self.now < until;
        tracing::warn!(
            topic,
            partition,
            offset,
            own,
            doubted,
            "the broker reports a lower offset than this process committed"
        );
        if doubted {
            joining.next_try = self.now + joining.backoff.next_wait();
        }
        doubted
    }

    /// Begins a partition at its committed offset, or at 0 if that was committed for another topic
    /// with this name. Returns the offset.
    fn begin_at_commit(&mut self, entry: &CommittedOffset) -> Option<i64> {
        let CommittedOffset { topic, partition, offset, metadata } = entry;
        let (mut offset, key) = (*offset, self.key_of(topic, *partition)?);
        let mut promises = offset.map_or_else(Promises::default, |offset| {
            decode_metadata(offset, metadata).unwrap_or_else(|error| {
                tracing::warn!(topic, partition, %error, "a commit's metadata is ignored");
                self.shared.telemetry.commit_metadata_ignored();
                Promises::default()
            })
        });
        let numbers = promises.topic.zip(self.topic_number(key));
        if numbers.is_some_and(|(committed, current)| committed != current) {
            tracing::warn!(
                topic,
                partition,
                offset,
                "a committed offset belongs to a deleted topic; starting at 0"
            );
            (offset, promises) = (Some(0), Promises::default());
        }
        let (repeats, divided) = (promises.ranges.len(), promises.divisions.len());
        tracing::info!(topic, partition, offset, repeats, divided, "partition begins");
        self.begin_partition(key, offset, promises);
        offset
    }

    pub(crate) fn begin_partition(
        &mut self,
        key: PartitionKey,
        offset: Option<i64>,
        promises: Promises,
    ) {
        self.commits.set_confirmed(key, offset);
        self.ledger.assign(key, offset, promises);
        self.partitions.insert(key, AssignedPartition::new(offset));
    }

    fn begin_leaving(&mut self, partitions: &[(String, i32)], lost: bool) {
        // An assignment that was never taken over is dropped.
        self.joining = None;
        let keys = self.keys_of(partitions);
        if lost {
            for key in &keys {
                self.record_uncommitted(*key, UncommittedReason::PartitionLost);
                self.drop_partition(*key);
            }
            self.unassign_keys(&keys);
            return;
        }
        for key in &keys {
            self.finish_open(*key);
            if let Some(partition) = self.partitions.get_mut(key) {
                partition.leaving = true;
            }
        }
        failpoint::hit("in-revoke");
        let unread = self.shared.drain.is_begun();
        // A partition that was taken over while the process drained was never read.
        let keys = keys.into_iter().filter(|key| unread || self.partitions.contains_key(key));
        let keys = keys.collect();
        // A refusal of the old generation doesn't apply to the new one.
        self.commits.retry_at(self.now);
        self.leaving = Some(PendingLeave { keys, deadline: self.now + LEAVE_DEADLINE });
    }

    /// Releases drained partitions, or all at the deadline.
    pub(crate) fn continue_leaving(&mut self) {
        let Some(leaving) = self.leaving.as_ref() else { return };
        // A commit that was refused is due again: the next owner would repeat what it covers.
        let settled = leaving.keys.iter().all(|key| self.ledger.is_drained(*key));
        let settled = settled && !self.commits.is_in_flight();
        if !settled && self.now < leaving.deadline {
            return;
        }
        let Some(leaving) = self.leaving.take() else { return };
        let announce = self.shared.settings.announces_batches();
        let mut last = Vec::new();
        for key in &leaving.keys {
            self.record_uncommitted(*key, UncommittedReason::PartitionLost);
            if let Some(commit) = self.ledger.revoke(*key, announce) {
                self.record_committed(&commit);
                last.push(commit);
            }
            self.drop_partition(*key);
        }
        self.commit_and_forget(&last);
        self.unassign_keys(&leaving.keys);
    }

    fn unassign_keys(&self, keys: &[PartitionKey]) {
        let list = self.partition_list(keys.iter().copied());
        if let Err(error) = self.member.unassign(&list) {
            tracing::warn!(worker = self.worker, %error, "cannot release partitions");
        }
    }

    /// Cuts the partition's open batch. One whose end is fixed and that isn't complete yet is
    /// dropped instead: its commit still names it, and the next owner reads it.
    pub(crate) fn finish_open(&mut self, key: PartitionKey) {
        let open = self.partitions.get(&key).and_then(|p| p.open.as_ref());
        match open.map(|open| (open.cut.range(), open.next_offset)) {
            None => {}
            Some((Some(range), next)) if next < range.next() => self.discard_open(key),
            Some(_) => {
                self.cut_batch(key, CutReason::Drain);
            }
        }
    }

    pub(crate) fn drop_partition(&mut self, key: PartitionKey) {
        self.discard_open(key);
        self.drop_work(key, 0);
        self.partitions.remove(&key);
        self.ledger.revoke(key, false);
        let topic = &self.topic_of(key).name;
        self.shared.lag.forget_partition(topic, key.partition, &self.shared.telemetry);
    }

    pub(crate) fn drop_all_partitions(&mut self) {
        for key in self.partitions.keys().copied().collect::<Vec<_>>() {
            self.drop_partition(key);
        }
    }

    /// Records the part of the partition that isn't safe if the process ends, because nothing here
    /// will handle it any more.
    pub(crate) fn record_uncommitted(&self, key: PartitionKey, why: UncommittedReason) {
        let uncommitted = self.ledger.uncommitted(key).filter(|_| self.shared.drain.is_begun());
        let Some((open_ranges, offsets)) = uncommitted else { return };
        let uncommitted_offsets = u64::try_from(offsets).unwrap_or(0);
        if uncommitted_offsets == 0 {
            return;
        }
        self.shared.finish.record_uncommitted(UncommittedPartition {
            topic: Arc::clone(&self.topic_of(key).name),
            partition: key.partition,
            unanswered_batches: open_ranges as u64,
            uncommitted_offsets,
            why,
        });
    }

    /// Cuts open batches, and gives up what the sink has no capacity for. Returns true once nothing
    /// is left to store and commit, in any worker of the process, or the deadline is near.
    pub(crate) fn advance_drain(&mut self) -> bool {
        for key in self.partitions.keys().copied().collect::<Vec<_>>() {
            self.withdraw_unsent(key);
            self.finish_open(key);
        }
        failpoint::hit("in-drain");
        let idle = self.partitions.keys().all(|key| self.ledger.is_idle(*key));
        let committed = !self.commits.is_in_flight() && !self.ledger.has_commits_due();
        if idle && committed {
            self.shared.finish.mark_done(self.worker);
        }
        self.shared.finish.all_done() || self.is_deadline_near()
    }

    /// Returns whether the deadline is near, by the member's clock.
    fn is_deadline_near(&self) -> bool {
        let deadline = self.shared.drain.deadline();
        deadline.is_some_and(|at| at.saturating_duration_since(self.now) <= CLOSE_MARGIN)
    }

    pub(crate) fn publish_lag(&mut self) {
        let mut beginnings = Vec::new();
        for (key, partition) in &mut self.partitions {
            let topic = &self.shared.settings.topics[usize::from(key.topic)];
            let commit_point = self.ledger.commit_point(*key);
            commit_point.into_iter().for_each(|point| partition.outcomes.forget_before(point));
            let oldest = self.ledger.oldest_millis(*key);
            let oldest = oldest.or_else(|| partition.open_timestamp_millis());
            let low =
                self.shared.lag.publish_progress(&topic.name, key.partition, commit_point, oldest);
            beginnings.extend(low.map(|low| (*key, low)));
        }
        for (key, low) in beginnings {
            self.pass_deleted(key, low);
        }
    }

    pub(crate) fn key_of(&self, topic: &str, partition: i32) -> Option<PartitionKey> {
        let topics = &self.shared.settings.topics;
        let at = topics.iter().position(|known| known.name.as_ref() == topic)?;
        Some(PartitionKey { topic: u16::try_from(at).ok()?, partition })
    }

    fn keys_of(&self, partitions: &[(String, i32)]) -> Vec<PartitionKey> {
        let known = partitions.iter();
        known.filter_map(|(topic, partition)| self.key_of(topic, *partition)).collect()
    }

    pub(crate) fn partition_list(
        &self,
        keys: impl Iterator<Item = PartitionKey>,
    ) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for key in keys {
            list.add_partition(&self.topic_of(key).name, key.partition);
        }
        list
    }
}
