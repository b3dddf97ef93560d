//! Sends a plan: a fixed number of calls under way, a rate if asked, retries as OTLP allows, and a
//! record of what became of each request. Memory is bounded by the calls under way.

mod answer;
mod call;
mod pack;
mod target;
mod times;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_ddl::{ClientError, Tls};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub use pack::PackError;
pub(crate) use pack::Packer;
pub use target::{Compression, Protocol, Target, TargetError};
pub use times::AnswerQuantiles;

use crate::acked::Acked;
use crate::mix::mix;
use crate::plan::{Plan, PlanError};
use crate::ranges::RangeSet;
use answer::Answer;
use call::Caller;
use times::AnswerTimes;

/// First wait before sending again; doubled each time up to the cap, then drawn at random between
/// half and whole, so that callers do not come back together.
const BACK_OFF_FIRST: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// The longest wait a server may ask for.
const SERVER_DELAY_MAX: Duration = Duration::from_secs(60);

/// How a plan is sent.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Connections, 1 to 1,024.
    pub connections: u16,
    /// Calls under way on each, 1 to 1,024.
    pub in_flight: u16,
    /// How requests are compressed.
    pub compression: Compression,
    /// Records per second over all connections; `None`: as fast as they are taken.
    pub rate: Option<u64>,
    /// Limit of one attempt.
    pub timeout: Duration,
    /// How long a request is tried again, from its first attempt on, before it is given up.
    pub give_up_after: Duration,
    /// Certificates for https targets.
    pub tls: Tls,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            connections: 2,
            in_flight: 4,
            compression: Compression::None,
            rate: None,
            timeout: Duration::from_secs(30),
            give_up_after: Duration::from_secs(300),
            tls: Tls::default(),
        }
    }
}

/// Sending could not begin, or not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The plan is out of range.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A count of connections, calls or records per second is out of range.
    #[error("{field} is {value}; it must be {range}")]
    Option {
        /// Which one.
        field: &'static str,
        /// What was given.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// The client cannot be made.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A request could not be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A worker ended early.
    #[error("a sending task ended early: {0}")]
    Worker(String),
}

/// Figures of a running send, to be read while it runs; all records are whole requests'.
#[derive(Debug, Default)]
pub struct Progress {
    acked_records: AtomicU64,
    refused_records: AtomicU64,
    given_up_records: AtomicU64,
    retries: AtomicU64,
    sent_bytes: AtomicU64,
    stop: AtomicBool,
    trouble: Mutex<Option<String>>,
    answer_times: Mutex<AnswerTimes>,
}

impl Progress {
    /// Records acknowledged so far.
    pub fn acked_records(&self) -> u64 {
        self.acked_records.load(Ordering::Relaxed)
    }

    /// Records of requests that were refused for good.
    pub fn refused_records(&self) -> u64 {
        self.refused_records.load(Ordering::Relaxed)
    }

    /// Records of requests that were given up after many attempts.
    pub fn given_up_records(&self) -> u64 {
        self.given_up_records.load(Ordering::Relaxed)
    }

    /// Attempts after the first.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Bytes of bodies, compressed, attempts included.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// How long taken requests waited, from when each was due; `None` before the first.
    pub fn answer_quantiles(&self) -> Option<AnswerQuantiles> {
        self.answer_times.lock().unwrap_or_else(PoisonError::into_inner).quantiles()
    }

    fn answered(&self, took: Duration) {
        self.answer_times.lock().unwrap_or_else(PoisonError::into_inner).add(took);
    }

    /// Takes the last thing that went wrong, in words.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Asks to begin no further request; those under way are finished.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn note(&self, words: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
}

/// What the workers share.
struct Shared {
    plan: Plan,
    progress: Arc<Progress>,
    acked: Mutex<Acked>,
    next: AtomicU64,
    began: Instant,
    rate: Option<u64>,
    give_up_after: Duration,
}

impl Shared {
    /// Adds a request to one of the sets.
    fn record(&self, request: u64, set: impl FnOnce(&mut Acked) -> &mut RangeSet) {
        let mut acked = self.acked.lock().unwrap_or_else(PoisonError::into_inner);
        set(&mut acked).insert(request);
    }

