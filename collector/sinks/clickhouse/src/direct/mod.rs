//! OTLP directly into ClickHouse: requests are encoded as they arrive, batched by rows, bytes and
//! age across clients, inserted, and answered.
//!
//! This is the small installation's mode, with the columns and inserts of a gateway and no Kafka.
//! The receiver's own thread appends a request to an open batch of its signal; a batch that is full
//! or old is cut into blocks, which the [`Sink`] stores under their own token. By default a client
//! is answered after that.
//!
//! It is bounded by the byte budget (a request without budget is refused with a delay), and by
//! [`MAX_UNFINISHED`] batches per signal, so that a table that accepts nothing can't fill the
//! budget for the others. A request whose client has gone isn't sent: the client sends it again.
//!
//! Delivery is at least once: a client whose answer is lost sends again. Inside the process the
//! same bytes go with the same token, so ClickHouse's own retries store no duplicates.

mod batch;
mod divide;
mod lane;
mod outbox;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_config::{AcknowledgeInsert, ClickHouseExporter};
use millrace_pipeline::batch::BatchLimits;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::component::RunningExporter;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::publish::{
    DeliveryReceipt, PendingDelivery, Publish, PublishError, PublishRequest,
};
use millrace_pipeline::random_seed::random_seed;
use millrace_pipeline::sink::{BlockOrigin, Completion, Insert, PartId, Sink};
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};
use millrace_wire::Signal;

use batch::{BatchRequest, CutBatch};
use lane::Lane;
use outbox::{Outbox, QueuedBlock};

/// The maximum of one signal's batches that are cut and not yet stored. Each is at most
/// `batch.maxRows` and one request; beyond it the signal's clients get a retryable answer.
const MAX_UNFINISHED: usize = 16;
/// The longest sleep of the timer thread while a batch is open or waits: a drain doesn't wake it.
const WAKE_INTERVAL: Duration = Duration::from_millis(100);

/// The parts that a direct publisher works with.
pub struct DirectParts {
    /// Stores the batches.
    pub sink: Arc<dyn Sink>,
    /// The process's budget for records in memory.
    pub budget: Budget,
    /// The process's metrics.
    pub telemetry: Arc<Telemetry>,
    /// Once it begins, batches are cut without delay.
    pub drain: Drain,
    /// The batches that may be filled at once per signal, at least 1: the number of publishing
    /// threads.
    pub shards: usize,
}

/// Publishes requests to ClickHouse. Its threads end when it is dropped.
pub struct DirectPublisher {
    shared: Arc<DirectInner>,
    threads: Vec<JoinHandle<()>>,
}

struct DirectInner {
    sink: Arc<dyn Sink>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    drain: Drain,
    limits: BatchLimits,
    acknowledge: AcknowledgeInsert,
    lanes: [Lane; 3],
    outbox: Outbox,
    refused: SyncSender<divide::RefusedBatch>,
    series: InsertSeries,
    /// Set by the last flush: nothing is accepted from then on.
    closed: AtomicBool,
}

/// Numbers this process's inserts, under a name that no other process has.
struct InsertSeries {
    name: Arc<str>,
    group: Arc<str>,
    started_millis: i64,
    next: AtomicI64,
}

impl DirectPublisher {
    /// Starts the threads that cut old batches and that separate bad requests from good ones.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn start(settings: &ClickHouseExporter, parts: DirectParts) -> io::Result<Self> {
        let DirectParts { sink, budget, telemetry, drain, shards } = parts;
        let (refused, jobs) = sync_channel(divide::MAX_JOBS);
        let shared = Arc::new(DirectInner {
            sink,
            budget,
            telemetry,
            drain,
            limits: (&settings.batch).into(),
            acknowledge: settings.acknowledge,
            lanes: Signal::ALL.map(|signal| Lane::new(signal, shards.max(1))),
            outbox: Outbox::default(),
            refused,
            series: InsertSeries::new(),
            closed: AtomicBool::new(false),
        });
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(body)
        };
        let clock = Arc::clone(&shared);
        let divider = Arc::clone(&shared);
        let mut this = Self { shared, threads: Vec::new() };
        this.threads.push(spawn("direct-clock", Box::new(move || clock.run_clock()))?);
        let work = move || divide::run_jobs(&divider, &jobs);
        this.threads.push(spawn("direct-divide", Box::new(work))?);
        Ok(this)
    }
}

impl RunningExporter for DirectPublisher {
    /// Cuts open batches and waits until all accepted requests are stored and answered.
    fn flush(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        self.shared.closed.store(true, Ordering::Release);
        for lane in &self.shared.lanes {
            lane.cut_all(&self.shared);
        }
        self.shared.outbox.wait_until_done(until)
    }

    /// It has no routes: only Kafka's topics can be routed to.
    fn route_publishers(self: Arc<Self>) -> Vec<Arc<dyn Publish>> {
        Vec::new()
    }
}

impl Publish for DirectPublisher {
    fn publish(&self, request: PublishRequest<'_>) -> Result<PendingDelivery, PublishError> {
        let shared = &self.shared;
        if shared.closed.load(Ordering::Acquire) {
            return Err(PublishError::Draining);
        }
        let late = shared.acknowledge == AcknowledgeInsert::AfterInsert;
        if late && !shared.sink.is_reachable() {
            return Err(PublishError::Unavailable("clickhouse cannot be reached now".to_owned()));
        }
        if request.bytes.is_empty() {
            // A request without records is already complete.
            return Ok(PendingDelivery::delivered(DeliveryReceipt::default()));
        }
        if shared.outbox.unfinished_count(request.signal) >= MAX_UNFINISHED {
            return Err(PublishError::Full);
        }
        shared.lanes[request.signal.index()].add_request(request, shared)
    }

