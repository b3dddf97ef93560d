//! The queue of groups of one cluster that wait for their lag, and its schedule.
//!
//! Pools query at any time and are answered together, one observation per tick. A group that was
//! never answered does not wait for the tick. A group whose coordinator is not ready is queried
//! again until its deadline, while the others already have their results.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::LagRequest;
use super::time_marks::Marks;
use crate::kafka::lag;
use crate::kafka::lag::lag_cache::LagObservation;
use crate::kafka::sessions::session::KafkaSession;
use crate::kafka::{CONVERSATION_MAX, Deadline, Failure};

/// The intervals between observations of lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// The interval between full observations. A pool's result is as old as its interval less its
    /// wait here, so this must be shorter.
    pub tick: Duration,
    /// The interval between observations for groups never answered.
    pub strangers: Duration,
}

impl Pace {
    /// Answers callers at once.
    pub const AT_ONCE: Self = Self { tick: Duration::ZERO, strangers: Duration::ZERO };
}

impl Default for Pace {
    /// Just under the pools' interval of ten seconds.
    fn default() -> Self {
        Self { tick: Duration::from_secs(8), strangers: Duration::from_millis(500) }
    }
}

/// Maximum waiting groups: at some 200 bytes each, all are under 4 MB.
const WAITING_MAX: usize = 20_000;

/// Maximum groups per observation: 2,000 groups with twelve partitions each take about 20 MB.
const TOGETHER_MAX: usize = 2_000;

/// A group unused for this long counts as new again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// After this many observations with a coordinator not ready, the client's cached coordinator
/// counts as stale: the library caches it as long as it is used.
const COORDINATOR_DOUBTED: u32 = 3;

/// The interval between queries to a coordinator that isn't ready: it takes about a second to load.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);

type LagResult = Result<LagObservation, Failure>;

/// The queue of one session.
#[derive(Default)]
pub(in crate::kafka) struct LagQueue {
    state: Mutex<LagQueueState>,
    came: Notify,
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct LagQueueState {
    waiting: Vec<Waiting>,
    /// Whether a worker serves the queue.
    running: bool,
    /// When the last full observation began.
    ticked: Option<Instant>,
    /// When the last observation ended.
    observed_at: Option<Instant>,
    /// Groups that were answered, and when last.
    answered: HashMap<String, Instant>,
}

struct Waiting {
    request: LagRequest,
    reply: oneshot::Sender<LagResult>,
    since: Instant,
    tries: u32,
}

impl LagQueueState {
    fn is_known(&self, group: &str) -> bool {
        self.answered.contains_key(group)
    }

    /// Returns when the next observation is due, and whether it is a full one.
    fn next_due(&self, pace: Pace) -> (Instant, bool) {
        let now = Instant::now();
        let tick = self.ticked.map_or(now, |at| at + pace.tick);
        let strangers = self.waiting.iter().any(|it| !self.is_known(&it.request.group));
        let soon = self.observed_at.map_or(now, |at| at + pace.strangers);
        if strangers && soon < tick { (soon, false) } else { (tick, true) }
    }
}

impl LagQueue {
    fn lock_state(&self) -> MutexGuard<'_, LagQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next observation is due; `None` when the queue is empty, and its worker stops.
    fn next_due(&self, pace: Pace) -> Option<Instant> {
        let mut state = self.lock_state();
        state.waiting.retain(|it| !it.reply.is_closed());
        if state.waiting.is_empty() {
            state.running = false;
            return None;
        }
        Some(state.next_due(pace).0)
    }

