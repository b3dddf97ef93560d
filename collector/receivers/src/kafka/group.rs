//! Membership: taking partitions over, giving them up, and commits.
//!
//! A partition that is given up is first drained: nothing more is read from it, its open batch is
//! cut, and it leaves once everything of it is stored and committed, or at the deadline. The next
//! owner reads again what isn't stored by then.
//!
//! When the process drains, a worker that is done continues to answer the group, taking nothing
//! new, until all workers of the process are ([`super::finish`]).

use std::sync::Arc;
use std::time::Duration;

use millrace_ledger::{Commit, Cut, decode, encode};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::batch::CutReason;
use millrace_pipeline::failpoint;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::context::Event;
use super::finish::{LeftBehind, Why};
use super::member::Member;
use super::metadata::Committed;
use super::partition::{Key, Partition};
use super::session::{COMMIT_INTERVAL, Joining, Leaving, Session};
use super::settings::Delivery;

/// Longest time to finish a partition that is given up. The group waits for it: well under
/// librdkafka's `max.poll.interval.ms` of 300 s, and longer than an insert usually takes.
const LEAVE_DEADLINE: Duration = Duration::from_secs(10);
/// The part of the drain's time that is kept for leaving the group.
const CLOSE_MARGIN: Duration = Duration::from_millis(300);
/// Time-out for committed offsets.
const COMMITTED_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer below this process's own commits is doubted. A restarted broker answers with
/// all commits once it has read its own topic of them, which takes less than this; afterwards a
/// lower offset was committed on purpose.
const DOUBT_TIME: Duration = Duration::from_secs(10);
/// Delay after a refused commit.
const COMMIT_RETRY: Duration = Duration::from_millis(500);
/// Delay between unanswered requests for committed offsets.
const JOIN_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(200), longest: Duration::from_secs(10) };

impl<M: Member> Session<M> {
    pub(super) fn handle(&mut self, event: Event) {
        match event {
            Event::Assigned(partitions) => {
                let keys: Vec<Key> = self.keys(&partitions);
                tracing::info!(worker = self.worker, ?partitions, "partitions assigned");
                let seed = u64::from(self.worker);
                let backoff = Backoff::new(JOIN_BACKOFF, seed);
                let next_try = self.now;
                self.joining = Some(Joining { keys, next_try, backoff, doubted_until: None });
            }
            Event::Revoked { partitions, lost } => {
                tracing::info!(worker = self.worker, ?partitions, lost, "partitions revoked");
                self.begin_leaving(&partitions, lost);
            }
            Event::Topics(ids) => self.topics_are(&ids),
            Event::Committed(result) => self.committed(result),
        }
    }

    /// Requests the committed offsets, and begins there.
    pub(super) fn go_on_joining(&mut self) {
        let Some(joining) = self.joining.as_ref() else { return };
        if self.shared.drain.is_begun() {
            return self.join_unread();
        }
        if joining.next_try > self.now {
            return;
        }
        let mut list = self.list(joining.keys.iter().copied());
        // The group waits for an answer: nobody is asked about nothing.
        let known = if list.count() == 0 {
            Ok(Vec::new())
        } else {
            // Before what is committed in them: whichever is older, the next look tells.
            match self.member.topics() {
                Some(ids) => self.topics_are(&ids),
                None => return self.try_joining_later("no broker says which topics there are"),
            }
            self.member.committed(list, COMMITTED_TIMEOUT)
        };
        let known = match known {
            Ok(known) => known,
            Err(error) => return self.try_joining_later(&error.to_string()),
        };
        if self.is_doubtful(&known) {
            return;
        }
        self.joining = None;
        list = TopicPartitionList::new();
        for entry in known {
            let offset = entry.offset.map_or(Offset::Invalid, Offset::Offset);
            if let Err(error) = list.add_partition_offset(&entry.topic, entry.partition, offset) {
                tracing::error!(%error, "cannot name an assigned partition");
            }
            self.begin_partition(entry);
        }
        if let Err(error) = self.member.assign(&list) {
            tracing::error!(worker = self.worker, %error, "cannot take partitions over");
            self.shared.status.trouble(self.worker, error.to_string());
        }
        // librdkafka remembers that a partition was paused, over an assignment that ended with it.
        let keys = self.partitions.keys().copied();
        let (read, wait): (Vec<Key>, Vec<Key>) =
            keys.partition(|key| self.has_turn(*key) && !self.is_paused());
        for (keys, pause) in [(read, false), (wait, true)] {
            let list = self.list(keys.into_iter());
            let done = if pause { self.member.pause(&list) } else { self.member.resume(&list) };
            if let Err(error) = done {
                tracing::warn!(worker = self.worker, %error, pause, "new partitions");
            }
        }
    }

