//! One insert's way to its end: sent, sent again, moved to another endpoint, given back.
//!
//! The same bytes go with the same token every time, so that an insert whose answer was lost is
//! stored once. It ends when a server has it, when its rows are at fault, or at the process's
//! deadline; anything else is tried again, however long it takes, with the data still in Kafka.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{Completion, Insert, Origin, Outcome, Rejection};
use millrace_pipeline::telemetry::Telemetry;

use super::answer::{Class, Verdict, is_authentication, topic_of_code};
use super::client::HttpClient;
use super::state::{Blocked, State};
use super::tables::{TableEntry, Tables};
use super::window::{Place, Window};

/// Waits for passing trouble.
const RETRY: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(30) };
/// Waits for an overloaded server: merging a table's parts takes seconds.
const SLOW: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(2), longest: Duration::from_secs(60) };
/// Waits for a person or the operator.
const STOPPED: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(2), longest: Duration::from_secs(30) };
/// Tries after which bytes that the server can't read are taken for bad rows: a body cut on its way
/// looks the same once, a table with other columns says so by another code.
const UNREADABLE_TRIES: u32 = 3;
/// An insert that takes longer than this part of its time-out shows that the server is overloaded.
const SLOW_SHARE: u32 = 2;
/// Tries at one endpoint that answers before another one is asked.
const TRIES_PER_ENDPOINT: u32 = 2;

/// What all deliveries share.
pub(super) struct Delivery {
    pub(super) client: HttpClient,
    pub(super) tables: Arc<Tables>,
    pub(super) state: State,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) drain: Drain,
    /// Requests at once.
    pub(super) window: Arc<Window>,
}

/// What to do after a verdict that isn't the end.
enum Next {
    End(Outcome),
    Wait(Duration),
}

impl Delivery {
    /// Sends an insert until it has ended. `place` is for the first try; an insert that waits for
    /// its table gives it back, so that other tables' inserts go on.
    pub(super) async fn run(&self, insert: Insert, completion: Completion, place: Place) {
        let Some(table) = self.tables.of_index(insert.block.table) else {
            let detail = "a block for a table that this sink doesn't have".to_owned();
            completion.finish(Outcome::Rejected(Rejection { reason: "unknown_table", detail }));
            return;
        };
        let outcome = tokio::select! {
            outcome = self.until_ended(&insert, table, place) => outcome,
            () = self.drain.expired() => Outcome::Abandoned,
        };
        completion.finish(outcome);
    }

