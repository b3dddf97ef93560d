//! Which commit a session has requested, and when the next one is due.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_ledger::Commit;

use crate::group::partition_key::PartitionKey;

/// Interval of checks of the commit point.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// The commits of a session.
#[derive(Debug)]
pub(crate) struct Commits {
    /// The commits that were requested and not answered, without those of topics that were
    /// recreated since.
    pub(crate) in_flight: Option<Vec<Commit<PartitionKey>>>,
    /// When to check for changes.
    next: Instant,
    /// The earliest time of the next commit after a refusal.
    not_before: Instant,
    /// Since when every commit was refused.
    pub(crate) refused_since: Option<Instant>,
    /// The last commit that the broker named or confirmed to this session, by partition, also of
    /// partitions that it doesn't read now. Bounded by the topics' partitions.
    confirmed: BTreeMap<PartitionKey, i64>,
}

impl Commits {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            in_flight: None,
            next: now,
            not_before: now,
            refused_since: None,
            confirmed: BTreeMap::new(),
        }
    }

    /// Returns whether a commit was requested and isn't answered.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Returns the last offset that the broker named or confirmed to this session.
    pub(crate) fn confirmed_offset(&self, key: PartitionKey) -> Option<i64> {
        self.confirmed.get(&key).copied()
    }

    pub(crate) fn set_confirmed(&mut self, key: PartitionKey, offset: Option<i64>) {
        match offset {
            Some(offset) => self.confirmed.insert(key, offset),
            None => self.confirmed.remove(&key),
        };
    }

    /// Removes the commits of a topic that was recreated: the old topic's commits don't apply to
    /// the new one.
    pub(crate) fn forget_topic(&mut self, topic: u16) {
        self.confirmed.retain(|key, _| key.topic != topic);
        if let Some(commits) = &mut self.in_flight {
            commits.retain(|commit| commit.key.topic != topic);
        }
    }

    /// Sets the earliest time of the next commit, replacing that of an earlier refusal.
    pub(crate) fn retry_at(&mut self, at: Instant) {
        self.not_before = at;
    }

    pub(crate) fn may_begin(&self, now: Instant) -> bool {
        !self.is_in_flight() && now >= self.not_before
    }

    pub(crate) fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    pub(crate) fn postpone_check(&mut self, now: Instant) {
        self.next = self.next.max(now + COMMIT_INTERVAL);
    }
}
