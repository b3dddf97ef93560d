//! The queue of callers that wait for topics of one cluster.
//!
//! Reads and changes have a queue each; while one batch runs, the next one gathers. A waiting
//! reconcile takes one of the operator's few slots, so none waits long on a cluster that may not
//! answer: most are told so, and retry.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millrace_crds::Reason;
use tokio::sync::oneshot;

use super::records::HOLDERS_GROUP;
use super::session::Session;
use super::topics::{self, Done, Job};
use super::{CONVERSATION_MAX, Deadline, Failure};

/// Topics of a batch: a description of one with its settings is some 5 KiB, so a batch is 1 MB.
const BATCH_MAX: usize = 200;

/// Jobs waiting at once; a reconcile has one, so there are far fewer.
const WAITING_MAX: usize = 5_000;

/// While it is unknown whether a cluster answers, this many may wait for the result.
const UNKNOWN_WAITING_MAX: usize = 4;

/// The others wait at most this long: half the time in which a dead cluster is found.
const UNKNOWN_WAIT: Duration = Duration::from_secs(4);

/// A caller this soon after a failed connection gets the same error.
const FAILURE_TOLD: Duration = Duration::from_secs(5);

/// The same during a retry, which takes at most this long.
const FAILURE_TOLD_TRYING: Duration = Duration::from_secs(30);

type Outcome = Result<Done, Failure>;

/// The queues of one session: changing a topic takes longer than reading one.
#[derive(Default)]
pub(super) struct TopicQueues {
    looks: TopicQueue,
    changes: TopicQueue,
}

impl TopicQueues {
    fn queue(&self, changes: bool) -> &TopicQueue {
        if changes { &self.changes } else { &self.looks }
    }
}

/// One queue.
#[derive(Default)]
struct TopicQueue(Mutex<State>);

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    running: bool,
    /// How many wait for as long as it takes.
    patient: usize,
}

struct Waiting {
    job: Job,
    reply: oneshot::Sender<Outcome>,
}

impl TopicQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next batch; `None` when the queue is empty, and its worker stops. Two changes of one
    /// topic run one after the other.
    fn take(&self) -> Option<Vec<Waiting>> {
        let mut state = self.state();
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        let mut changed = HashSet::new();
        for waiting in std::mem::take(&mut state.waiting) {
            if waiting.reply.is_closed() {
                continue;
            }
            let changes = waiting.job.is_change();
            if taken.len() >= BATCH_MAX || (changes && !changed.insert(waiting.job.topic.clone())) {
                left.push_back(waiting);
            } else {
                taken.push(waiting);
            }
        }
        state.waiting = left;
        state.running = !taken.is_empty();
        state.running.then_some(taken)
    }
}

/// One who waits for as long as it takes.
struct Patient<'a>(&'a TopicQueue);

impl Drop for Patient<'_> {
    fn drop(&mut self) {
        self.0.state().patient -= 1;
    }
}

impl Session {
    /// Does something with a topic, in the next batch.
    ///
    /// # Errors
    /// When Kafka can't be reached or refuses.
    pub(super) async fn topic(self: &Arc<Self>, job: Job) -> Outcome {
        let (reply, answer) = oneshot::channel();
        let changes = job.is_change();
        let queue = self.topics.queue(changes);
        let (start, patient) = {
            let mut state = queue.state();
            let told = if state.running { FAILURE_TOLD_TRYING } else { FAILURE_TOLD };
            if let Some(failure) = self.failed_within(told) {
                return Err(failure);
            }
            if state.waiting.len() >= WAITING_MAX {
                return Err(Failure::crowded());
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
            drop(tokio::spawn(work_off(self.clone(), changes)));
        }
        let answer = async { answer.await.unwrap_or_else(|_| Err(Failure::interrupted())) };
        if patient.is_some() {
            return answer.await;
        }
        tokio::time::timeout(UNKNOWN_WAIT, answer).await.unwrap_or_else(|_| {
            let message = "no Kafka broker has answered yet; the operator goes on trying";
            Err(Failure::new(Reason::KafkaUnreachable, message))
        })
    }

    /// Does a batch. Blocks.
    fn work(self: &Arc<Self>, jobs: &[Job]) -> Vec<Outcome> {
        let deadline = Deadline::within(CONVERSATION_MAX);
        let topic = jobs.first().map_or("", |job| &job.topic);
        // Records of holders are a group's commits; other jobs need no group.
        let group = jobs.iter().any(Job::is_about_records).then_some(HOLDERS_GROUP);
        match self.link(topic, group, deadline) {
            Ok(link) => {
                let outcomes = topics::work(&link, self.settings(), jobs, deadline);
                self.judged(&link, (topic, group), deadline, outcomes)
            }
            Err(failure) => jobs.iter().map(|_| Err(failure.clone())).collect(),
        }
    }
}

/// Works a queue off, until it is empty.
async fn work_off(session: Arc<Session>, changes: bool) {
    while let Some(taken) = session.topics.queue(changes).take() {
        let (jobs, replies): (Vec<Job>, Vec<_>) =
            taken.into_iter().map(|it| (it.job, it.reply)).unzip();
        let working = session.clone();
        let outcomes = tokio::task::spawn_blocking(move || working.work(&jobs)).await;
        let interrupted = |_| replies.iter().map(|_| Err(Failure::interrupted())).collect();
        let outcomes = outcomes.unwrap_or_else(interrupted);
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            // Who does not wait any more comes again.
            let _ = reply.send(outcome);
        }
    }
}