    fn accepts_signal(&self, _: Signal) -> bool {
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

impl DirectInner {
    /// Runs the timer thread: it cuts batches that are old enough and passes them to the sink.
    fn run_clock(self: &Arc<Self>) {
        let mut due = None;
        while self.outbox.wait_for_work(due) {
            let now = Instant::now();
            let hurry = self.drain.is_begun() || self.closed.load(Ordering::Acquire);
            let max_age = if hurry { Duration::ZERO } else { self.limits.max_age };
            let aged = self.lanes.iter().filter_map(|lane| lane.cut_aged(now, max_age, self));
            let open = aged.min();
            let waiting = self.outbox.submit_waiting(self.sink.as_ref());
            let next_check = (open.is_some() || waiting).then(|| now + WAKE_INTERVAL);
            due = open.into_iter().chain(next_check).min();
        }
    }

    /// Passes on a cut batch's blocks.
    fn send_batch(self: &Arc<Self>, batch: Arc<CutBatch>, inserts: Vec<Insert>) {
        self.outbox.batch_opened(batch.signal);
        if inserts.is_empty() {
            self.complete_requests(&batch, &[]);
            return;
        }
        let parts = inserts.into_iter().zip(0..).map(|(insert, number)| {
            let block = (insert.block.table, insert.block.slice.day);
            let (this, owner) = (Arc::clone(self), Arc::clone(&batch));
            let completion = Completion::new(PartId(number), move |answer| {
                if owner.record_answer(block, answer.outcome) {
                    this.finish_batch(&owner);
                }
                this.outbox.wake();
            });
            QueuedBlock { batch: Arc::clone(&batch), insert, completion }
        });
        self.outbox.push(parts.collect());
    }

    /// Ends a batch of which all parts are answered.
    fn finish_batch(&self, batch: &Arc<CutBatch>) {
        let refused = match batch.take_refusals() {
            Some(refused) if refused.is_empty() => return self.complete_requests(batch, &[]),
            Some(refused) => refused,
            None => return self.abandon_batch(batch),
        };
        let job = divide::RefusedBatch { batch: Arc::clone(batch), refused };
        if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) =
            self.refused.try_send(job)
        {
            // Too many refused batches wait, so this one's clients send again.
            self.abandon_batch(&job.batch);
        }
    }

    /// Reacts to a full budget: frees cached memory and sends batches that are worth an insert.
    fn free_memory(self: &Arc<Self>) {
        for lane in &self.lanes {
            lane.free_memory(self);
        }
    }

    /// Answers all requests after everything that can be stored is stored; `bad` names the others.
    /// It counts first: an answered client may read the metrics at once.
    fn complete_requests(&self, batch: &CutBatch, bad: &[usize]) {
        let rejected_of =
            |index, held: &BatchRequest| if bad.contains(&index) { held.records } else { 0 };
        let requests = batch.take_requests();
        let rejected = requests.iter().enumerate().map(|(index, held)| rejected_of(index, held));
        let rejected: u64 = rejected.sum();
        if rejected > 0 {
            self.telemetry.record_refused(batch.signal, RefusalReason::Malformed, rejected);
        }
        self.telemetry.records_out(batch.signal, batch.records - rejected);
        self.telemetry.add_buffered(batch.signal, -(batch.records as i64));
        for (index, held) in requests.into_iter().enumerate() {
            let rejected_records = rejected_of(index, &held);
            if let Some(sender) = held.sender {
                sender.finish_with(Ok(DeliveryReceipt::with_rejected(rejected_records)));
            }
        }
        self.outbox.batch_done(batch.signal);
    }

    /// Answers requests whose outcome is unknown and that nobody retries: clients send again.
    fn abandon_batch(&self, batch: &CutBatch) {
        self.telemetry.record_refused(batch.signal, RefusalReason::Unconfirmed, batch.records);
        self.telemetry.add_buffered(batch.signal, -(batch.records as i64));
        let mut lost = 0;
        for held in batch.take_requests() {
            match held.sender {
                Some(sender) => {
                    let why = "clickhouse did not confirm them".to_owned();
                    sender.finish_with(Err(PublishError::Unconfirmed(why)));
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
        self.outbox.batch_done(batch.signal);
    }
}

impl InsertSeries {
    fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            name: format!("{:016x}", random_seed()).into(),
            group: "direct".into(),
            started_millis: i64::try_from(now.as_millis()).unwrap_or(0),
            next: AtomicI64::new(0),
        }
    }

    /// Returns the origin of a batch of `requests` requests, from which its blocks' tokens are
    /// made, with as many unused numbers. The sink returns several requests that need too much of a
    /// server's memory, and retries a single one without end.
    fn next_origin(&self, signal: Signal, requests: usize) -> Option<BlockOrigin> {
        let count = i64::try_from(requests.max(1)).ok()?;
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        let numbers = first..first.checked_add(count)?;
        BlockOrigin::of_counted(signal, &self.group, &self.name, numbers, self.started_millis)
    }
}
