//! Delivers one insert: sends it, repeats it, moves it to another endpoint, or gives it back.
//!
//! The same bytes go with the same token every time, so that an insert whose answer was lost is
//! stored once. It ends when a server has it, when its rows are at fault, or at the process's
//! deadline; otherwise it is retried indefinitely, with the data still in Kafka.
//!
//! An insert into a table that takes none for now, or is very slow, waits outside the window
//! ([`super::rest`]), so that other tables' inserts continue. One insert of a table waits like this
//! and finds out when the table takes inserts again. Others are given back, with their memory, to a
//! source that can read them again.
//!
//! After an answer that may concern the table the sink checks it ([`super::look`]): missing columns
//! are left out from the next attempt on, and rows refused by a changed type aren't bad rows.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_columns::TypedColumn;
use millrace_observe::otlp::{SPANS, Trace, TraceId};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{Completion, Insert, Origin, Outcome, Rejection};
use millrace_pipeline::telemetry::{Telemetry, Unverified};
use tokio::sync::watch;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::answer::{
    Class, Count, Verdict, is_authentication, is_conversion, is_for_memory, is_of_table,
    topic_of_code,
};
use super::client::HttpClient;
use super::plan::{Plan, Plans};
use super::rest::{Rest, Rests};
use super::state::{Blocked, State};
use super::tables::{TableEntry, Tables};
use super::window::{Place, Window};

/// Waits after temporary failures.
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
/// Tries after which an insert that the server has too little memory for is given back, to be
/// stored in smaller ones: after two waits of seconds, in which other queries may have given memory
/// back. An insert of one message can't be made smaller: it is retried indefinitely, as its rows
/// are good.
const MEMORY_TRIES: u32 = 3;
/// An insert that takes longer than this part of its time-out shows that the server is overloaded.
const SLOW_SHARE: u32 = 2;
/// An insert without an answer for this part of its time-out leaves its place to other tables', and
/// its table is given no further ones meanwhile: 5 s of the usual 60, where inserts take under one.
const ASIDE_SHARE: u32 = 12;
/// But not before this, however short the time-out.
const ASIDE_AFTER_LEAST: Duration = Duration::from_secs(1);
/// Tries at one endpoint that answers before another one is asked.
const TRIES_PER_ENDPOINT: u32 = 2;
/// Tries after which an insert of which fewer rows were written than sent counts as stored, where
/// the table doesn't recognise repetitions: each further one would store again what was written.
const SHORT_TRIES: u32 = 2;

/// What all deliveries share.
pub(super) struct Delivery {
    pub(super) client: HttpClient,
    pub(super) tables: Arc<Tables>,
    /// How inserts go into each table of each endpoint.
    pub(super) plans: Plans,
    /// JSON columns that live tables hold with a type of their own, for encoders.
    pub(super) typed: watch::Sender<Vec<TypedColumn>>,
    /// When each endpoint's tables were last checked.
    pub(super) looks: Vec<tokio::sync::Mutex<Option<Instant>>>,
    /// Wakes the regular check when another one found something new.
    pub(super) changed: tokio::sync::Notify,
    /// Endpoints whose answers never say how many rows were written: a proxy takes that out.
    pub(super) silent: Vec<AtomicBool>,
    pub(super) state: State,
    pub(super) rests: Rests,
    pub(super) telemetry: Arc<Telemetry>,
    pub(super) drain: Drain,
    /// Requests at once.
    pub(super) window: Arc<Window>,
    /// As many again as configured may be without an answer outside of the window.
    pub(super) aside: tokio::sync::Semaphore,
}

/// A try of an insert, below it.
fn tried(endpoint: &str) -> Span {
    tracing::debug_span!(
        target: SPANS, "try", otel.name = "clickhouse insert", otel.kind = "client", endpoint
    )
}

fn why_not_stored(outcome: &Outcome) -> Option<&str> {
    match outcome {
        Outcome::Stored => None,
        Outcome::Rejected(rejection) => Some(&rejection.detail),
        Outcome::Abandoned => Some("given back: it is read again"),
    }
}

/// What to do after a verdict that isn't the end.
enum Next {
    End(Outcome),
    Wait(Duration),
}