    /// When a request may begin, at the rate asked for.
    fn begins(&self, request: u64) -> Option<Instant> {
        let before = request as f64 * self.plan.records_per_request() as f64;
        let seconds = before / self.rate? as f64;
        Some(self.began + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// Sends the whole plan, or until [`Progress::stop`]; says what became of each request.
///
/// # Errors
/// Sending could not begin: figures out of range, certificates. A target that is away is no error:
/// requests are tried until their time is up, and then left unacknowledged.
pub async fn send(
    plan: &Plan,
    target: &Target,
    options: &SendOptions,
    progress: &Arc<Progress>,
) -> Result<Acked, SendError> {
    plan.check()?;
    let SendOptions { connections, in_flight, compression, rate, timeout, give_up_after, tls } =
        options;
    for (field, value) in [("connections", *connections), ("in_flight", *in_flight)] {
        if !(1..=1024).contains(&value) {
            let value = value.into();
            return Err(SendError::Option { field, value, range: "1 to 1,024" });
        }
    }
    if *rate == Some(0) {
        return Err(SendError::Option { field: "rate", value: 0, range: "1 or more" });
    }
    let shared = Arc::new(Shared {
        plan: plan.clone(),
        progress: Arc::clone(progress),
        acked: Mutex::new(Acked::none(plan.clone())),
        next: AtomicU64::new(0),
        began: Instant::now(),
        rate: *rate,
        give_up_after: *give_up_after,
    });
    let mut workers = JoinSet::new();
    for _ in 0..*connections {
        let caller = Caller::new(target, plan.shape.signal(), *compression, tls, *timeout)?;
        for _ in 0..*in_flight {
            let packer = Packer::new(plan, target.protocol(), *compression)?;
            workers.spawn(work(Arc::clone(&shared), caller.clone(), packer));
        }
    }
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|error| SendError::Worker(error.to_string()))??;
    }
    let acked = shared.acked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(acked)
}

async fn work(shared: Arc<Shared>, caller: Caller, mut packer: Packer) -> Result<(), SendError> {
    while !shared.progress.is_stopped() {
        let request = shared.next.fetch_add(1, Ordering::Relaxed);
        if request >= shared.plan.requests() {
            break;
        }
        let due = shared.begins(request);
        if let Some(due) = due {
            sleep_until(due).await;
        }
        if shared.progress.is_stopped() {
            break;
        }
        let body = packer.body(request)?;
        let due = due.unwrap_or_else(Instant::now);
        deliver(&shared, &caller, (request, due), body).await;
    }
    Ok(())
}

/// Sends one request until it is taken, refused for good, or given up.
async fn deliver(
    shared: &Shared,
    caller: &Caller,
    (request, due): (u64, Instant),
    body: bytes::Bytes,
) {
    let progress = &shared.progress;
    let records = shared.plan.records_of(request);
    let records = records.end - records.start;
    let give_up_at = Instant::now() + shared.give_up_after;
    let mut may_be_taken = false;
    for attempt in 0_u32.. {
        if may_be_taken {
            shared.record(request, |acked| &mut acked.resent);
        }
        // Noted before the bytes leave: whatever happens to this process, they may be found.
        shared.record(request, |acked| &mut acked.attempted);
        progress.sent_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        let (after, words) = match caller.call(body.clone()).await {
            Answer::Taken => {
                shared.record(request, |acked| &mut acked.acknowledged);
                progress.acked_records.fetch_add(records, Ordering::Relaxed);
                progress.answered(due.elapsed());
                return;
            }
            Answer::Refused { words } => {
                shared.record(request, |acked| &mut acked.refused);
                progress.refused_records.fetch_add(records, Ordering::Relaxed);
                progress.note(words);
                return;
            }
            Answer::Busy { after, words } => (after, words),
            Answer::Unsent { words } => (None, words),
            Answer::Unclear { after, words } => {
                may_be_taken = true;
                (after, words)
            }
        };
        progress.note(words);
        let wait = back_off(attempt, request, after);
        if Instant::now() + wait >= give_up_at || progress.is_stopped() {
            progress.given_up_records.fetch_add(records, Ordering::Relaxed);
            return;
        }
        progress.retries.fetch_add(1, Ordering::Relaxed);
        sleep(wait).await;
    }
}

/// The wait before the next attempt: what the server asks for, if it asks, and never less than our
/// own jittered one.
fn back_off(attempt: u32, request: u64, asked: Option<Duration>) -> Duration {
    let whole = BACK_OFF_FIRST.saturating_mul(1 << attempt.min(16)).min(BACK_OFF_MAX);
    let draw = mix(request.wrapping_mul(31).wrapping_add(u64::from(attempt)) + 1) >> 40;
    let share = 0.5 + draw as f64 / f64::from(1_u32 << 25);
    let own = whole.mul_f64(share);
    asked.map_or(own, |asked| asked.min(SERVER_DELAY_MAX) + own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Guarantee: the wait is at least half its step, at most the cap, and never shorter than
        /// what the server asked for.
        #[test]
        fn waits_are_bounded_and_honour_the_server(
            attempt in 0_u32..1000, request: u64, asked in proptest::option::of(0_u64..10_000),
        ) {
            let own = back_off(attempt, request, None);
            prop_assert!(own >= BACK_OFF_FIRST / 2 && own <= BACK_OFF_MAX);
            let asked = asked.map(Duration::from_millis);
            let wait = back_off(attempt, request, asked);
            prop_assert!(wait >= asked.unwrap_or_default());
            prop_assert!(wait <= SERVER_DELAY_MAX + BACK_OFF_MAX);
        }
    }
}