    /// Answers an assignment at once, while the process drains: others wait for that answer.
    /// Nothing will be read from it, so no committed offsets are needed.
    fn join_unread(&mut self) {
        let Some(joining) = self.joining.take() else { return };
        let mut list = TopicPartitionList::new();
        for key in joining.keys {
            let Some(topic) = self.topic(key) else { continue };
            // Where nothing is there to be fetched.
            if let Err(error) = list.add_partition_offset(&topic.name, key.partition, Offset::End) {
                tracing::error!(%error, "cannot name an assigned partition");
            }
        }
        if let Err(error) = self.member.assign(&list) {
            tracing::warn!(worker = self.worker, %error, "taking partitions over while draining");
        }
        if let Err(error) = self.member.pause(&list) {
            tracing::debug!(worker = self.worker, %error, "cannot pause what won't be read");
        }
    }

    fn try_joining_later(&mut self, error: &str) {
        tracing::warn!(worker = self.worker, %error, "cannot read committed offsets, will retry");
        self.shared.status.trouble(self.worker, format!("reading committed offsets: {error}"));
        if let Some(joining) = self.joining.as_mut() {
            joining.next_try = self.now + joining.backoff.next_wait();
        }
    }

    /// Whether to repeat the request: the answer is lower than one that the broker gave or
    /// confirmed to this session before. Beginning there would read stored messages again, in other
    /// batches.
    fn is_doubtful(&mut self, known: &[Committed]) -> bool {
        let below = known.iter().find_map(|entry| {
            let key = self.key_of(&entry.topic, entry.partition)?;
            let own = *self.confirmed.get(&key)?;
            entry.offset.is_none_or(|offset| offset < own).then_some((entry, own))
        });
        let Some((Committed { topic, partition, offset, .. }, own)) = below else { return false };
        let Some(joining) = self.joining.as_mut() else { return false };
        let until = *joining.doubted_until.get_or_insert(self.now + DOUBT_TIME);
        let doubted = self.now < until;
        tracing::warn!(
            topic,
            partition,
            offset,
            own,
            doubted,
            "the broker names a lower offset than was committed from here"
        );
        if doubted {
            joining.next_try = self.now + joining.backoff.next_wait();
        }
        doubted
    }

    fn begin_partition(&mut self, entry: Committed) {
        let Some(key) = self.key_of(&entry.topic, entry.partition) else { return };
        let Committed { topic, partition, offset, metadata } = entry;
        let promised = match (offset, metadata) {
            (Some(offset), Some(metadata)) => decode(offset, &metadata).unwrap_or_else(|error| {
                tracing::warn!(topic, partition, %error, "ignoring the commit's metadata");
                self.shared.telemetry.commit_metadata_ignored();
                Vec::new()
            }),
            (Some(_), None) => {
                tracing::warn!(topic, partition, "ignoring commit metadata that is not text");
                self.shared.telemetry.commit_metadata_ignored();
                Vec::new()
            }
            (None, _) => Vec::new(),
        };
        tracing::info!(topic, partition, offset, repeats = promised.len(), "partition begins");
        match offset {
            Some(offset) => self.confirmed.insert(key, offset),
            None => self.confirmed.remove(&key),
        };
        self.ledger.assign(key, offset, promised);
        self.partitions.insert(key, Partition::new(offset));
    }

    /// Whether the partition is read when any is: it stays, no table of it is blocked, and there is
    /// room for what it repeats.
    pub(super) fn has_turn(&self, key: Key) -> bool {
        let partition = self.partitions.get(&key);
        partition.is_some_and(|p| !p.leaving && p.kept_back.is_none() && !p.lacks_room)
    }

    fn begin_leaving(&mut self, partitions: &[(String, i32)], lost: bool) {
        // An assignment that was never taken over is simply forgotten.
        self.joining = None;
        let keys = self.keys(partitions);
        if lost {
            for key in &keys {
                self.leave_behind(*key, Why::TakenAway);
                self.drop_partition(*key);
            }
            self.unassign(&keys);
            return;
        }
        let list = self.list(keys.iter().copied());
        if let Err(error) = self.member.pause(&list) {
            tracing::debug!(%error, "cannot pause what is given up");
        }
        for key in &keys {
            self.finish_open(*key);
            if let Some(partition) = self.partitions.get_mut(key) {
                partition.leaving = true;
            }
        }
        failpoint::hit("in-revoke");
        let unread = self.shared.drain.is_begun();
        let with_generation = keys.into_iter().map(|key| (key, self.ledger.generation(key)));
        let keys = with_generation.filter(|(_, known)| known.is_some() || unread).collect();
        // A refusal of the old generation says nothing about the new one.
        self.commits.not_before = self.now;
        self.leaving = Some(Leaving { keys, deadline: self.now + LEAVE_DEADLINE });
    }

