//! Delivers one insert: sends it, repeats it, moves it to another replica, or returns it.
//!
//! The same bytes go with the same token every time, so that an insert whose answer was lost is
//! stored once. Delivery ends when a server has stored it, when its rows are at fault, or at the
//! process's deadline; otherwise it is retried indefinitely, with the records still in Kafka. Its
//! [route](crate::servers::route) decides where and when it is sent next;
//! [`next_step`](crate::insert::next_step) evaluates answers without I/O.
//!
//! After an answer that may concern the table the sink checks it
//! ([`table_check`](crate::tables::table_check)): the next
//! attempts omit missing columns, and rows refused for a changed type aren't bad rows.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millrace_columns::TypedColumn;
use millrace_coordination::error_codes::{Concern, ErrorCode};
use millrace_observe::otlp::{SPANS, Trace, TraceId};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::sink::{Completion, DeliveryOutcome, Insert, Rejection};
use millrace_pipeline::telemetry::{Telemetry, Unverified};
use tokio::sync::watch;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::insert::insert_window::InsertSlot;
use crate::insert::next_step::{History, NextStep, TableFacts};
use crate::insert::plan::{InsertPlan, Plans};
use crate::insert::response::{Class, Count, InsertResponse};
use crate::servers::circuit_breaker::{Pace, RETRY};
use crate::servers::client::HttpClient;
use crate::servers::route::{Destination, Permit, Routes, Stall};
use crate::state::{BlockedTable, SinkReadiness};
use crate::tables::{SinkTables, TableEntry};

/// The part of its timeout, as a divisor, after which an insert shows that the server is
/// overloaded.
const SLOW_SHARE: u32 = 2;
/// The part of its timeout, as a divisor, after which an insert without an answer frees its slot,
/// and its endpoint gets no further ones for the table until it ends: 5 s of the usual 60, where
/// inserts take under one.
const SILENCE_SHARE: u32 = 12;
/// The pauses of an insert that fails at every replica, while others may succeed. They are short,
/// because this insert may be the probe that finds its table working again.
const INSERT_PAUSE: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(2) };
/// The minimum of that time, however short the timeout.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// The state that all deliveries share.
pub(crate) struct InsertDelivery {
    pub(crate) client: HttpClient,
    pub(crate) tables: Arc<SinkTables>,
    /// The insert plans for each table of each endpoint.
    pub(crate) plans: Plans,
    /// JSON columns whose live tables declare their own type, for encoders.
    pub(crate) typed: watch::Sender<Vec<TypedColumn>>,
    /// When each endpoint's tables were last checked.
    pub(crate) last_checks: Vec<tokio::sync::Mutex<Option<Instant>>>,
    /// Wakes the regular check when another one found something new.
    pub(crate) changed: tokio::sync::Notify,
    /// Endpoints whose answers never state the number of written rows, because a proxy removes it.
    pub(crate) silent: Vec<AtomicBool>,
    pub(crate) state: SinkReadiness,
    pub(crate) routes: Routes,
    pub(crate) telemetry: Arc<Telemetry>,
    pub(crate) drain: Drain,
}

/// Creates an attempt's span, below its insert's.
fn attempt_span(endpoint: &str) -> Span {
    tracing::debug_span!(
        target: SPANS, "try", otel.name = "clickhouse insert", otel.kind = "client", endpoint
    )
}

fn why_not_stored(outcome: &DeliveryOutcome) -> Option<&str> {
    match outcome {
        DeliveryOutcome::Stored => None,
        DeliveryOutcome::Rejected(rejection) => Some(&rejection.detail),
        DeliveryOutcome::Abandoned | DeliveryOutcome::Deferred => {
            Some("returned to the source, which reads it again")
        }
    }
}

/// An insert that is being delivered.
struct InsertContext<'a> {
    insert: &'a Insert,
    table: &'a TableEntry,
    token: String,
    trace: Option<TraceId>,
}

/// An answered attempt.
struct AttemptResult {
    response: InsertResponse,
    /// The plan from now on.
    plan: Arc<InsertPlan>,
    facts: TableFacts,
}

impl InsertDelivery {
    /// Sends an insert until it has ended. `slot` is for its first attempt.
    pub(crate) async fn run(
        &self,
        insert: Insert,
        completion: Completion,
        destination: Destination,
        slot: InsertSlot,
    ) {
        let Some(table) = self.tables.of_index(insert.block.table) else {
            completion.finish_with(unknown_table());
            return;
        };
        let trace = self.begin_trace(&insert, table);
        let delivered =
            InsertContext { insert: &insert, table, token: insert.dedup_token(), trace: trace.id };
        let work = self.deliver_insert(&delivered, &destination, slot).instrument(trace.span());
        let outcome = tokio::select! {
            outcome = work => outcome,
            () = self.drain.wait_for_deadline() => DeliveryOutcome::Abandoned,
        };
        trace.record_result(why_not_stored(&outcome));
        if outcome == DeliveryOutcome::Stored {
            self.telemetry.insert_stored(&table.name);
        }
        // Free the memory before the end is reported: the receiver may reserve it again.
        drop(insert);
        completion.finish_with(outcome);
    }

