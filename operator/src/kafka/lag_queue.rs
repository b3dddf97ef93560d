//! The queue of groups of one cluster that wait for their lag, and its schedule.
//!
//! Pools ask at any time and are answered together, one observation per tick. A group that was
//! never answered does not wait for the tick. A group whose coordinator is not ready is asked about
//! again until its conversation times out, while the others already have their answers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use super::lag::{self, Asked};
use super::session::Session;
use super::sessions::Pace;
use super::time_marks::Marks;
use super::{CONVERSATION_MAX, Deadline, Failure};
use crate::kafka::lag_board::LagObservation;

/// Groups that wait at once. A waiting one takes some 200 bytes, so all are under 4 MB.
const WAITING_MAX: usize = 20_000;

/// Groups per observation: 2,000 groups with twelve partitions each take about 20 MB.
const TOGETHER_MAX: usize = 2_000;

/// A group unused for this long counts as new again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);

/// After this many observations with a coordinator not ready, the client's idea of the coordinator
/// counts as stale: the library keeps it as long as it is used.
const COORDINATOR_DOUBTED: u32 = 3;

/// Interval between questions to a coordinator that isn't ready: it takes about a second to load.
const ASK_AGAIN: Duration = Duration::from_millis(200);

type Seen = Result<LagObservation, Failure>;

/// The queue of one session.
#[derive(Default)]
pub(super) struct LagQueue {
    state: Mutex<State>,
    came: Notify,
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct State {
    waiting: Vec<Waiting>,
    /// A worker serves the queue.
    running: bool,
    /// When the last full observation began.
    ticked: Option<Instant>,
    /// When the last observation ended.
    looked: Option<Instant>,
    /// Groups that were answered, and when last.
    answered: HashMap<String, Instant>,
}

struct Waiting {
    asked: Asked,
    reply: oneshot::Sender<Seen>,
    since: Instant,
    tries: u32,
}

impl State {
    fn is_known(&self, group: &str) -> bool {
        self.answered.contains_key(group)
    }

    /// When the next observation is due, and whether it is a full one.
    fn due(&self, pace: Pace) -> (Instant, bool) {
        let now = Instant::now();
        let tick = self.ticked.map_or(now, |at| at + pace.tick);
        let strangers = self.waiting.iter().any(|it| !self.is_known(&it.asked.group));
        let soon = self.looked.map_or(now, |at| at + pace.strangers);
        if strangers && soon < tick { (soon, false) } else { (tick, true) }
    }
}

impl LagQueue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next observation is due; `None` when the queue is empty, and its worker stops.
    fn due(&self, pace: Pace) -> Option<Instant> {
        let mut state = self.state();
        state.waiting.retain(|it| !it.reply.is_closed());
        if state.waiting.is_empty() {
            state.running = false;
            return None;
        }
        Some(state.due(pace).0)
    }

    /// Those whose turn it is.
    fn take(&self, pace: Pace) -> Vec<Waiting> {
        let mut state = self.state();
        let (_, everybody) = state.due(pace);
        let now = Instant::now();
        state.answered.retain(|_, at| now.duration_since(*at) < FORGOTTEN_AFTER);
        let waiting = std::mem::take(&mut state.waiting);
        let turn = |it: &Waiting| everybody || !state.is_known(&it.asked.group);
        let (mut taken, mut left): (Vec<_>, Vec<_>) = waiting.into_iter().partition(turn);
        left.extend(taken.drain(TOGETHER_MAX.min(taken.len())..));
        // Groups that did not fit get the next observation, at once.
        if everybody && left.is_empty() {
            state.ticked = Some(now);
        }
        state.waiting = left;
        taken
    }

    /// Answers the waiting, or keeps them waiting.
    fn tell(&self, taken: Vec<Waiting>, seen: Vec<Seen>) {
        let mut state = self.state();
        let now = Instant::now();
        state.looked = Some(now);
        for (mut waiting, seen) in taken.into_iter().zip(seen) {
            let passes = seen.as_ref().err().is_some_and(|failure| failure.passes);
            if passes && waiting.since.elapsed() + ASK_AGAIN < CONVERSATION_MAX {
                waiting.tries += 1;
                state.answered.remove(&waiting.asked.group);
                state.waiting.push(waiting);
                continue;
            }
            state.answered.insert(waiting.asked.group, now);
            // Who does not wait any more asks again.
            let _ = waiting.reply.send(seen);
        }
    }
}

impl Session {
    /// The lag of a group, at the next observation.
    ///
    /// # Errors
    /// When a topic does not exist, or Kafka can't be reached or refuses.
    pub(super) async fn lag(self: &Arc<Self>, asked: Asked, pace: Pace) -> Seen {
        let (reply, answer) = oneshot::channel();
        let start = {
            let mut state = self.lags.state();
            if state.waiting.len() >= WAITING_MAX {
                return Err(Failure::crowded());
            }
            state.waiting.push(Waiting { asked, reply, since: Instant::now(), tries: 0 });
            !std::mem::replace(&mut state.running, true)
        };
        match start {
            true => drop(tokio::spawn(look_after(self.clone(), pace))),
            false => self.lags.came.notify_one(),
        }
        answer.await.unwrap_or_else(|_| Err(Failure::interrupted()))
    }

    /// Observes once. Blocks.
    fn look(self: &Arc<Self>, all: &[Asked], doubted: bool) -> Vec<Seen> {
        let deadline = Deadline::within(CONVERSATION_MAX);
        let topic = all.iter().find_map(|asked| asked.topics.first());
        let topic = topic.map_or("", |topic| topic);
        let group = all.first().map(|asked| asked.group.as_str());
        let link = match self.link(topic, group, deadline) {
            Ok(link) => link,
            Err(failure) => return all.iter().map(|_| Err(failure.clone())).collect(),
        };
        let mut marks = self.lags.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = lag::look(&link, all, &mut marks, deadline);
        drop(marks);
        if doubted {
            self.lose(&link);
        }
        self.judged(&link, (topic, group), deadline, seen)
    }
}

/// Serves the queue until it is empty.
async fn look_after(session: Arc<Session>, pace: Pace) {
    while let Some(due) = session.lags.due(pace) {
        if due > Instant::now() {
            // A new group may arrive meanwhile, which does not wait for the tick.
            tokio::select! {
                () = tokio::time::sleep_until(due.into()) => {}
                () = session.lags.came.notified() => continue,
            }
        }
        let taken = session.lags.take(pace);
        let again = taken.iter().map(|it| it.tries).max().unwrap_or(0);
        if again > 0 {
            tokio::time::sleep(ASK_AGAIN).await;
        }
        let doubted = again > 0 && again.is_multiple_of(COORDINATOR_DOUBTED);
        let all: Vec<Asked> = taken.iter().map(|it| it.asked.clone()).collect();
        let talking = session.clone();
        let seen = tokio::task::spawn_blocking(move || talking.look(&all, doubted)).await;
        let interrupted = |_| taken.iter().map(|_| Err(Failure::interrupted())).collect();
        let seen = seen.unwrap_or_else(interrupted);
        session.lags.tell(taken, seen);
    }
}
