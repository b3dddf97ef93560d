//! The thread that owns the disk: it writes and syncs incoming records together, and runs the
//! sender between two such batches.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_buffer::{AppendError, Disk, Queue};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::publish::{Delivered, DeliverySender, Refused};
use millrace_pipeline::readiness::{Part, Readiness};
use millrace_pipeline::telemetry::{Refusal, Telemetry};
use millrace_wire::Signal;

use super::sender::Sender;

/// Requests that share a sync: all that can wait.
const BATCH: usize = super::QUEUE_LENGTH;
/// How long to wait for requests while the sender has something under way.
const BUSY: Duration = Duration::from_millis(5);
/// And while it hasn't.
const IDLE: Duration = Duration::from_millis(100);
/// How often metrics and readiness are looked after, and acknowledgements synced.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// A request for the disk.
pub(super) struct Job {
    pub(super) signal: Signal,
    /// Requests of a message's length at most, and their records.
    pub(super) pieces: Vec<(Vec<u8>, u64)>,
    pub(super) result: Delivered,
    pub(super) answer: DeliverySender,
    /// Held until the bytes are on disk.
    pub(super) reservation: Reservation,
}

impl Job {
    /// First the room, then the answer: who is answered may send again at once.
    fn finish(self, result: Result<(), Refused>) {
        let Self { result: delivered, answer, reservation, .. } = self;
        drop(reservation);
        answer.finish(result.map(|()| delivered));
    }
}

/// Asks the thread to begin nothing new; the thread reports when nothing is under way.
#[derive(Default)]
pub(super) struct Stop {
    asked: AtomicBool,
    empty: Mutex<bool>,
    emptied: Condvar,
    quiet: Mutex<bool>,
    wake: Condvar,
}

impl Stop {
    pub(super) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Waits until nothing is on disk any more, at most for `time`. True when it is so.
    pub(super) fn wait_empty(&self, time: Duration) -> bool {
        let empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.emptied.wait_timeout_while(empty, time, |empty| !*empty);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn say_empty(&self, empty: bool) {
        *self.empty.lock().unwrap_or_else(PoisonError::into_inner) = empty;
        self.emptied.notify_all();
    }

    /// Waits until what was under way is acknowledged on disk, at most for `time`.
    pub(super) fn wait(&self, time: Duration) {
        let quiet = self.quiet.lock().unwrap_or_else(PoisonError::into_inner);
        // Late or not: what isn't acknowledged is sent once more, which is all there is to it.
        drop(self.wake.wait_timeout_while(quiet, time, |quiet| !*quiet));
    }

    fn say_quiet(&self) {
        *self.quiet.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_all();
    }
}

/// Owns the queue.
pub(super) struct Keeper<D> {
    queue: Queue<D>,
    sender: Sender,
    telemetry: Arc<Telemetry>,
    part: Part,
    /// The readiness of the way to Kafka.
    behind: Readiness,
    /// Why the last request was not taken, if it wasn't.
    trouble: Option<String>,
    /// Kafka was reached, or there was something to be kept for it: the settings are right.
    proven: bool,
    unsynced_acks: bool,
    next_housekeeping: Instant,
}

impl<D: Disk> Keeper<D> {
    pub(super) fn new(
        queue: Queue<D>,
        sender: Sender,
        telemetry: Arc<Telemetry>,
        part: Part,
        behind: Readiness,
        held: [(Signal, u64); 3],
    ) -> Self {
        let stats = queue.stats();
        held.into_iter().for_each(|(signal, records)| telemetry.buffered(signal, records as i64));
        Self {
            queue,
            sender,
            telemetry,
            part,
            behind,
            trouble: None,
            proven: stats.records > 0,
            unsynced_acks: false,
            next_housekeeping: Instant::now(),
        }
    }

    /// Runs until nobody can send a job any more.
    pub(super) fn run(mut self, waiting: &Receiver<Job>, stop: &Stop) {
        loop {
            let stopping = stop.is_asked();
            let wait = if self.sender.is_busy() { BUSY } else { IDLE };
            match waiting.recv_timeout(wait) {
                Ok(job) => {
                    // Before anybody is answered, who may then ask whether all is sent.
                    stop.say_empty(false);
                    self.keep(job, waiting);
                }
                // Nobody can send a job any more; what is under way stays on disk.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            match self.sender.step(&mut self.queue, !stopping) {
                Ok(acknowledged) => self.unsynced_acks |= acknowledged,
                Err(error) => self.disk_failed(&error),
            }
            if self.next_housekeeping <= Instant::now() {
                self.housekeeping();
            }
            stop.say_empty(self.queue.stats().records == 0 && !self.sender.is_busy());
            if stopping && !self.sender.is_busy() {
                self.sync_acks();
                stop.say_quiet();
            }
        }
        if let Err(error) = self.sender.settle(&mut self.queue).and_then(|_| self.queue.sync()) {
            self.disk_failed(&error);
        }
    }

