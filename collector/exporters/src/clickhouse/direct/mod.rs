//! OTLP straight into ClickHouse: requests are encoded as they come, batched by rows, bytes and age
//! across clients, inserted, and answered.
//!
//! This is the small installation's mode, with the columns and the inserts of a gateway and no
//! Kafka. A request is appended to an open batch of its signal on the receiver's own thread; a
//! batch that is full or old is cut into blocks, which the [`Sink`] stores under a token of their
//! own. By default a client is answered after that.
//!
//! Bounded by the byte budget (a request without room is refused with a delay), and by
//! [`MAX_UNFINISHED`] batches per signal, so that a table that takes nothing can't fill the budget
//! for the others. A request whose client has gone isn't sent: the client sends it again.
//!
//! At least once: a client whose answer is lost sends again. Inside the process the same bytes go
//! with the same token, so ClickHouse's own retries double nothing.

mod batch;
mod lane;
mod outbox;
mod salvage;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_config::{AcknowledgeInsert, ClickHouseExporter};
use millrace_pipeline::batch::BatchLimits;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{Delivered, Delivery, Publish, Refused, Request};
use millrace_pipeline::sink::{Completion, Insert, Origin, Outcome, PartId, Sink};
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::Signal;

use batch::{Batch, Held, RefusedPart};
use lane::Lane;
use outbox::{Outbox, Part};

/// Batches of one signal that may be cut and not yet stored. Each is at most
/// `batch.maxRows` and one request; beyond it clients of that signal are asked to send again.
const MAX_UNFINISHED: usize = 16;
/// How long the clock's thread sleeps at most while something is open or waits: a drain doesn't
/// wake it.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What a direct publisher works with.
pub struct DirectParts {
    /// Where batches go.
    pub sink: Arc<dyn Sink>,
    /// The process's budget for records in memory.
    pub budget: Budget,
    /// The process's metrics.
    pub telemetry: Arc<Telemetry>,
    /// Once it begins, batches are cut as they come.
    pub drain: Drain,
    /// Batches that may be filled at once per signal, at least 1: as many as threads publish.
    pub shards: usize,
}

/// Publishes requests to ClickHouse. Its threads end when it is dropped.
pub struct DirectPublisher {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    sink: Arc<dyn Sink>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    drain: Drain,
    limits: BatchLimits,
    acknowledge: AcknowledgeInsert,
    lanes: [Lane; 3],
    outbox: Outbox,
    salvage: SyncSender<salvage::Job>,
    series: Series,
    /// Set by the last flush: nothing is taken from then on.
    closed: AtomicBool,
}

/// Numbers this process's inserts, under a name no other process has.
struct Series {
    name: Arc<str>,
    group: Arc<str>,
    started_millis: i64,
    next: AtomicI64,
}

impl DirectPublisher {
    /// Starts the threads that cut old batches and that separate bad requests from good ones.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(settings: &ClickHouseExporter, parts: DirectParts) -> io::Result<Self> {
        let DirectParts { sink, budget, telemetry, drain, shards } = parts;
        let (salvage, jobs) = sync_channel(salvage::MAX_JOBS);
        let shared = Arc::new(Shared {
            sink,
            budget,
            telemetry,
            drain,
            limits: (&settings.batch).into(),
            acknowledge: settings.acknowledge,
            lanes: Signal::ALL.map(|signal| Lane::new(signal, shards.max(1))),
            outbox: Outbox::default(),
            salvage,
            series: Series::new(),
            closed: AtomicBool::new(false),
        });
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(body)
        };
        let clock = Arc::clone(&shared);
        let salvaging = Arc::clone(&shared);
        let mut this = Self { shared, threads: Vec::new() };
        this.threads.push(spawn("direct-clock", Box::new(move || clock.keep_time()))?);
        let work = move || salvage::work(&salvaging, &jobs);
        this.threads.push(spawn("direct-salvage", Box::new(work))?);
        Ok(this)
    }

    /// Cuts what is open and waits until everything taken is stored and answered, at most for
    /// `time`. Nothing is taken afterwards. False when something was not stored in time; those
    /// clients are asked to send again.
    #[must_use]
    pub fn flush(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        self.shared.closed.store(true, Ordering::Release);
        for lane in &self.shared.lanes {
            lane.cut_all(&self.shared);
        }
        self.shared.outbox.wait_until_done(until)
    }
}

impl Publish for DirectPublisher {
    fn publish(&self, request: Request<'_>) -> Result<Delivery, Refused> {
        let shared = &self.shared;
        if shared.closed.load(Ordering::Acquire) {
            return Err(Refused::Draining);
        }
        let late = shared.acknowledge == AcknowledgeInsert::AfterInsert;
        if late && !shared.sink.is_reachable() {
            return Err(Refused::Unavailable("clickhouse cannot be reached now".to_owned()));
        }
        if request.bytes.is_empty() {
            // A request without records is complete as it is.
            let (sender, delivery) = Delivery::pair();
            sender.finish(Ok(Delivered::default()));
            return Ok(delivery);
        }
        if shared.outbox.unfinished(request.signal) >= MAX_UNFINISHED {
            return Err(Refused::Full);
        }
        shared.lanes[request.signal.index()].add(request, shared)
    }

