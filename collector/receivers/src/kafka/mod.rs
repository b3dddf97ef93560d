//! Kafka as a source: partitions in, batches out, offsets committed once they are stored.
//!
//! Each worker is an OS thread with its own consumer, encoders and ledger; nothing is shared
//! between workers on the way of a record. A message is appended to its partition's encoder
//! straight from librdkafka's buffer. When a batch is full or old enough it is cut into blocks,
//! which a [`Sink`](millrace_pipeline::sink::Sink) stores; its answers move the ledger, and only
//! the ledger's commit point is ever committed.
//!
//! Too much memory in use, or too many inserts in flight, and the worker stops reading, then pauses
//! its partitions: lag grows, memory doesn't. A message that can't be read, or whose rows are
//! refused, goes to the dead-letter topic with its reason; its neighbours go on.
//!
//! Wiring: [`SourceSettings::new`], then [`KafkaSource::start`] with [`SourceParts`]; begin the
//! [`Drain`] to end it and [`KafkaSource::join`] to wait for that.
//!
//! This module doesn't know ClickHouse, SQL, or how a table looks.

mod apart;
mod asker;
mod committer;
mod context;
mod dead_letter;
mod deleted;
mod finish;
mod flight;
mod gaps;
mod group;
mod headers;
mod intake;
mod jobs;
mod lag;
mod member;
mod metadata;
mod partition;
mod parts;
mod remade;
mod salvage;
mod session;
mod settings;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]
#[path = "../../tests/simulation/mod.rs"]
mod simulation;
mod spares;
mod status;
mod topics;
mod turn;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::budget::{Budget, Reservation};
use millrace_pipeline::drain::Drain;
use millrace_pipeline::readiness::Readiness;
use millrace_pipeline::sink::{DeadLetters, Sink};
use millrace_pipeline::telemetry::Telemetry;

use asker::Asker;
use finish::Finish;
pub use finish::{LeftBehind, Why};
pub use headers::{RawHeader, headers};
use jobs::Jobs;
use lag::LagBoard;
use member::KafkaMember;
pub use metadata::{Committed, committed};
use session::Session;
pub use settings::{Delivery, SourceSettings, SourceTopic};
use status::Status;
use turn::Ended;

/// Delay between consumers that failed for good: wrong settings don't change in milliseconds.
const RESTART_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_secs(1), longest: Duration::from_secs(60) };
/// The part of the budget that all workers together may fetch ahead: the rest is for batches, which
/// are worth more the larger they are.
const FETCH_SHARE: u64 = 4;
/// The least a worker's client needs: half of it queued, and one answer of an eighth as sent that
/// unpacks to about five times that while it is taken apart.
const MIN_FETCH_QUEUE_BYTES: u64 = 4 << 20;
/// Interval of a waiting worker's checks whether the process ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The parts that a source uses.
pub struct SourceParts {
    /// Where batches go.
    pub sink: Arc<dyn Sink>,
    /// Where messages go that can't be stored.
    pub dead_letters: Arc<dyn DeadLetters>,
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
    /// The memory budget has no room for what the workers fetch ahead.
    #[error(
        "{workers} workers fetching {fetch_queue_bytes} bytes ahead each don't fit into the memory \
         budget, of which {free_bytes} bytes are free: lower `workers` or `fetchQueueBytes`, or \
         give the process more memory"
    )]
    Budget {
        /// Workers asked for.
        workers: u16,
        /// Bytes each may fetch ahead.
        fetch_queue_bytes: u64,
        /// What the budget has.
        free_bytes: u64,
    },
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// What all workers share: read-only, or written once in a while.
struct Shared {
    settings: SourceSettings,
    sink: Arc<dyn Sink>,
    dead_letters: Arc<dyn DeadLetters>,
    budget: Budget,
    telemetry: Arc<Telemetry>,
    drain: Drain,
    status: Status,
    asker: Asker,
    finish: Finish,
    lag: LagBoard,
    salvage: Jobs,
}

/// What a source leaves behind, for a caller that can't wait for its end: a worker reports it
/// before it closes its consumer, which may take longer than the deadline allows.
pub struct LastWords(Arc<Shared>);