    /// Gives up what is drained, or everything at the deadline.
    pub(super) fn go_on_leaving(&mut self) {
        let Some(leaving) = self.leaving.as_ref() else { return };
        // A commit that was refused is due again: the next owner would repeat what it covers.
        let settled = leaving.keys.iter().all(|(key, _)| self.ledger.is_settled(*key));
        let settled = settled && self.commits.in_flight.is_empty();
        if !settled && self.now < leaving.deadline {
            return;
        }
        let Some(leaving) = self.leaving.take() else { return };
        let announce = self.shared.settings.delivery == Delivery::EffectivelyOnce;
        let mut last = Vec::new();
        for (key, generation) in &leaving.keys {
            let Some(generation) = generation else { continue };
            self.leave_behind(*key, Why::TakenAway);
            let revoked = self.ledger.revoke(*key, *generation, announce);
            if let Some(commit) = revoked.and_then(|revoked| revoked.final_commit) {
                self.note_committed(&commit);
                last.push(commit);
            }
            self.drop_partition(*key);
        }
        self.commit_and_forget(&last);
        let keys: Vec<Key> = leaving.keys.iter().map(|(key, _)| *key).collect();
        self.unassign(&keys);
    }

    /// The last commit of partitions that leave before everything was answered. librdkafka sends it
    /// before it gives them up; its answer would come too late.
    fn commit_and_forget(&self, commits: &[Commit<Key>]) {
        if commits.is_empty() {
            return;
        }
        let asked = self.commit_list(commits);
        let asked = asked.and_then(|list| self.member.commit_and_forget(&list));
        if let Err(error) = asked {
            tracing::warn!(worker = self.worker, %error, "cannot ask for the last commit");
        }
    }

    fn unassign(&self, keys: &[Key]) {
        let list = self.list(keys.iter().copied());
        if let Err(error) = self.member.unassign(&list) {
            tracing::warn!(worker = self.worker, %error, "giving up partitions");
        }
    }

    /// Cuts the partition's open batch; one that repeats an earlier try and isn't whole yet is
    /// dropped instead: its commit still names it, and the next owner repeats it.
    pub(super) fn finish_open(&mut self, key: Key) {
        let open = self.partitions.get(&key).and_then(|p| p.open.as_ref());
        match open.map(|open| (open.cut, open.next_offset)) {
            None => {}
            Some((Cut::Exactly(batch), next)) if next < batch.range.next() => {
                self.discard_open(key)
            }
            Some(_) => {
                self.cut(key, CutReason::Drain);
            }
        }
    }

    fn drop_partition(&mut self, key: Key) {
        self.discard_open(key);
        self.drop_work(key);
        self.partitions.remove(&key);
        if let Some(generation) = self.ledger.generation(key) {
            self.ledger.revoke(key, generation, false);
        }
        if let Some(topic) = self.topic(key) {
            self.shared.lag.forget(&topic.name, key.partition, &self.shared.telemetry);
        }
    }

    pub(super) fn drop_all_partitions(&mut self) {
        for key in self.partitions.keys().copied().collect::<Vec<_>>() {
            self.drop_partition(key);
        }
    }

    /// Commits what changed, one commit in flight at a time: every second, at once when a batch
    /// waits to be named, and at once when partitions leave.
    pub(super) fn commit_if_due(&mut self) {
        if !self.commits.in_flight.is_empty() || self.now < self.commits.not_before {
            return;
        }
        let announce = self.shared.settings.delivery == Delivery::EffectivelyOnce;
        let hurry = self.leaving.is_some() || self.shared.drain.is_begun();
        let to_name =
            !(self.held.is_empty() && self.refused.is_empty() && self.to_record.is_empty());
        let waiting = announce && to_name;
        if self.now < self.commits.next && !hurry && !waiting {
            return;
        }
        if self.now >= self.commits.next {
            self.publish_lag();
        }
        let due = self.ledger.commits_due(announce);
        if !waiting || due.is_empty() {
            self.commits.next = self.commits.next.max(self.now + COMMIT_INTERVAL);
        }
        if due.is_empty() {
            return;
        }
        if self.send_commit(&due) {
            self.commits.in_flight = due;
        } else {
            self.commits.not_before = self.now + COMMIT_RETRY;
            for commit in &due {
                self.ledger.commit_answered(commit, false);
            }
        }
    }

    /// The commits as librdkafka takes them.
    fn commit_list(&self, commits: &[Commit<Key>]) -> KafkaResult<TopicPartitionList> {
        tracing::debug!(worker = self.worker, ?commits, "commit");
        let mut list = TopicPartitionList::new();
        for commit in commits {
            let Some(topic) = self.topic(commit.key) else { continue };
            let mut element = list.add_partition(&topic.name, commit.key.partition);
            element.set_offset(Offset::Offset(commit.offset))?;
            if !commit.open.is_empty() {
                element.set_metadata(encode(commit.offset, &commit.open));
            }
        }
        Ok(list)
    }

