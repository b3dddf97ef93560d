//! The state of a source's workers at the end of the process: whether all have committed, and what
//! they had to leave behind.
//!
//! During a rebalance the broker holds a member's commits until every member has answered. So a
//! worker that is done serves the group until all workers of its process are done, because their
//! last commits may wait for it. A worker that left early might even start the rebalance.
//!
//! Nothing here waits: workers check it in their loops. Their remains are stored by
//! partition, so the topics' partitions bound it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use millrace_pipeline::mutex::lock;

/// Why a worker left work behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UncommittedReason {
    /// The drain's deadline passed.
    Deadline,
    /// The consumer failed permanently while the process drained.
    ConsumerFailed,
    /// The group assigned the partition to another member before all of it was committed.
    PartitionLost,
    /// The sink abandoned an insert.
    InsertAbandoned,
}

impl fmt::Display for UncommittedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the drain's deadline came",
            Self::ConsumerFailed => "the consumer failed for good",
            Self::PartitionLost => "the group gave the partition to another member",
            Self::InsertAbandoned => "an insert was abandoned",
        })
    }
}

/// The part of a partition that isn't known to be stored and committed at the end of the process.
/// Its next owner reads it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UncommittedPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// The batches whose inserts weren't all answered; some may not have been sent.
    pub unanswered_batches: u64,
    /// The offsets that were cut into batches and whose commit wasn't confirmed: at most this many
    /// messages, including those of unanswered batches.
    pub uncommitted_offsets: u64,
    /// The first reason, if there were several.
    pub why: UncommittedReason,
}

/// The end states of one source's workers.
#[derive(Debug)]
pub(crate) struct WorkerDrain {
    state: Mutex<FinishState>,
}

#[derive(Debug)]
struct FinishState {
    /// By worker: whether it has nothing left to commit, or can't commit any more.
    done: Vec<bool>,
    uncommitted: BTreeMap<(Arc<str>, i32), UncommittedPartition>,
}

impl WorkerDrain {
    pub(crate) fn new(workers: u16) -> Self {
        let done = vec![false; workers.into()];
        Self { state: Mutex::new(FinishState { done, uncommitted: BTreeMap::new() }) }
    }

    /// Records that the worker has committed everything, or never will. It accepts nothing new.
    pub(crate) fn mark_done(&self, worker: u16) {
        if let Some(done) = lock(&self.state).done.get_mut(usize::from(worker)) {
            *done = true;
        }
    }

    /// Returns whether all workers are done: only then may one of them leave.
    pub(crate) fn all_done(&self) -> bool {
        lock(&self.state).done.iter().all(|done| *done)
    }

    /// Adds to what is left behind of a partition.
    pub(crate) fn record_uncommitted(&self, left: UncommittedPartition) {
        let mut state = lock(&self.state);
        let key = (Arc::clone(&left.topic), left.partition);
        match state.uncommitted.get_mut(&key) {
            Some(known) => {
                known.unanswered_batches += left.unanswered_batches;
                known.uncommitted_offsets += left.uncommitted_offsets;
            }
            None => {
                state.uncommitted.insert(key, left);
            }
        }
    }

    /// Returns everything that was left behind, by topic and partition.
    pub(crate) fn list_uncommitted(&self) -> Vec<UncommittedPartition> {
        lock(&self.state).uncommitted.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two workers become done, one of them reported twice. Guarantee: none may leave
    /// before both are.
    #[test]
    fn nobody_leaves_before_all_are_done() {
        let finish = WorkerDrain::new(2);
        assert!(!finish.all_done());
        finish.mark_done(1);
        finish.mark_done(1);
        assert!(!finish.all_done());
        finish.mark_done(0);
        assert!(finish.all_done());
    }

    /// Scenario: a partition is left behind twice, another once. Guarantee: the counts add up by
    /// partition, and the first reason stays.
    #[test]
    fn what_is_left_behind_adds_up_by_partition() {
        let finish = WorkerDrain::new(1);
        let left = |partition, why| UncommittedPartition {
            topic: "otlp_logs".into(),
            partition,
            unanswered_batches: 2,
            uncommitted_offsets: 30,
            why,
        };
        finish.record_uncommitted(left(4, UncommittedReason::InsertAbandoned));
        finish.record_uncommitted(left(1, UncommittedReason::PartitionLost));
        finish.record_uncommitted(left(4, UncommittedReason::Deadline));
        let both = UncommittedPartition {
            unanswered_batches: 4,
            uncommitted_offsets: 60,
            ..left(4, UncommittedReason::InsertAbandoned)
        };
        assert_eq!(finish.list_uncommitted(), [left(1, UncommittedReason::PartitionLost), both]);
    }
}
