//! Kafka as a source: partitions in, batches out, offsets committed once they are stored.
//!
//! Each worker is an OS thread with its own consumer, encoders and ledger; workers share nothing on
//! the path of a record. A message is appended to its partition's encoder directly from
//! librdkafka's buffer. When a batch is full or old enough it is cut into blocks, which a
//! [`Sink`](millrace_pipeline::sink::Sink) stores; its answers move the ledger, and only the
//! ledger's commit point is ever committed.
//!
//! With too much memory in use, or too many inserts in flight, the worker stops reading, then
//! pauses its partitions: lag grows, memory doesn't. A message that can't be read, or whose rows
//! are refused, goes to the dead-letter topic with its reason; its neighbours continue.
//!
//! Wiring: [`SourceSettings::new`], then [`KafkaSource::start`] with [`SourceParts`]; begin the
//! [`Drain`] to end it and [`KafkaSource::join`] to wait for that.
//!
//! This module doesn't know ClickHouse, SQL, or the tables' columns.

mod batches;
mod commits;
mod group;
mod lag;
mod settings;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]
#[path = "../tests/simulation/mod.rs"]
mod simulation;
mod topics;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::memory_shares::MemoryShares;
use millrace_pipeline::random_seed::random_seed;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{DeadLetterSink, Sink};
use millrace_pipeline::telemetry::Telemetry;

pub use batches::headers::read_headers;
pub use commits::committed_metadata::{CommittedOffset, read_committed};
use group::finish::WorkerDrain;
pub use group::finish::{UncommittedPartition, UncommittedReason};
use group::member::KafkaMember;
use group::session::GroupSession;
use group::session_loop::SessionEnd;
use group::status::SourceStatus;
use lag::LagTracker;
pub use settings::{DeliveryMode, SourceSettings, SourceTopic};
use topics::query_client::QueryClient;

/// The delay between consumers that failed permanently: invalid settings don't change in
/// milliseconds.
const RESTART_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// The interval of a waiting worker's checks whether the process ends.
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The parts that a source uses.
pub struct SourceParts {
    /// Stores the batches.
    pub sink: Arc<dyn Sink>,
    /// Stores messages that can't be inserted.
    pub dead_letters: Arc<dyn DeadLetterSink>,
    /// The process's budget for records in memory.
    pub budget: Budget,
    /// The process's metrics.
    pub telemetry: Arc<Telemetry>,
    /// Gets a part named `kafka source`: ready once every worker has joined its group.
    pub readiness: Readiness,
    /// Ends the source: it stops reading, finishes what is in flight, commits, and leaves.
    pub drain: Drain,
}

/// Why a source can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The memory budget doesn't hold what the workers fetch ahead.
    #[error(
        "{workers} workers fetching {fetch_queue_bytes} bytes ahead each don't fit into the memory \
         budget, of which {free_bytes} bytes are free: lower `workers` or `fetchQueueBytes`, or \
         give the process more memory"
    )]
    Budget {
        /// The configured workers.
        workers: u16,
        /// The bytes that each may fetch ahead.
        fetch_queue_bytes: u64,
        /// The budget's free bytes.
        free_bytes: u64,
    },
    /// The system started no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// The state that all workers share: read-only, or rarely written.
struct WorkerContext {
    settings: SourceSettings,
    sink: Arc<dyn Sink>,
    dead_letters: Arc<dyn DeadLetterSink>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    drain: Drain,
    status: SourceStatus,
    query_client: QueryClient,
    finish: WorkerDrain,
    lag: LagTracker,
}

/// Reports what a source leaves behind to a caller that can't wait for its end: a worker reports it
/// before it closes its consumer, which may take longer than the deadline allows.
pub struct UncommittedReport(Arc<WorkerContext>);

impl UncommittedReport {
    /// Returns what isn't known to be stored and committed, by topic and partition, of workers that
    /// ended.
    #[must_use]
    pub fn list_uncommitted(&self) -> Vec<UncommittedPartition> {
        self.0.finish.list_uncommitted()
    }
}

