//! Sends a plan: a fixed number of calls in flight, optionally at a rate, with the retries that
//! OTLP allows, and a record of each request's outcome. The calls in flight bound the memory.

mod call;
mod outcome;
mod pack;
mod target;
mod times;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_ddl::{ClientError, TlsCertificates};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

pub use pack::PackError;
pub(crate) use pack::Packer;
pub use target::{LoadTarget, OtlpProtocol, RequestCompression, TargetError};
pub use times::LatencyQuantiles;

use crate::acked::SendState;
use crate::mix::mix_bits;
use crate::plan::{LoadPlan, PlanError};
use crate::ranges::RangeSet;
use call::Caller;
use outcome::AttemptOutcome;
use times::LatencyHistogram;

/// First wait before sending again; doubled each time up to the cap, then drawn at random between
/// half and all of it, so that callers do not retry together.
const BACK_OFF_FIRST: Duration = Duration::from_millis(50);
const BACK_OFF_MAX: Duration = Duration::from_secs(5);

/// Maximum wait that a server may request.
const SERVER_DELAY_MAX: Duration = Duration::from_secs(60);

/// Options of a send.
#[derive(Clone, Debug)]
pub struct SendOptions {
    /// Connections, 1 to 1,024.
    pub connections: u16,
    /// Calls in flight on each, 1 to 1,024.
    pub in_flight: u16,
    /// The compression of requests.
    pub compression: RequestCompression,
    /// Records per second over all connections; `None`: as fast as the server accepts them.
    pub rate: Option<u64>,
    /// Time limit of one attempt.
    pub timeout: Duration,
    /// How long a request is retried, from its first attempt on, before it is given up.
    pub give_up_after: Duration,
    /// Certificates for https targets.
    pub tls: TlsCertificates,
}

impl Default for SendOptions {
    fn default() -> Self {
        Self {
            connections: 2,
            in_flight: 4,
            compression: RequestCompression::None,
            rate: None,
            timeout: Duration::from_secs(30),
            give_up_after: Duration::from_secs(300),
            tls: TlsCertificates::default(),
        }
    }
}

/// Sending could not begin or continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The plan is out of range.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A count of connections, calls or records per second is out of range.
    #[error("{field} is {value}; it must be {range}")]
    Option {
        /// The option.
        field: &'static str,
        /// Its value.
        value: u64,
        /// Its valid range.
        range: &'static str,
    },
    /// The client cannot be created.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A request could not be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A worker ended early.
    #[error("a sending task ended early: {0}")]
    Worker(String),
}

/// Figures of a running send, readable while it runs; record counts are sums over complete
/// requests.
#[derive(Debug, Default)]
pub struct SendProgress {
    acked_records: AtomicU64,
    refused_records: AtomicU64,
    abandoned_records: AtomicU64,
    retries: AtomicU64,
    sent_bytes: AtomicU64,
    stop: AtomicBool,
    trouble: Mutex<Option<String>>,
    latencies: Mutex<LatencyHistogram>,
}

impl SendProgress {
    /// Returns the records acknowledged so far.
    pub fn acked_records(&self) -> u64 {
        self.acked_records.load(Ordering::Relaxed)
    }

    /// Returns the records of requests that were refused permanently.
    pub fn refused_records(&self) -> u64 {
        self.refused_records.load(Ordering::Relaxed)
    }

    /// Returns the records of requests that were given up after retries.
    pub fn abandoned_records(&self) -> u64 {
        self.abandoned_records.load(Ordering::Relaxed)
    }

    /// Returns the attempts after the first.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Returns the bytes of bodies, compressed, retries included.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    /// Returns the latencies of accepted requests, from when each was due; `None` before the first.
    pub fn latency_quantiles(&self) -> Option<LatencyQuantiles> {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).quantiles()
    }

    fn record_latency(&self, took: Duration) {
        self.latencies.lock().unwrap_or_else(PoisonError::into_inner).record(took);
    }

    /// Returns and clears the description of the last failure.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stops the send: no further request begins, and those in flight finish.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn record_trouble(&self, words: String) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(words);
    }
}

/// The state that the workers share.
struct SendContext {
    plan: LoadPlan,
    progress: Arc<SendProgress>,
    acked: Mutex<SendState>,
    next: AtomicU64,
    began: Instant,
    rate: Option<u64>,
    give_up_after: Duration,
}

impl SendContext {
    /// Adds a request to one of the sets.
    fn record_request(&self, request: u64, set: impl FnOnce(&mut SendState) -> &mut RangeSet) {
        let mut acked = self.acked.lock().unwrap_or_else(PoisonError::into_inner);
        set(&mut acked).insert(request);
    }

