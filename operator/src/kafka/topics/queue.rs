//! The queue of callers that wait for topics of one cluster.
//!
//! Reads and changes have a queue each; while one batch runs, the next one accumulates. A waiting
//! reconcile occupies one of the operator's few slots, so none waits long for a cluster that may
//! not answer: most get an error and retry.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_crds::Reason;
use tokio::sync::oneshot;

use super::job::{JobOutcome, TopicJob};
use super::records::HOLDERS_GROUP;
use crate::kafka::sessions::session::KafkaSession;
use crate::kafka::topics;
use crate::kafka::{CONVERSATION_MAX, Deadline, Failure};

/// Maximum number of topics in a batch: a description of one with its settings is some 5 KiB, so a
/// batch is 1 MB.
const BATCH_MAX: usize = 200;

/// Maximum number of waiting jobs; a reconcile has one, so there are far fewer.
const WAITING_MAX: usize = 5_000;

/// While it is unknown whether a cluster answers, this many callers may wait for the result.
const UNKNOWN_WAITING_MAX: usize = 4;

/// The others wait at most this long: half the time in which a dead cluster is detected.
const UNKNOWN_WAIT: Duration = Duration::from_secs(4);

/// A caller this soon after a failed connection gets the same error.
const FAILURE_REUSED: Duration = Duration::from_secs(5);

/// The same during a retry, which takes at most this long.
const FAILURE_REUSED_TRYING: Duration = Duration::from_secs(30);

/// The queues of one session: changing a topic takes longer than reading one.
#[derive(Default)]
pub(in crate::kafka) struct TopicQueues {
    reads: TopicQueue,
    changes: TopicQueue,
}

impl TopicQueues {
    fn queue_for(&self, changes: bool) -> &TopicQueue {
        if changes { &self.changes } else { &self.reads }
    }
}

#[derive(Default)]
struct TopicQueue(Mutex<TopicQueueState>);

#[derive(Default)]
struct TopicQueueState {
    waiting: VecDeque<Waiting>,
    running: bool,
    /// The number of callers that wait without a limit.
    patient: usize,
}

struct Waiting {
    job: TopicJob,
    reply: oneshot::Sender<JobOutcome>,
}

impl TopicQueue {
    fn lock_state(&self) -> MutexGuard<'_, TopicQueueState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next batch; `None` when the queue is empty, and its worker stops. Two changes of
    /// one topic run one after the other.
    fn take_batch(&self) -> Option<Vec<Waiting>> {
        let mut state = self.lock_state();
        let (mut batch, mut left) = (Vec::new(), VecDeque::new());
        let mut changed = HashSet::new();
        for waiting in std::mem::take(&mut state.waiting) {
            if waiting.reply.is_closed() {
                continue;
            }
            let changes = waiting.job.is_change();
            if batch.len() >= BATCH_MAX || (changes && !changed.insert(waiting.job.topic.clone())) {
                left.push_back(waiting);
            } else {
                batch.push(waiting);
            }
        }
        state.waiting = left;
        state.running = !batch.is_empty();
        state.running.then_some(batch)
    }
}

/// Counts a caller that waits without a limit.
struct Patient<'a>(&'a TopicQueue);

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        self.0.lock_state().patient -= 1;
    }
}

impl KafkaSession {
    /// Performs a job on a topic, in the next batch.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub(in crate::kafka) async fn run_job(self: &Arc<Self>, job: TopicJob) -> JobOutcome {
        let (reply, answer) = oneshot::channel();
        let changes = job.is_change();
        let queue = self.topics.queue_for(changes);
        let (start, patient) = {
            let mut state = queue.lock_state();
            let reused_within = if state.running { FAILURE_REUSED_TRYING } else { FAILURE_REUSED };
            if let Some(failure) = self.failed_within(reused_within) {
                return Err(failure);
            }
            if state.waiting.len() >= WAITING_MAX {
                return Err(Failure::queue_full());
            }
            state.waiting.push_back(Waiting { job, reply });
            let patient = self.is_up() || state.patient < UNKNOWN_WAITING_MAX;
            let patient = patient.then(|| {
                state.patient += 1;
                Patient(queue)
            });
            (!std::mem::replace(&mut state.running, true), patient)
        };
        if start {
            drop(tokio::spawn(drain_queue(self.clone(), changes)));
        }
        let answer = async { answer.await.unwrap_or_else(|_| Err(Failure::interrupted())) };
        if patient.is_some() {
            return answer.await;
        }
        tokio::time::timeout(UNKNOWN_WAIT, answer).await.unwrap_or_else(|_| {
            let message = "no Kafka broker has answered yet; the operator retries";
            Err(Failure::new(Reason::KafkaUnreachable, message))
        })
    }

    /// Performs a batch. Blocks.
    fn run_batch(self: &Arc<Self>, jobs: &[TopicJob]) -> Vec<JobOutcome> {
        let deadline = Deadline::from_now(CONVERSATION_MAX);
        let topic = jobs.first().map_or("", |job| &job.topic);
        // Records of holders are a group's commits; other jobs need no group.
        let group = jobs.iter().any(TopicJob::is_about_records).then_some(HOLDERS_GROUP);
        match self.open_link(topic, group, deadline) {
            Ok(link) => {
                let outcomes = topics::run_jobs(&link, self.settings(), jobs, deadline);
                self.check_outcomes(&link, (topic, group), deadline, outcomes)
            }
            Err(failure) => jobs.iter().map(|_| Err(failure.clone())).collect(),
        }
    }
}

/// Performs the jobs of a queue until it is empty.
async fn drain_queue(session: Arc<KafkaSession>, changes: bool) {
    while let Some(batch) = session.topics.queue_for(changes).take_batch() {
        let (jobs, replies): (Vec<TopicJob>, Vec<_>) =
            batch.into_iter().map(|it| (it.job, it.reply)).unzip();
        let working = session.clone();
        let outcomes = tokio::task::spawn_blocking(move || working.run_batch(&jobs)).await;
        let interrupted = |_| replies.iter().map(|_| Err(Failure::interrupted())).collect();
        let outcomes = outcomes.unwrap_or_else(interrupted);
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // A receiver that stopped waiting retries.
            let _ = reply.send(outcome);
        }
    }
}