/// A running source.
pub struct KafkaSource {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<WorkerContext>,
    /// Reserves what the workers' clients may have fetched ahead.
    _fetch_queues: Reservation,
}

impl KafkaSource {
    /// Starts the workers. They connect, join and read from here on; Kafka failures appear in
    /// readiness, metrics and logs, and are retried.
    ///
    /// # Errors
    /// The budget is too small for the workers, or no thread can be started.
    pub fn start(settings: SourceSettings, parts: SourceParts) -> Result<Self, StartError> {
        let SourceParts { sink, dead_letters, budget, telemetry, readiness, drain } = parts;
        let mut settings = settings;
        let workers = settings.workers;
        let shares = MemoryShares::of_budget(budget.limit_bytes());
        let fetch_queue_bytes = shares.fetch_queue_bytes(workers, settings.fetch_queue_bytes);
        settings.fetch_queue_bytes = fetch_queue_bytes;
        let fetch_queues = budget.try_reserve(fetch_queue_bytes * u64::from(workers));
        let fetch_queues = fetch_queues.ok_or_else(|| StartError::Budget {
            workers,
            fetch_queue_bytes,
            free_bytes: budget.free_bytes(),
        })?;
        let shared = Arc::new(WorkerContext {
            settings,
            sink,
            dead_letters,
            budget,
            telemetry,
            drain,
            status: SourceStatus::new(readiness.add_part("kafka source"), workers),
            query_client: QueryClient::default(),
            finish: WorkerDrain::new(workers),
            lag: LagTracker::default(),
        });
        let mut threads = Vec::new();
        for worker in 0..workers {
            let shared = Arc::clone(&shared);
            threads.push(spawn_thread(format!("kafka-{worker}"), move || run(&shared, worker))?);
        }
        let measuring = Arc::clone(&shared);
        threads.push(spawn_thread("kafka-lag".to_owned(), move || lag::measure_lag(&measuring))?);
        Ok(Self { threads, shared, _fetch_queues: fetch_queues })
    }

    /// Returns a handle that reports what isn't safe while the caller waits in
    /// [`KafkaSource::join`].
    #[must_use]
    pub fn uncommitted_report(&self) -> UncommittedReport {
        UncommittedReport(Arc::clone(&self.shared))
    }

    /// Waits until every worker has ended, which they do once the drain has begun. Returns what
    /// isn't known to be stored and committed, by topic and partition: nothing if every accepted
    /// record is safe.
    #[must_use = "it reports whether all records are safe"]
    pub fn join(self) -> Vec<UncommittedPartition> {
        for thread in self.threads {
            let name = thread.thread().name().unwrap_or("?").to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a thread of the kafka source panicked");
            }
        }
        self.shared.finish.list_uncommitted()
    }
}

fn spawn_thread(
    name: String,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(body)
}

/// Runs a worker. Whatever ended it, the others needn't wait for it any more.
fn run(shared: &Arc<WorkerContext>, worker: u16) {
    run_sessions(shared, worker);
    shared.finish.mark_done(worker);
}

/// Runs a session, and after a fatal error another one.
fn run_sessions(shared: &Arc<WorkerContext>, worker: u16) {
    let mut backoff = Backoff::new(RESTART_BACKOFF, random_seed());
    while !shared.drain.is_begun() {
        let error = match GroupSession::new(Arc::clone(shared), worker)
            .map(GroupSession::<KafkaMember>::run)
        {
            Ok(SessionEnd::Drained) => return,
            Ok(SessionEnd::Frozen) => {
                tracing::warn!(worker, "the process was frozen; joining the group again");
                continue;
            }
            Ok(SessionEnd::Fatal(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let wait = backoff.next_wait();
        tracing::error!(worker, error, ?wait, "the consumer failed; creating another");
        shared.status.set_trouble(worker, error);
        let until = Instant::now() + wait;
        while Instant::now() < until && !shared.drain.is_begun() {
            std::thread::sleep(DRAIN_CHECK_INTERVAL);
        }
    }
}