    /// Returns when a request may begin, at the configured rate.
    fn due_at(&self, request: u64) -> Option<Instant> {
        let before = request as f64 * self.plan.records_per_request() as f64;
        let seconds = before / self.rate? as f64;
        Some(self.began + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// Sends the complete plan, or until [`SendProgress::stop`]; returns the outcome of each request.
///
/// # Errors
/// Sending could not begin: figures out of range, certificates. A target that is away is no error:
/// requests are retried until their time is up, and then left unacknowledged.
pub async fn send_load(
    plan: &LoadPlan,
    target: &LoadTarget,
    options: &SendOptions,
    progress: &Arc<SendProgress>,
) -> Result<SendState, SendError> {
    plan.validate()?;
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
    let shared = Arc::new(SendContext {
        plan: plan.clone(),
        progress: Arc::clone(progress),
        acked: Mutex::new(SendState::new(plan.clone())),
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
            workers.spawn(run_worker(Arc::clone(&shared), caller.clone(), packer));
        }
    }
    while let Some(ended) = workers.join_next().await {
        ended.map_err(|error| SendError::Worker(error.to_string()))??;
    }
    let acked = shared.acked.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(acked)
}

async fn run_worker(
    shared: Arc<SendContext>,
    caller: Caller,
    mut packer: Packer,
) -> Result<(), SendError> {
    while !shared.progress.is_stopped() {
        let request = shared.next.fetch_add(1, Ordering::Relaxed);
        if request >= shared.plan.request_count() {
            break;
        }
        let due = shared.due_at(request);
        if let Some(due) = due {
            sleep_until(due).await;
        }
        if shared.progress.is_stopped() {
            break;
        }
        let body = packer.pack_request(request)?;
        let due = due.unwrap_or_else(Instant::now);
        deliver_request(&shared, &caller, (request, due), body).await;
    }
    Ok(())
}

/// Sends one request until it is accepted, refused permanently, or given up.
async fn deliver_request(
    shared: &SendContext,
    caller: &Caller,
    (request, due): (u64, Instant),
    body: bytes::Bytes,
) {
    let progress = &shared.progress;
    let records = shared.plan.records_of(request);
    let records = records.end - records.start;
    let give_up_at = Instant::now() + shared.give_up_after;
    let mut may_be_accepted = false;
    for attempt in 0_u32.. {
        if may_be_accepted {
            shared.record_request(request, |acked| &mut acked.resent);
        }
        // Recorded before the bytes leave: even if this process dies, the check may find them.
        shared.record_request(request, |acked| &mut acked.attempted);
        progress.sent_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        let (after, words) = match caller.call(body.clone()).await {
            AttemptOutcome::Accepted => {
                shared.record_request(request, |acked| &mut acked.acknowledged);
                progress.acked_records.fetch_add(records, Ordering::Relaxed);
                progress.record_latency(due.elapsed());
                return;
            }
            AttemptOutcome::Refused { words } => {
                shared.record_request(request, |acked| &mut acked.refused);
                progress.refused_records.fetch_add(records, Ordering::Relaxed);
                progress.record_trouble(words);
                return;
            }
            AttemptOutcome::Busy { after, words } => (after, words),
            AttemptOutcome::Unsent { words } => (None, words),
            AttemptOutcome::Unclear { after, words } => {
                may_be_accepted = true;
                (after, words)
            }
        };
        progress.record_trouble(words);
        let wait = back_off(attempt, request, after);
        if Instant::now() + wait >= give_up_at || progress.is_stopped() {
            progress.abandoned_records.fetch_add(records, Ordering::Relaxed);
            return;
        }
        progress.retries.fetch_add(1, Ordering::Relaxed);
        sleep(wait).await;
    }
}

/// Returns the wait before the next attempt: the server's requested delay, if any, and at least our
/// own jittered one.
fn back_off(attempt: u32, request: u64, requested: Option<Duration>) -> Duration {
    let longest = BACK_OFF_FIRST.saturating_mul(1 << attempt.min(16)).min(BACK_OFF_MAX);
    let draw = mix_bits(request.wrapping_mul(31).wrapping_add(u64::from(attempt)) + 1) >> 40;
    let share = 0.5 + draw as f64 / f64::from(1_u32 << 25);
    let own = longest.mul_f64(share);
    requested.map_or(own, |requested| requested.min(SERVER_DELAY_MAX) + own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Guarantee: the wait is at least half its step, at most the cap, and never shorter than
        /// the server's requested delay.
        #[test]
        fn waits_are_bounded_and_honour_the_server(
            attempt in 0_u32..1000, request: u64, requested in proptest::option::of(0_u64..10_000),
        ) {
            let own = back_off(attempt, request, None);
            prop_assert!(own >= BACK_OFF_FIRST / 2 && own <= BACK_OFF_MAX);
            let requested = requested.map(Duration::from_millis);
            let wait = back_off(attempt, request, requested);
            prop_assert!(wait >= requested.unwrap_or_default());
            prop_assert!(wait <= SERVER_DELAY_MAX + BACK_OFF_MAX);
        }
    }
}
