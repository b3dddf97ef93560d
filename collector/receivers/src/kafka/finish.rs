//! State of a source's workers at the end of the process: whether all have committed, and what they
//! had to leave.
//!
//! During a rebalance the broker holds a member's commits until every member has answered. So a
//! worker that is done serves the group until all workers of its process are done, because their
//! last commits may wait for it. A worker that left early might even start the rebalance.
//!
//! Nothing here waits: workers check it in their loops. What is left is kept by partition, so the
//! topics' partitions bound it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why something was left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The drain's deadline came.
    Deadline,
    /// The consumer failed for good while the process drained.
    ConsumerFailed,
    /// The group gave the partition to somebody else before all of it was committed.
    TakenAway,
    /// The sink gave up an insert.
    GivenUp,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deadline => "the drain's deadline came",
            Self::ConsumerFailed => "the consumer failed for good",
            Self::TakenAway => "the group gave the partition to another member",
            Self::GivenUp => "an insert was given up",
        })
    }
}

/// What of a partition isn't known to be stored and committed at the end of the process. Its next
/// owner reads it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftBehind {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub partition: i32,
    /// Batches whose inserts weren't all answered; some may not have been sent.
    pub unanswered_batches: u64,
    /// Offsets that were cut into batches and whose commit wasn't confirmed: at most so many
    /// messages, those of unanswered batches among them.
    pub uncommitted_offsets: u64,
    /// The first reason, if there were several.
    pub why: Why,
}

/// The workers of one source.
#[derive(Debug)]
pub(super) struct Finish {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By worker: nothing is left for it to commit, or it can't any more.
    done: Vec<bool>,
    left: BTreeMap<(Arc<str>, i32), LeftBehind>,
}

impl Finish {
    pub(super) fn new(workers: u16) -> Self {
        let done = vec![false; workers.into()];
        Self { state: Mutex::new(State { done, left: BTreeMap::new() }) }
    }

    /// The worker has committed everything, or never will. It takes nothing new.
    pub(super) fn done(&self, worker: u16) {
        if let Some(done) = self.lock().done.get_mut(usize::from(worker)) {
            *done = true;
        }
    }

    /// Whether that is so of all workers: only then may one of them leave.
    pub(super) fn all_done(&self) -> bool {
        self.lock().done.iter().all(|done| *done)
    }

    /// Adds to what is left of a partition.
    pub(super) fn leave(&self, left: LeftBehind) {
        let mut state = self.lock();
        let key = (Arc::clone(&left.topic), left.partition);
        match state.left.get_mut(&key) {
            Some(known) => {
                known.unanswered_batches += left.unanswered_batches;
                known.uncommitted_offsets += left.uncommitted_offsets;
            }
            None => {
                state.left.insert(key, left);
            }
        }
    }

    /// All that was left behind, by topic and partition.
    pub(super) fn left(&self) -> Vec<LeftBehind> {
        self.lock().left.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change leaves whole values behind.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: two workers become done, one of them twice. Guarantee: nobody may leave before
    /// both are.
    #[test]
    fn nobody_leaves_before_all_are_done() {
        let finish = Finish::new(2);
        assert!(!finish.all_done());
        finish.done(1);
        finish.done(1);
        assert!(!finish.all_done());
        finish.done(0);
        assert!(finish.all_done());
    }

    /// Scenario: a partition is left behind twice, another once. Guarantee: the counts add up by
    /// partition, and the first reason stays.
    #[test]
    fn what_is_left_behind_adds_up_by_partition() {
        let finish = Finish::new(1);
        let left = |partition, why| LeftBehind {
            topic: "otlp_logs".into(),
            partition,
            unanswered_batches: 2,
            uncommitted_offsets: 30,
            why,
        };
        finish.leave(left(4, Why::GivenUp));
        finish.leave(left(1, Why::TakenAway));
        finish.leave(left(4, Why::Deadline));
        let both =
            LeftBehind { unanswered_batches: 4, uncommitted_offsets: 60, ..left(4, Why::GivenUp) };
        assert_eq!(finish.left(), [left(1, Why::TakenAway), both]);
    }
}