    /// Writes a request and all that wait behind it, syncs once, and answers.
    fn keep(&mut self, first: Job, waiting: &Receiver<Job>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut written = Vec::new();
        for job in std::iter::once(first).chain(waiting.try_iter().take(BATCH)) {
            match self.write(&job, at_millis) {
                Ok(()) => written.push(job),
                Err(refused) => self.refuse(job, refused),
            }
        }
        match self.queue.sync() {
            Ok(()) => {
                self.unsynced_acks = false;
                for job in written {
                    job.finish(Ok(()));
                }
            }
            Err(error) => {
                self.disk_failed(&error);
                for job in written {
                    // It may be given out all the same: then it came twice.
                    let records = job.pieces.iter().map(|(_, records)| records).sum();
                    self.telemetry.records_in(job.signal, records);
                    let why = format!("the buffer's disk failed: {error}");
                    self.refuse(job, Refused::Unavailable(why));
                }
            }
        }
    }

    fn write(&mut self, job: &Job, at_millis: u64) -> Result<(), Refused> {
        let mut kept = 0;
        for (bytes, records) in &job.pieces {
            let count = u32::try_from(*records).unwrap_or(u32::MAX);
            let tag = job.signal.index() as u8;
            match self.queue.append(bytes, at_millis, count, tag) {
                Ok(_) => {
                    kept += records;
                    self.telemetry.buffered(job.signal, *records as i64);
                }
                Err(error) => {
                    // The pieces before it are given out all the same, and come again.
                    self.telemetry.records_in(job.signal, kept);
                    return Err(self.not_written(error));
                }
            }
        }
        if self.trouble.take().is_some() {
            tracing::info!("the buffer takes records again");
        }
        Ok(())
    }

    fn not_written(&mut self, error: AppendError) -> Refused {
        match error {
            AppendError::Full { .. } => {
                self.say(error.to_string());
                Refused::Full
            }
            AppendError::TooLong { .. } => Refused::Unavailable(error.to_string()),
            AppendError::Disk(error) => {
                self.disk_failed(&error);
                Refused::Unavailable(format!("the buffer's disk failed: {error}"))
            }
        }
    }

    fn refuse(&mut self, job: Job, refused: Refused) {
        let records = job.pieces.iter().map(|(_, records)| records).sum();
        let refusal = match refused {
            Refused::Full => Refusal::Full,
            _ => Refusal::Unavailable,
        };
        self.telemetry.refused(job.signal, refusal, records);
        job.finish(Err(refused));
    }

    fn disk_failed(&mut self, error: &io::Error) {
        self.say(format!("the buffer's disk failed: {error}"));
    }

    fn say(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(trouble, "the buffer is in trouble");
        }
        self.trouble = Some(trouble);
    }

    fn housekeeping(&mut self) {
        self.next_housekeeping = Instant::now() + HOUSEKEEPING;
        self.sync_acks();
        let oldest = self.queue.oldest_millis().ok().flatten();
        let age = oldest.and_then(|millis| {
            let then = UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
            SystemTime::now().duration_since(then).ok()
        });
        let stats = self.queue.stats();
        let age = age.unwrap_or_default();
        self.telemetry.disk_buffer(stats.file_bytes, stats.count, age);
        self.look_after_readiness();
    }

    fn sync_acks(&mut self) {
        if std::mem::take(&mut self.unsynced_acks)
            && let Err(error) = self.queue.sync()
        {
            self.disk_failed(&error);
        }
    }

    /// Ready while records can go somewhere: to Kafka, or to the disk. Before Kafka was ever
    /// reached that is only so if there is something on disk, so that wrong settings don't pass for
    /// an outage.
    fn look_after_readiness(&mut self) {
        let reasons = self.behind.reasons();
        if reasons.is_empty() {
            self.proven = true;
            self.part.ready();
        } else if let Some(trouble) = &self.trouble {
            self.part.not_ready(format!("{}; {trouble}", reasons.join("; ")));
        } else if self.proven {
            self.part.ready();
        } else {
            self.part.not_ready(reasons.join("; "));
        }
    }
}