    fn send_commit(&self, commits: &[Commit<Key>]) -> bool {
        failpoint::hit("before-commit");
        match self.commit_list(commits) {
            Ok(list) => self.member.commit(list),
            Err(error) => {
                tracing::error!(worker = self.worker, %error, "cannot name offsets to commit");
                false
            }
        }
    }

    fn committed(&mut self, result: Result<(), KafkaError>) {
        let commits = std::mem::take(&mut self.commits.in_flight);
        let outdated = std::mem::take(&mut self.commits.outdated);
        tracing::debug!(worker = self.worker, ?commits, ?result, "commit answered");
        if let Err(error) = &result {
            // Ordinary while the group rebalances; the offsets are due again.
            tracing::warn!(worker = self.worker, %error, "commit refused, will retry");
            self.commits.not_before = self.now + COMMIT_RETRY;
        }
        for commit in &commits {
            self.ledger.commit_answered(commit, result.is_ok());
            if result.is_ok() && !outdated.contains(&commit.key.topic) {
                self.confirmed.insert(commit.key, commit.offset);
                self.note_committed(commit);
            }
        }
        self.release_held();
    }

    /// Gaps before it won't be met again.
    fn note_committed(&self, commit: &Commit<Key>) {
        if let Some(topic) = self.topic(commit.key) {
            self.shared.lag.committed(&topic.name, commit.key.partition, commit.offset);
        }
    }

    /// Notes what of the partition isn't safe, if the process ends: nothing here will handle it any
    /// more.
    pub(super) fn leave_behind(&self, key: Key, why: Why) {
        let (Some(topic), Some(now)) = (self.topic(key), self.ledger.snapshot(key)) else { return };
        let Some(point) = now.commit_point.filter(|_| self.shared.drain.is_begun()) else { return };
        let end = point.saturating_add(now.open_offsets);
        let uncommitted = end.saturating_sub(now.committed.unwrap_or(0));
        let uncommitted_offsets = u64::try_from(uncommitted).unwrap_or(0);
        if uncommitted_offsets == 0 {
            return;
        }
        self.shared.finish.leave(LeftBehind {
            topic: Arc::clone(&topic.name),
            partition: key.partition,
            unanswered_batches: now.open_ranges as u64,
            uncommitted_offsets,
            why,
        });
    }

    /// Cuts and waits: true once nothing is left to store and commit, in any worker of the process,
    /// or the deadline is near.
    pub(super) fn drained(&mut self) -> bool {
        for key in self.partitions.keys().copied().collect::<Vec<_>>() {
            self.finish_open(key);
        }
        failpoint::hit("in-drain");
        let idle = self.partitions.keys().all(|key| self.ledger.is_idle(*key));
        let committed = self.commits.in_flight.is_empty() && !self.ledger.has_commits_due();
        if idle && committed {
            self.shared.finish.done(self.worker);
        }
        self.shared.finish.all_done() || self.is_deadline_near()
    }

    /// Whether the deadline has passed, by the member's clock.
    fn is_deadline_near(&self) -> bool {
        let deadline = self.shared.drain.deadline();
        deadline.is_some_and(|at| at.saturating_duration_since(self.now) <= CLOSE_MARGIN)
    }

    fn publish_lag(&mut self) {
        let mut beginnings = Vec::new();
        for (key, partition) in &mut self.partitions {
            let Some(topic) = self.shared.settings.topics.get(usize::from(key.topic)) else {
                continue;
            };
            let commit_point = self.ledger.commit_point(*key);
            let oldest = partition.oldest_timestamp_millis(commit_point);
            let low = self.shared.lag.publish(&topic.name, key.partition, commit_point, oldest);
            beginnings.extend(low.map(|low| (*key, low)));
        }
        for (key, low) in beginnings {
            self.pass_deleted(key, low);
        }
    }

    pub(super) fn key_of(&self, topic: &str, partition: i32) -> Option<Key> {
        let topics = &self.shared.settings.topics;
        let at = topics.iter().position(|known| known.name.as_ref() == topic)?;
        Some(Key { topic: u16::try_from(at).ok()?, partition })
    }

    fn keys(&self, partitions: &[(String, i32)]) -> Vec<Key> {
        let known = partitions.iter();
        known.filter_map(|(topic, partition)| self.key_of(topic, *partition)).collect()
    }

    pub(super) fn list(&self, keys: impl Iterator<Item = Key>) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        for key in keys {
            if let Some(topic) = self.topic(key) {
                list.add_partition(&topic.name, key.partition);
            }
        }
        list
    }
}