impl LastWords {
    /// What isn't known to be stored and committed, by topic and partition, of workers that ended.
    #[must_use]
    pub fn left(&self) -> Vec<LeftBehind> {
        self.0.finish.left()
    }
}

/// A running source.
pub struct KafkaSource {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// What the workers' clients may have fetched ahead.
    _fetch_queues: Reservation,
}

impl KafkaSource {
    /// Starts the workers. They connect, join and read on their own from here on; trouble with
    /// Kafka shows in readiness, metrics and logs, and is retried.
    ///
    /// # Errors
    /// When the budget is too small for the workers, or no thread can be had.
    pub fn start(settings: SourceSettings, parts: SourceParts) -> Result<Self, StartError> {
        let SourceParts { sink, dead_letters, budget, telemetry, readiness, drain } = parts;
        let mut settings = settings;
        let workers = settings.workers;
        let share = budget.limit_bytes() / FETCH_SHARE / u64::from(workers).max(1);
        let least = MIN_FETCH_QUEUE_BYTES.min(settings.fetch_queue_bytes);
        settings.fetch_queue_bytes = settings.fetch_queue_bytes.min(share).max(least);
        let fetch_queue_bytes = settings.fetch_queue_bytes;
        let fetch_queues = budget.try_reserve(fetch_queue_bytes * u64::from(workers));
        let fetch_queues = fetch_queues.ok_or_else(|| StartError::Budget {
            workers,
            fetch_queue_bytes,
            free_bytes: budget.free_bytes(),
        })?;
        let shared = Arc::new(Shared {
            settings,
            sink,
            dead_letters,
            budget,
            telemetry,
            drain,
            status: Status::new(readiness.part("kafka source"), workers),
            asker: Asker::default(),
            finish: Finish::new(workers),
            lag: LagBoard::default(),
            salvage: Jobs::default(),
        });
        let mut threads = Vec::new();
        for worker in 0..workers {
            let shared = Arc::clone(&shared);
            threads.push(spawn(format!("kafka-{worker}"), move || run(&shared, worker))?);
        }
        let measuring = Arc::clone(&shared);
        threads.push(spawn("kafka-lag".to_owned(), move || lag::measure(&measuring))?);
        for thread in 0..jobs::THREADS {
            let shared = Arc::clone(&shared);
            let work = move || salvage::work(&shared);
            threads.push(spawn(format!("kafka-salvage-{thread}"), work)?);
        }
        Ok(Self { threads, shared, _fetch_queues: fetch_queues })
    }

    /// What to ask for what isn't safe while somebody waits in [`KafkaSource::join`].
    #[must_use]
    pub fn last_words(&self) -> LastWords {
        LastWords(Arc::clone(&self.shared))
    }

    /// Waits until every worker has ended, which they do once the drain has begun. What isn't
    /// known to be stored and committed, by topic and partition: nothing if all that was taken is
    /// safe.
    #[must_use = "it says whether everything is safe"]
    pub fn join(self) -> Vec<LeftBehind> {
        for thread in
            self.threads.into_iter().chain(std::iter::from_fn(|| self.shared.salvage.relief()))
        {
            let name = thread.thread().name().unwrap_or("?").to_owned();
            if thread.join().is_err() {
                tracing::error!(thread = name, "a thread of the kafka source panicked");
            }
        }
        self.shared.finish.left()
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(body)
}

/// A worker's life. Whatever ended it, the others needn't wait for it any more.
fn run(shared: &Arc<Shared>, worker: u16) {
    keep_running(shared, worker);
    shared.finish.done(worker);
}

/// A session, and after a fatal error another one.
fn keep_running(shared: &Arc<Shared>, worker: u16) {
    let mut backoff = Backoff::new(RESTART_BACKOFF, u64::from(worker));
    while !shared.drain.is_begun() {
        let error = match Session::new(Arc::clone(shared), worker).map(Session::<KafkaMember>::run)
        {
            Ok(Ended::Drained) => return,
            Ok(Ended::Fatal(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let wait = backoff.next_wait();
        tracing::error!(worker, error, ?wait, "consumer failed, making another");
        shared.status.trouble(worker, error);
        let until = Instant::now() + wait;
        while Instant::now() < until && !shared.drain.is_begun() {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }
}