    /// Takes the groups that are due: all at a tick, or only new ones.
    fn take_due(&self, pace: Pace) -> Vec<Waiting> {
        let mut state = self.lock_state();
        let (_, everybody) = state.next_due(pace);
        let now = Instant::now();
        state.answered.retain(|_, at| now.duration_since(*at) < FORGOTTEN_AFTER);
        let waiting = std::mem::take(&mut state.waiting);
        let is_due = |it: &Waiting| everybody || !state.is_known(&it.request.group);
        let (mut due, mut left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(is_due);
        left.extend(due.drain(TOGETHER_MAX.min(due.len())..));
        // Groups that did not fit get the next observation, at once.
        if everybody && left.is_empty() {
            state.ticked = Some(now);
        }
        state.waiting = left;
        due
    }

    /// Answers the waiting groups; those with a temporary failure continue to wait.
    fn send_replies(&self, due: Vec<Waiting>, results: Vec<LagResult>) {
        let mut state = self.lock_state();
        let now = Instant::now();
        state.observed_at = Some(now);
        for (mut waiting, result) in due.into_iter().zip(results) {
            let passes = result.as_ref().err().is_some_and(|failure| failure.passes);
            if passes && waiting.since.elapsed() + RETRY_INTERVAL < CONVERSATION_MAX {
                waiting.tries += 1;
                state.answered.remove(&waiting.request.group);
                state.waiting.push(waiting);
                continue;
            }
            state.answered.insert(waiting.request.group, now);
            // A receiver that stopped waiting queries again.
            let _ = waiting.reply.send(result);
        }
    }
}

impl KafkaSession {
    /// Returns the lag of a group, from the next observation.
    ///
    /// # Errors
    /// When a topic does not exist, or Kafka can't be reached or refuses.
    pub(in crate::kafka) async fn query_lag(
        self: &Arc<Self>,
        request: LagRequest,
        pace: Pace,
    ) -> LagResult {
        let (reply, answer) = oneshot::channel();
        let start = {
            let mut state = self.lags.lock_state();
            if state.waiting.len() >= WAITING_MAX {
                return Err(Failure::queue_full());
            }
            state.waiting.push(Waiting { request, reply, since: Instant::now(), tries: 0 });
            !std::mem::replace(&mut state.running, true)
        };
        match start {
            true => drop(tokio::spawn(serve_queue(self.clone(), pace))),
            false => self.lags.came.notify_one(),
        }
        answer.await.unwrap_or_else(|_| Err(Failure::interrupted()))
    }

    /// Observes once. Blocks.
    fn observe_once(self: &Arc<Self>, all: &[LagRequest], doubted: bool) -> Vec<LagResult> {
        let deadline = Deadline::from_now(CONVERSATION_MAX);
        let topic = all.iter().find_map(|request| request.topics.first());
        let topic = topic.map_or("", |topic| topic);
        let group = all.first().map(|request| request.group.as_str());
        let link = match self.open_link(topic, group, deadline) {
            Ok(link) => link,
            Err(failure) => return all.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut marks = self.lags.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let results = lag::observe_groups(&link, all, &mut marks, deadline);
        drop(marks);
        if doubted {
            self.close_link(&link);
        }
        self.check_outcomes(&link, (topic, group), deadline, results)
    }
}

/// Serves the queue until it is empty.
async fn serve_queue(session: Arc<KafkaSession>, pace: Pace) {
    while let Some(due) = session.lags.next_due(pace) {
        if due > Instant::now() {
            // A new group may arrive in the meantime, which does not wait for the tick.
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = session.lags.came.notified() => continue,
            }
        }
        let batch = session.lags.take_due(pace);
        let again = batch.iter().map(|it| it.tries).max().unwrap_or(0);
        if again > 0 {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        let doubted = again > 0 && again.is_multiple_of(COORDINATOR_DOUBTED);
        let all: Vec<LagRequest> = batch.iter().map(|it| it.request.clone()).collect();
        let talking = session.clone();
        let results =
            tokio::task::spawn_blocking(move || talking.observe_once(&all, doubted)).await;
        let interrupted = |_| batch.iter().map(|_| Err(Failure::interrupted())).collect();
        let results = results.unwrap_or_else(interrupted);
        session.lags.send_replies(batch, results);
    }
}