    async fn until_ended(&self, insert: &Insert, table: &TableEntry, place: Place) -> Outcome {
        let token = insert.token();
        let mut tries = Tries::new(&insert.origin, self.client.endpoints(), &token);
        let mut place = Some(place);
        let mut hold: Option<Blocked<'_>> = None;
        loop {
            if place.is_none() {
                place = self.window.enter().await;
            }
            let started = Instant::now();
            let endpoint = tries.endpoint();
            let first = tries.count == 0;
            let verdict = self.client.insert(endpoint, table, insert, &token, first).await;
            self.telemetry.insert_took(started.elapsed());
            self.note_reached(&verdict, endpoint);
            self.adapt(&verdict, started);
            let wait = match self.next(&verdict, &mut tries) {
                Next::End(outcome) => return outcome,
                Next::Wait(wait) => wait,
            };
            tracing::warn!(
                endpoint = self.client.endpoint_name(endpoint), table = %table.name, token,
                class = verdict.class.as_str(), code = verdict.code, message = verdict.message,
                tries = tries.count, ?wait, "insert not stored yet"
            );
            self.telemetry.insert_retried(verdict.class.as_str());
            if !matches!(verdict.class, Class::Stop | Class::RefreshSchema) {
                drop(hold.take());
                tokio::time::sleep(wait).await;
                continue;
            }
            let hold = hold.get_or_insert_with(|| Blocked::new(&self.state, &table.name));
            hold.because(blocking_reason(&verdict));
            self.refresh_login_after(&verdict);
            drop(place.take());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Another insert got through: no need to sleep it out. A pause all the same, lest
                // two that fail wake each other without end.
                () = self.state.unblocked() => tokio::time::sleep(RETRY.first).await,
            }
        }
    }

    fn next(&self, verdict: &Verdict, tries: &mut Tries) -> Next {
        let rejected = || {
            let code = verdict.code.map_or_else(String::new, |code| format!("code {code}: "));
            let detail = format!("{code}{}", verdict.message);
            Next::End(Outcome::Rejected(Rejection { reason: verdict.reason(), detail }))
        };
        tries.count += 1;
        match verdict.class {
            Class::Done => Next::End(Outcome::Stored),
            Class::BadRows => rejected(),
            Class::RefreshSchema
                if matches!(verdict.code, Some(33 | 131)) && tries.count >= UNREADABLE_TRIES =>
            {
                rejected()
            }
            Class::RetrySame => Next::Wait(tries.after_trouble(verdict.code.is_none())),
            Class::SlowDown => Next::Wait(tries.slow.next_wait()),
            Class::RefreshSchema | Class::Stop => Next::Wait(tries.stopped.next_wait()),
        }
    }

    /// Fewer inserts at once for a server that can't keep up, more again once it can.
    fn adapt(&self, verdict: &Verdict, started: Instant) {
        let now = Instant::now();
        let slow = now - started > self.client.insert_timeout() / SLOW_SHARE;
        match verdict.class {
            Class::SlowDown => self.window.too_much(started, now),
            _ if slow => self.window.too_much(started, now),
            Class::Done => self.window.went_well(),
            _ => return,
        }
        self.telemetry.inserts_allowed(self.window.allowed());
    }

    /// Any answer with a code came from a server.
    fn note_reached(&self, verdict: &Verdict, endpoint: usize) {
        if verdict.code.is_some() || verdict.class == Class::Done {
            self.state.reached();
        } else if verdict.class == Class::RetrySame && self.client.endpoints() == 1 {
            let name = self.client.endpoint_name(endpoint);
            self.state.unreachable(format!("{name}: {}", verdict.message));
        }
    }

    /// A refused log-in may be an old password: the file may hold the new one.
    fn refresh_login_after(&self, verdict: &Verdict) {
        if verdict.code.is_some_and(is_authentication)
            && let Err(error) = self.client.refresh_login()
        {
            tracing::warn!(%error, "cannot read the log-in again");
        }
    }

    /// Keeps the state of the servers known while no insert tells it.
    pub(super) async fn watch(&self, interval: Duration) {
        loop {
            let mut reasons = Vec::new();
            for endpoint in 0..self.client.endpoints() {
                match self.client.ping(endpoint).await {
                    Ok(()) => {
                        reasons.clear();
                        break;
                    }
                    Err(reason) => reasons.push(reason),
                }
            }
            if reasons.is_empty() {
                self.state.reached();
            } else {
                self.state.unreachable(reasons.join("; "));
            }
            tokio::select! {
                () = tokio::time::sleep(interval) => {}
                () = self.drain.begun() => return,
            }
        }
    }
}

/// Why a table takes no inserts, as readiness says it.
fn blocking_reason(verdict: &Verdict) -> String {
    match verdict.code {
        Some(code) => format!("{} (code {code})", topic_of_code(verdict.code)),
        None => format!("{}: {}", topic_of_code(None), verdict.message),
    }
}

/// How often an insert was tried, and where it goes next.
struct Tries {
    count: u32,
    endpoint: usize,
    endpoints: usize,
    here: u32,
    retry: Backoff,
    slow: Backoff,
    stopped: Backoff,
}

impl Tries {
    /// A partition begins at an endpoint of its own, always the same one: its inserts are
    /// deduplicated there even before replication has spread the tokens.
    fn new(origin: &Origin, endpoints: usize, token: &str) -> Self {
        let hash = |value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
            value(&mut hasher);
            std::hash::Hasher::finish(&hasher)
        };
        use std::hash::Hash as _;
        let home = hash(&|hasher| (origin.topic.as_ref(), origin.partition).hash(hasher));
        let seed = hash(&|hasher| token.hash(hasher));
        Self {
            count: 0,
            endpoint: usize::try_from(home % endpoints.max(1) as u64).unwrap_or(0),
            endpoints,
            here: 0,
            retry: Backoff::new(RETRY, seed),
            slow: Backoff::new(SLOW, seed),
            stopped: Backoff::new(STOPPED, seed),
        }
    }

    fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// The wait before the next try, which may be elsewhere.
    fn after_trouble(&mut self, unanswered: bool) -> Duration {
        self.here += 1;
        if self.endpoints > 1 && (unanswered || self.here >= TRIES_PER_ENDPOINT) {
            self.endpoint = (self.endpoint + 1) % self.endpoints;
            self.here = 0;
        }
        self.retry.next_wait()
    }
}