impl Delivery {
    /// Sends an insert until it has ended. `place` is for the first try; an insert that waits for
    /// its table gives it back, so that other tables' inserts continue.
    pub(super) async fn run(&self, insert: Insert, completion: Completion, place: Place) {
        let Some(table) = self.tables.of_index(insert.block.table) else {
            let detail = "a block for a table that this sink doesn't have".to_owned();
            completion.finish(Outcome::Rejected(Rejection { reason: "unknown_table", detail }));
            return;
        };
        let trace = self.trace(&insert, table);
        let work = self.until_ended(&insert, table, place, trace.id).instrument(trace.span());
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = self.drain.expired() => Outcome::Abandoned,
        };
        trace.ended(why_not_stored(&outcome));
        if outcome == Outcome::Stored {
            self.telemetry.insert_stored(&table.name);
        }
        // Its memory is given back before anyone learns of its end, and may reserve again.
        drop(insert);
        completion.finish(outcome);
    }

    /// The trace of an insert, if it is kept. Below it are its tries.
    fn trace(&self, insert: &Insert, table: &TableEntry) -> Trace {
        let Insert { block, origin, .. } = insert;
        if block.is_own {
            return Trace::default();
        }
        self.telemetry.tracer().begin(|trace_id| {
            tracing::debug_span!(
                target: SPANS,
                parent: None,
                "insert",
                trace_id,
                otel.name = format!("insert {}", table.name),
                otel.status_code = Empty,
                table = &*table.name,
                rows = block.rows,
                bytes = block.body.len(),
                topic = &*origin.topic,
                partition = origin.partition,
                first_offset = origin.range.first(),
                last_offset = origin.range.last(),
                error = Empty,
            )
        })
    }

    async fn until_ended(
        &self,
        insert: &Insert,
        table: &TableEntry,
        place: Place,
        trace: Option<TraceId>,
    ) -> Outcome {
        let token = insert.token();
        let mut tries =
            Tries::new(&insert.origin, self.client.endpoints(), self.client.replicas(), &token);
        let mut place = Some(place);
        let mut hold: Option<Blocked<'_>> = None;
        let mut rest: Option<Rest<'_>> = None;
        loop {
            let turn = match &rest {
                Some(rest) => Some(rest.turn().await),
                None => None,
            };
            if place.is_none() {
                place = self.window.enter().await;
            }
            let endpoint = tries.endpoint();
            let Some(plan) = self.plans.of(endpoint, table.index) else {
                return Outcome::Abandoned;
            };
            let started = Instant::now();
            let first = tries.count == 0;
            let sending = self.client.insert(endpoint, &plan, insert, &token, first);
            let sending = sending.instrument(tried(self.client.endpoint_name(endpoint)));
            let mut verdict = self.answer(sending, table, &mut place, &mut rest).await;
            self.telemetry.insert_took(started.elapsed(), trace);
            self.note_reached(&verdict, endpoint);
            self.adapt(&verdict, started);
            let seen = self.look_after(&mut verdict, endpoint, table, &plan, started).await;
            let wait = match self.next(&mut verdict, &mut tries, &seen) {
                Next::End(outcome) => return outcome,
                Next::Wait(wait) => wait,
            };
            tracing::warn!(
                endpoint = self.client.endpoint_name(endpoint), table = %table.name, token,
                class = verdict.label(), code = verdict.code, message = verdict.message,
                tries = tries.count, ?wait, "insert not stored yet"
            );
            self.telemetry.insert_retried(verdict.label());
            drop(turn);
            let is_silent = place.is_none() && verdict.code.is_none();
            if is_silent || tries.every_replica_refuses_the_table() {
                drop(place.take());
                rest = self.waits_on(insert, table, rest, &tries);
                if rest.is_none() {
                    return Outcome::Abandoned;
                }
                drop(hold.take());
                self.until_next_try(rest.as_ref(), wait).await;
                continue;
            }
            let is_blocked = matches!(verdict.class, Class::Stop | Class::RefreshSchema);
            if !is_blocked || seen.parameters() != plan.parameters() {
                drop((hold.take(), rest.take()));
                // The obstacle is gone: no need to wait.
                tokio::time::sleep(if is_blocked { RETRY.first } else { wait }).await;
                continue;
            }
            drop(place.take());
            rest = self.waits_on(insert, table, rest, &tries);
            if rest.is_none() {
                return Outcome::Abandoned;
            }
            let hold = hold.get_or_insert_with(|| Blocked::new(&self.state, &table.name));
            hold.because(blocking_reason(&verdict, &seen));
            self.refresh_login_after(&verdict);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                // Another insert succeeded: no need to wait longer. A pause all the same, lest
                // two that fail wake each other without end.
                () = self.state.unblocked() => tokio::time::sleep(RETRY.first).await,
            }
        }
    }

    /// From now on, or still, the insert waits for its table. None when another one does, which
    /// suffices to find out when the table takes inserts again, and this one can be read again:
    /// then its memory is others'. At the end of the process nobody reads it again here.
    fn waits_on<'a>(
        &'a self,
        insert: &Insert,
        table: &TableEntry,
        rest: Option<Rest<'a>>,
        tries: &Tries,
    ) -> Option<Rest<'a>> {
        let rest = rest.or_else(|| self.rests.begin(table.index))?;
        let stays = !insert.origin.is_read_again || tries.has_history() || self.drain.is_begun();
        if stays {
            return Some(rest);
        }
        rest.leave_to_others()
    }

    /// The answer to a try. A table that keeps one waiting for long rests, as one that refuses
    /// does, and the try leaves its place. Only a bounded number does, so that a server that hangs
    /// isn't sent ever more.
    async fn answer<'a>(
        &'a self,
        sending: impl Future<Output = Verdict>,
        table: &TableEntry,
        place: &mut Option<Place>,
        rest: &mut Option<Rest<'a>>,
    ) -> Verdict {
        let mut sending = pin!(sending);
        let patience = (self.client.insert_timeout() / ASIDE_SHARE).max(ASIDE_AFTER_LEAST);
        if let Ok(verdict) = tokio::time::timeout(patience, &mut sending).await {
            return verdict;
        }
        if rest.is_none() {
            *rest = self.rests.begin(table.index);
        }
        let aside = self.aside.try_acquire();
        if aside.is_ok() {
            drop(place.take());
        }
        sending.await
    }

    /// The wait of an insert whose table rests. Another one that got through ends it early, but for
    /// a pause.
    async fn until_next_try(&self, rest: Option<&Rest<'_>>, wait: Duration) {
        let next = async {
            match rest {
                Some(rest) => rest.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = next => tokio::time::sleep(RETRY.first).await,
        }
    }

    /// Looks at the table after an answer that may be about it: the plan from now on.
    async fn look_after(
        &self,
        verdict: &mut Verdict,
        endpoint: usize,
        table: &TableEntry,
        plan: &Arc<Plan>,
        started: Instant,
    ) -> Arc<Plan> {
        let converts = verdict.code.is_some_and(is_conversion);
        if verdict.class != Class::RefreshSchema && !converts {
            return Arc::clone(plan);
        }
        self.look(endpoint, started).await;
        let seen = self.plans.of(endpoint, table.index).unwrap_or_else(|| Arc::clone(plan));
        if seen != *plan {
            self.changed.notify_one();
        }
        if converts && seen.has_other_types() {
            verdict.class = Class::RefreshSchema;
        }
        seen
    }

    fn next(&self, verdict: &mut Verdict, tries: &mut Tries, plan: &Plan) -> Next {
        tries.count += 1;
        tries.note_refusal(verdict);
        match verdict.class {
            Class::Done => self.after_success(verdict, tries, plan),
            Class::BadRows => rejected(verdict),
            Class::RefreshSchema
                if matches!(verdict.code, Some(33 | 131)) && tries.count >= UNREADABLE_TRIES =>
            {
                rejected(verdict)
            }
            Class::RetrySame if verdict.count == Count::Short => {
                self.after_short_count(verdict, tries, plan)
            }
            Class::RetrySame => Next::Wait(tries.after_trouble(verdict.code.is_none())),
            Class::SlowDown if tries.is_too_large(verdict) => rejected(verdict),
            Class::SlowDown => Next::Wait(tries.slow.next_wait()),
            Class::RefreshSchema | Class::Stop => Next::Wait(tries.stopped.next_wait()),
        }
    }

    /// A success is the end, unless it doesn't say how many rows were written. Then the same insert
    /// is sent once more, where the table recognises it: whatever isn't there yet is stored. An
    /// endpoint that doesn't say so even then never does, and is believed from then on.
    fn after_success(&self, verdict: &mut Verdict, tries: &mut Tries, plan: &Plan) -> Next {
        let silent = self.silent.get(tries.endpoint);
        if verdict.count == Count::Whole {
            silent.inspect(|silent| silent.store(false, Ordering::Relaxed));
            return Next::End(Outcome::Stored);
        }
        let is_silent = silent.is_none_or(|silent| silent.load(Ordering::Relaxed));
        if !tries.asked_again && !is_silent && plan.deduplicates() == Some(true) {
            tries.asked_again = true;
            verdict.class = Class::RetrySame;
            "the answer says no number of rows".clone_into(&mut verdict.message);
            return Next::Wait(RETRY.first);
        }
        if tries.asked_again {
            silent.inspect(|silent| silent.store(true, Ordering::Relaxed));
        }
        self.telemetry.insert_unverified(Unverified::NoCount);
        Next::End(Outcome::Stored)
    }

    /// Fewer rows written than sent: again, until the rest is there too. Where the table doesn't
    /// recognise repetitions that is done once.
    fn after_short_count(&self, verdict: &Verdict, tries: &mut Tries, plan: &Plan) -> Next {
        tries.short += 1;
        if tries.short < SHORT_TRIES || plan.deduplicates() != Some(false) {
            return Next::Wait(tries.after_trouble(true));
        }
        tracing::error!(
            endpoint = self.client.endpoint_name(tries.endpoint),
            message = verdict.message,
            "the server keeps counting fewer rows than were sent, and doesn't recognise repetitions"
        );
        self.telemetry.insert_unverified(Unverified::ShortCount);
        Next::End(Outcome::Stored)
    }

    /// Fewer inserts at once for a server that can't keep up, more again once it can.
    fn adapt(&self, verdict: &Verdict, started: Instant) {
        let now = Instant::now();
        let slow = now - started > self.client.insert_timeout() / SLOW_SHARE;
        match verdict.class {
            // Not about the server: its other tables may take as much as before.
            _ if verdict.code.is_some_and(is_of_table) => return,
            Class::SlowDown => self.window.too_much(started, now),
            _ if slow => self.window.too_much(started, now),
            Class::Done => self.window.went_well(),
            _ => return,
        }
        self.telemetry.inserts_allowed(self.window.allowed());
    }

    /// Any answer with a code came from a server.
    fn note_reached(&self, verdict: &Verdict, endpoint: usize) {
        if self.client.replicas() < self.client.endpoints() {
            // One shard's answer says nothing of the others: `watch` asks them all.
        } else if verdict.code.is_some() || verdict.class == Class::Done {
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

    /// Keeps the state of the servers known while no insert shows it: one of each shard must
    /// answer.
    pub(super) async fn watch(&self, interval: Duration) {
        let (endpoints, replicas) = (self.client.endpoints(), self.client.replicas());
        loop {
            let mut reasons = Vec::new();
            for shard in (0..endpoints).step_by(replicas) {
                reasons.extend(self.silence(shard..shard + replicas).await);
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

    /// Why none of these endpoints answers; nothing if one does.
    async fn silence(&self, endpoints: std::ops::Range<usize>) -> Vec<String> {
        let mut reasons = Vec::new();
        for endpoint in endpoints {
            match self.client.ping(endpoint).await {
                Ok(()) => return Vec::new(),
                Err(reason) => reasons.push(reason),
            }
        }
        reasons
    }
}

/// Where an insert may go: the endpoints of one shard, by their place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shard {
    first: usize,
    replicas: usize,
}

impl Shard {
    /// The shard of a partition and its endpoint there, for its hash.
    fn of(home: u64, endpoints: usize, replicas: usize) -> (Self, usize) {
        let replicas = replicas.max(1);
        let shards = (endpoints / replicas).max(1) as u64;
        let place = |value: u64| usize::try_from(value).unwrap_or(0);
        let first = place(home % shards) * replicas;
        (Self { first, replicas }, first + place(home / shards % replicas as u64))
    }

    fn next(self, endpoint: usize) -> usize {
        self.first + (endpoint - self.first + 1) % self.replicas
    }
}

fn rejected(verdict: &Verdict) -> Next {
    let rejection = Rejection { reason: verdict.reason(), detail: verdict.to_string() };
    Next::End(Outcome::Rejected(rejection))
}

/// Why a table takes no inserts, as readiness says it.
fn blocking_reason(verdict: &Verdict, plan: &Plan) -> String {
    let reason = match verdict.code {
        Some(code) => format!("{} (code {code})", topic_of_code(verdict.code)),
        None => format!("{}: {}", topic_of_code(None), verdict.message),
    };
    match plan.obstacle() {
        Some(obstacle) => format!("{reason}: {obstacle}"),
        None => reason,
    }
}

/// How often an insert was tried, and its next endpoint.
struct Tries {
    count: u32,
    endpoint: usize,
    shard: Shard,
    here: u32,
    /// Refusals in a row that were about the table alone.
    of_table: u32,
    /// The last one asked for time, and another replica would too: they share their parts.
    is_slow: bool,
    /// Whether it was sent again only to learn how many rows are there.
    asked_again: bool,
    /// Answers that counted fewer rows than were sent.
    short: u32,
    /// Answers that the server has too little memory.
    memory: u32,
    /// Whether its messages can be stored in several inserts, and no row of them is there yet.
    is_divisible: bool,
    retry: Backoff,
    slow: Backoff,
    stopped: Backoff,
}

impl Tries {
    /// A partition has a shard of its own, and begins at an endpoint of its own there, always the
    /// same one: its inserts are deduplicated there even before replication has spread the tokens.
    fn new(origin: &Origin, endpoints: usize, replicas: usize, token: &str) -> Self {
        let hash = |value: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = BuildHasherDefault::<DefaultHasher>::default().build_hasher();
            value(&mut hasher);
            std::hash::Hasher::finish(&hasher)
        };
        use std::hash::Hash as _;
        let home = hash(&|hasher| (origin.topic.as_ref(), origin.partition).hash(hasher));
        let seed = hash(&|hasher| token.hash(hasher));
        let (shard, endpoint) = Shard::of(home, endpoints, replicas);
        Self {
            count: 0,
            endpoint,
            shard,
            here: 0,
            of_table: 0,
            is_slow: false,
            asked_again: false,
            short: 0,
            memory: 0,
            is_divisible: origin.range.span() > 1,
            retry: Backoff::new(RETRY, seed),
            slow: Backoff::new(SLOW, seed),
            stopped: Backoff::new(STOPPED, seed),
        }
    }

    fn endpoint(&self) -> usize {
        self.endpoint
    }

    /// Whether the server has had too little memory so often that smaller inserts should be tried.
    /// It stores nothing of an insert that it refuses so, so the smaller ones double nothing. But
    /// once it was a view that failed, the table has the rows: only the same token doubles nothing.
    fn is_too_large(&mut self, verdict: &Verdict) -> bool {
        self.is_divisible &= !verdict.is_of_view;
        self.memory += u32::from(verdict.code.is_some_and(is_for_memory));
        self.is_divisible && self.memory >= MEMORY_TRIES
    }

    /// Whether what was answered so far decides what becomes of it, and who sends it again must
    /// know that.
    fn has_history(&self) -> bool {
        self.memory > 0 || self.short > 0 || self.asked_again
    }

    fn note_refusal(&mut self, verdict: &Verdict) {
        let of_table = verdict.code.is_some_and(is_of_table);
        self.of_table = if of_table { self.of_table + 1 } else { 0 };
        self.is_slow = of_table && verdict.class == Class::SlowDown;
    }

    /// Whether no replica takes inserts into the table, as far as was asked: one that is read-only
    /// only moves the insert to the next.
    fn every_replica_refuses_the_table(&self) -> bool {
        let others = u32::try_from(self.shard.replicas - 1).unwrap_or(u32::MAX);
        self.is_slow || self.of_table > others.saturating_mul(TRIES_PER_ENDPOINT)
    }

    /// The wait before the next try, which may be elsewhere.
    fn after_trouble(&mut self, unanswered: bool) -> Duration {
        self.here += 1;
        if self.shard.replicas > 1 && (unanswered || self.here >= TRIES_PER_ENDPOINT) {
            self.endpoint = self.shard.next(self.endpoint);
            self.here = 0;
        }
        self.retry.next_wait()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/clickhouse/deliver.rs"]
mod tests;