    fn takes(&self, _: Signal) -> bool {
        true
    }
}

impl Drop for DirectPublisher {
    fn drop(&mut self) {
        self.shared.outbox.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// The clock's thread: cuts batches that are old enough and hands cut ones to the sink.
    fn keep_time(self: &Arc<Self>) {
        let mut due = None;
        while self.outbox.wait(due) {
            let now = Instant::now();
            let hurry = self.drain.is_begun() || self.closed.load(Ordering::Acquire);
            let max_age = if hurry { Duration::ZERO } else { self.limits.max_age };
            let aged = self.lanes.iter().filter_map(|lane| lane.cut_aged(now, max_age, self));
            let open = aged.min();
            let waiting = self.outbox.submit(self.sink.as_ref());
            let look = (open.is_some() || waiting).then(|| now + LOOK_INTERVAL);
            due = open.into_iter().chain(look).min();
        }
    }

    /// Hands a cut batch's blocks on.
    fn send(self: &Arc<Self>, batch: Arc<Batch>, inserts: Vec<Insert>) {
        self.outbox.opened(batch.signal);
        if inserts.is_empty() {
            self.answer(&batch, &[]);
            return;
        }
        let parts = inserts.into_iter().zip(0..).map(|(insert, number)| {
            let (table, day) = (insert.block.table, insert.block.slice.day);
            let (this, owner) = (Arc::clone(self), Arc::clone(&batch));
            let completion = Completion::new(PartId(number), move |answer| {
                let refused = match answer.outcome {
                    Outcome::Stored => None,
                    Outcome::Rejected(rejection) => {
                        Some(Some(RefusedPart { table, day, rejection }))
                    }
                    Outcome::Abandoned => Some(None),
                };
                if owner.answered(refused) {
                    this.ended(&owner);
                }
                this.outbox.wake();
            });
            Part { batch: Arc::clone(&batch), insert, completion }
        });
        self.outbox.push(parts.collect());
    }

    /// All parts of a batch are answered.
    fn ended(&self, batch: &Arc<Batch>) {
        let refused = match batch.verdict() {
            Some(refused) if refused.is_empty() => return self.answer(batch, &[]),
            Some(refused) => refused,
            None => return self.give_up(batch),
        };
        let job = salvage::Job { batch: Arc::clone(batch), refused };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) =
            self.salvage.try_send(job)
        {
            // Too many refused batches wait: this one's clients send again.
            self.give_up(&job.batch);
        }
    }

    /// The budget is full: frees what is kept for later and sends what is worth an insert.
    fn make_room(self: &Arc<Self>) {
        for lane in &self.lanes {
            lane.make_room(self);
        }
    }

    /// Everything that can be stored is: answers all, with the requests that can't named in `bad`.
    /// Counts first: whoever is answered may read the figures at once.
    fn answer(&self, batch: &Batch, bad: &[usize]) {
        let rejected_of = |index, held: &Held| if bad.contains(&index) { held.records } else { 0 };
        let requests = batch.take_requests();
        let rejected = requests.iter().enumerate().map(|(index, held)| rejected_of(index, held));
        let rejected: u64 = rejected.sum();
        if rejected > 0 {
            self.telemetry.refused(batch.signal, Refusal::Malformed, rejected);
        }
        self.telemetry.records_out(batch.signal, batch.records - rejected);
        self.telemetry.buffered(batch.signal, -(batch.records as i64));
        for (index, held) in requests.into_iter().enumerate() {
            let rejected_records = rejected_of(index, &held);
            if let Some(sender) = held.sender {
                sender.finish(Ok(Delivered { rejected_records }));
            }
        }
        self.outbox.done(batch.signal);
    }

    /// Whether the rows are stored isn't known, and nobody retries: clients send again.
    fn give_up(&self, batch: &Batch) {
        self.telemetry.refused(batch.signal, Refusal::Unavailable, batch.records);
        self.telemetry.buffered(batch.signal, -(batch.records as i64));
        let mut lost = 0;
        for held in batch.take_requests() {
            match held.sender {
                Some(sender) => {
                    let why = "clickhouse did not confirm them".to_owned();
                    sender.finish(Err(Refused::Unconfirmed(why)));
                }
                None => lost += held.records,
            }
        }
        if lost > 0 {
            tracing::error!(
                signal = %batch.signal, records = lost,
                "records were answered when buffered and could not be stored in time"
            );
        }
        self.outbox.done(batch.signal);
    }
}

impl Series {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // The standard library's hash keys are the system's random numbers.
        let random = RandomState::new().build_hasher().finish();
        Self {
            name: format!("{random:016x}").into(),
            group: "direct".into(),
            started_millis: i64::try_from(now.as_millis()).unwrap_or(0),
            next: AtomicI64::new(0),
        }
    }

    /// The origin of a batch of so many requests, from which its blocks' tokens are made: as many
    /// numbers never given before. The sink gives several requests back that are too much for a
    /// server's memory, and keeps trying a single one.
    fn origin(&self, signal: Signal, requests: usize) -> Option<Origin> {
        let count = i64::try_from(requests.max(1)).ok()?;
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let numbers = first..first.checked_add(count)?;
        Origin::of_counted(signal, &self.group, &self.name, numbers, self.started_millis)
    }
}