    /// Begins the trace of an insert, if it is sampled. Its attempts are spans below it.
    fn begin_trace(&self, insert: &Insert, table: &TableEntry) -> Trace {
        let Insert { block, origin, .. } = insert;
        if block.is_self_telemetry {
            return Trace::default();
        }
        self.telemetry.tracer().begin_trace(|trace_id| {
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

    async fn deliver_insert(
        &self,
        delivered: &InsertContext<'_>,
        destination: &Destination,
        slot: InsertSlot,
    ) -> DeliveryOutcome {
        let InsertContext { insert, table, token, .. } = delivered;
        let Destination { route, home } = destination;
        let origin = &insert.origin;
        let mut history = History::new(origin.range.span(), origin.may_be_stored);
        let mut pauses = Backoff::new(RETRY, hash(token));
        let mut own_pauses = Backoff::new(INSERT_PAUSE, hash(token));
        let mut not_before = Instant::now();
        let (mut slot, mut stall, mut hold) = (Some(slot), None, None::<BlockedTable<'_>>);
        loop {
            let may_leave =
                || origin.is_read_again && !history.is_needed() && !self.drain.is_begun();
            let permit =
                route.acquire_permit(*home, not_before, may_leave, &mut slot, &mut stall).await;
            // Another insert waits for the table, and this one can be read again.
            let Some(permit) = permit else { return history.unstored_outcome() };
            let endpoint = permit.endpoint();
            let first = history.attempts() == 0;
            let AttemptResult { response: mut verdict, plan, facts } =
                self.attempt_insert(delivered, &permit, first, &mut slot, &mut stall).await;
            self.adapt_window(&verdict, destination, permit.started);
            match history.next_step(&verdict, facts) {
                NextStep::Finish(unverified) => {
                    permit.record_success();
                    self.record_row_count(endpoint, &verdict, &history, unverified);
                    self.report_route(table);
                    return DeliveryOutcome::Stored;
                }
                NextStep::Divide => {
                    permit.record_success();
                    return rejection_outcome(&verdict);
                }
                NextStep::Repeat => {
                    permit.record_success();
                    if verdict.class == Class::Done {
                        verdict.class = Class::RetrySame;
                        "the answer has no number of rows".clone_into(&mut verdict.message);
                    }
                    self.report_failure(delivered, endpoint, &verdict, &history);
                    (slot, hold) = (None, None);
                    tokio::time::sleep(pauses.next_wait()).await;
                }
                NextStep::Retry { pace, everywhere } => {
                    permit.record_failure(pace, everywhere);
                    self.report_failure(delivered, endpoint, &verdict, &history);
                    self.refresh_login_after(&verdict);
                    let is_blocked = pace == Pace::Repair && route.is_held_back();
                    hold = is_blocked.then(|| {
                        let shard = endpoint / self.client.replica_count();
                        let hold = hold.take();
                        hold.unwrap_or_else(|| BlockedTable::new(&self.state, &table.name, shard))
                    });
                    if let Some(hold) = &hold {
                        hold.set_reason(self.blocking_reason(endpoint, &verdict, &plan));
                    }
                    // Others' successes close the breaker at once; this insert may fail alone.
                    if history.attempts() as usize >= self.client.replica_count() {
                        not_before = Instant::now() + own_pauses.next_wait();
                    }
                }
            }
        }
    }

    /// Makes one request and reads its answer.
    async fn attempt_insert<'a>(
        &self,
        delivered: &InsertContext<'_>,
        permit: &Permit<'a>,
        first: bool,
        slot: &mut Option<InsertSlot>,
        stall: &mut Option<Stall<'a>>,
    ) -> AttemptResult {
        let InsertContext { insert, table, token, trace } = delivered;
        let (endpoint, started) = (permit.endpoint(), permit.started);
        let before = self.plans.plan_of(endpoint, table.index);
        let sending = self.client.insert(endpoint, &before, insert, token, first);
        let sending = sending.instrument(attempt_span(self.client.endpoint_name(endpoint)));
        let mut sending = pin!(sending);
        let time_out = self.client.insert_timeout();
        let patience = (time_out / SILENCE_SHARE).max(SILENCE_MIN);
        let mut verdict = match tokio::time::timeout(patience, &mut sending).await {
            Ok(verdict) => verdict,
            Err(_) => {
                let overdue = permit.record_silence(started + time_out, stall);
                self.report_route(table);
                if overdue.is_some() {
                    *slot = None;
                }
                sending.await
            }
        };
        self.telemetry.record_insert_time(started.elapsed(), *trace);
        self.record_reachability(&verdict, endpoint);
        let plan = self.check_table(&mut verdict, endpoint, table, &before, started).await;
        let facts = TableFacts {
            deduplicates: plan.has_dedup(),
            hides_counts: self.silent[endpoint].load(Ordering::Relaxed),
            was_changed: plan.parameters() != before.parameters(),
        };
        AttemptResult { response: verdict, plan, facts }
    }

    /// Checks the table after an answer that may concern it, or its server's version, and returns
    /// the plan from now on. A view's exception concerns another table.
    async fn check_table(
        &self,
        verdict: &mut InsertResponse,
        endpoint: usize,
        table: &TableEntry,
        before: &Arc<InsertPlan>,
        started: Instant,
    ) -> Arc<InsertPlan> {
        let converts = verdict.is_about(Concern::Conversion);
        let may_concern = converts
            || verdict.class == Class::RefreshSchema
            // The server may be older than was assumed.
            || verdict.is_about(Concern::Setting);
        if verdict.view.is_some() || !may_concern {
            return Arc::clone(before);
        }
        self.check_endpoint(endpoint, started).await;
        let plan = self.plans.plan_of(endpoint, table.index);
        if plan != *before {
            self.changed.notify_one();
        }
        if converts && plan.has_other_types() {
            verdict.class = Class::RefreshSchema;
        }
        plan
    }

    /// Records whether an endpoint states row counts. One that omits the count even for a
    /// repetition never states it, and is trusted from then on, until it states one.
    fn record_row_count(
        &self,
        endpoint: usize,
        verdict: &InsertResponse,
        history: &History,
        unverified: Option<Unverified>,
    ) {
        match verdict.count {
            Count::Complete => self.silent[endpoint].store(false, Ordering::Relaxed),
            Count::Unsaid if history.was_recounted() => {
                self.silent[endpoint].store(true, Ordering::Relaxed);
            }
            Count::Unsaid | Count::Short => {}
        }
        let Some(unverified) = unverified else { return };
        self.telemetry.insert_unverified(unverified);
        if unverified == Unverified::ShortCount {
            tracing::error!(
                endpoint = self.client.endpoint_name(endpoint),
                message = verdict.message,
                "the server repeatedly counts fewer rows than were sent, and doesn't recognise \
                 repetitions"
            );
        }
    }

    fn report_failure(
        &self,
        delivered: &InsertContext<'_>,
        endpoint: usize,
        verdict: &InsertResponse,
        history: &History,
    ) {
        let InsertContext { table, token, .. } = delivered;
        let name = verdict.error_code().map(|code| code.name);
        tracing::warn!(
            endpoint = self.client.endpoint_name(endpoint), table = %table.name, token,
            class = verdict.label(), code = verdict.code, name, view = verdict.view,
            message = verdict.message, attempts = history.attempts(),
            "ClickHouse has not stored an insert; retrying"
        );
        self.telemetry.insert_retried(verdict.label());
        self.report_route(table);
    }

    fn report_route(&self, table: &TableEntry) {
        let (allowed, open) = self.routes.route_stats(table.index);
        self.telemetry.record_insert_routes(&table.name, allowed, open);
    }

    /// Reduces the concurrent inserts of a server that can't keep up, and raises them once it can.
    fn adapt_window(&self, verdict: &InsertResponse, destination: &Destination, started: Instant) {
        let now = Instant::now();
        let window = &destination.route.window;
        let slow = now - started > self.client.insert_timeout() / SLOW_SHARE;
        match verdict.class {
            _ if slow => window.record_overload(started, now),
            Class::SlowDown => window.record_overload(started, now),
            Class::Done => window.record_success(),
            _ => {}
        }
    }

    /// Reads the log-in again after a refusal: the password may be old, and the file may have the
    /// new one.
    fn refresh_login_after(&self, verdict: &InsertResponse) {
        if verdict.is_about(Concern::LogIn)
            && let Err(error) = self.client.refresh_login()
        {
            tracing::warn!(%error, "cannot read the renewed credentials");
        }
    }

    /// Returns why a table accepts no inserts, for readiness.
    fn blocking_reason(
        &self,
        endpoint: usize,
        verdict: &InsertResponse,
        plan: &InsertPlan,
    ) -> String {
        let at = match self.client.endpoint_count() {
            1 => String::new(),
            _ => format!(" at {}", self.client.endpoint_name(endpoint)),
        };
        if let Some(view) = &verdict.view {
            let ErrorCode { code, name, .. } = ErrorCode::from_code(verdict.code.unwrap_or(0));
            return format!(
                "the materialized view {view} refuses rows (code {code} {name}){at}: repair or drop it"
            );
        }
        let reason = match verdict.code {
            Some(code) => format!("{} (code {code}){at}", verdict.topic()),
            None => format!("{}{at}: {}", verdict.topic(), verdict.message),
        };
        match plan.insert_obstacle() {
            Some(obstacle) => format!("{reason}: {obstacle}"),
            None => reason,
        }
    }
}

fn hash(token: &str) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(token)
}

fn rejection_outcome(verdict: &InsertResponse) -> DeliveryOutcome {
    DeliveryOutcome::Rejected(Rejection { reason: verdict.reason(), detail: verdict.to_string() })
}

/// Returns the end of an insert for a table that this sink doesn't have.
pub(crate) fn unknown_table() -> DeliveryOutcome {
    let detail = "a block for a table that this sink doesn't have".to_owned();
    DeliveryOutcome::Rejected(Rejection { reason: "unknown_table", detail })
}
