//! The thread that owns the disk: it writes and syncs incoming records together, and runs the
//! sender between two such batches.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millrace_buffer::{AppendError, Disk};
use millrace_pipeline::mutex::lock;
use millrace_pipeline::publish::PublishError;
use millrace_pipeline::readiness::{Readiness, ReadinessPart};
use millrace_pipeline::telemetry::{RefusalReason, Telemetry};

use super::buffers::DiskBuffers;
use super::job::WriteJob;
use crate::publisher::KafkaPublisher;

/// The maximum number of requests that share a sync: all that can wait.
const BATCH: usize = super::QUEUE_LENGTH;
/// How long to wait for requests while the sender has requests in flight.
const BUSY: Duration = Duration::from_millis(5);
/// How long to wait while it has none.
const IDLE: Duration = Duration::from_millis(100);
/// How long before its client's deadline a request that still waits for Kafka is written to disk:
/// two rounds of housekeeping, so that one is in time.
const WRITE_AHEAD: Duration = Duration::from_secs(2);
/// How often metrics and readiness are updated, messages that wait for Kafka are searched, and
/// acknowledgements synced.
const HOUSEKEEPING: Duration = Duration::from_secs(1);

/// Requests the thread to begin nothing new; the thread reports when nothing is in flight.
#[derive(Default)]
pub(super) struct WriterStop {
    is_requested: AtomicBool,
    state: Mutex<StopState>,
    changed: Condvar,
}

#[derive(Default)]
struct StopState {
    /// No request is on disk.
    is_empty: bool,
    /// All requests in flight are acknowledged on disk.
    is_quiet: bool,
}

impl WriterStop {
    pub(super) fn request_stop(&self) {
        self.is_requested.store(true, Ordering::Release);
    }

    pub(super) fn is_requested(&self) -> bool {
        self.is_requested.load(Ordering::Acquire)
    }

    /// Waits until no request is on disk, at most for `time`. Returns whether that is so.
    pub(super) fn wait_empty(&self, time: Duration) -> bool {
        self.wait_until(time, |state| state.is_empty)
    }

    fn set_empty(&self, is_empty: bool) {
        self.change(|state| state.is_empty = is_empty);
    }

    /// Waits until requests in flight are acknowledged on disk, at most for `time`.
    pub(super) fn wait_quiet(&self, time: Duration) {
        // A late end does no harm: unacknowledged requests are sent once more.
        self.wait_until(time, |state| state.is_quiet);
    }

    fn wait_until(&self, time: Duration, is_so: impl Fn(&StopState) -> bool) -> bool {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, time, |state| !is_so(state));
        is_so(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    fn change(&self, change: impl FnOnce(&mut StopState)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }
}

/// Owns the queues.
pub(super) struct DiskWriter<D> {
    kafka: Arc<KafkaPublisher>,
    buffers: DiskBuffers<D>,
    telemetry: Arc<Telemetry>,
    part: ReadinessPart,
    /// The readiness of the publisher to Kafka.
    behind: Readiness,
    /// Why the last request was not accepted, if it wasn't.
    trouble: Option<String>,
    /// Whether Kafka was reached, or the disk had records for it: the settings are correct.
    proven: bool,
    next_housekeeping: Instant,
}

impl<D: Disk> DiskWriter<D> {
    pub(super) fn new(
        kafka: Arc<KafkaPublisher>,
        buffers: DiskBuffers<D>,
        telemetry: Arc<Telemetry>,
        part: ReadinessPart,
        behind: Readiness,
    ) -> Self {
        Self {
            proven: buffers.stats().records > 0,
            kafka,
            buffers,
            telemetry,
            part,
            behind,
            trouble: None,
            next_housekeeping: Instant::now(),
        }
    }

    /// Runs until all senders of jobs are dropped.
    pub(super) fn run(mut self, waiting: &Receiver<WriteJob>, stop: &WriterStop) {
        loop {
            let stopping = stop.is_requested();
            let wait = if self.buffers.is_busy() { BUSY } else { IDLE };
            match waiting.recv_timeout(wait) {
                Ok(job) => {
                    self.write_jobs(
                        std::iter::once(job).chain(waiting.try_iter().take(BATCH)),
                        stop,
                    );
                }
                // All senders of jobs are dropped; requests in flight stay on disk.
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Err(error) = self.buffers.step_senders(!stopping) {
                self.disk_failed(&error);
            }
            if self.next_housekeeping <= Instant::now() {
                self.run_housekeeping(stop);
            }
            stop.set_empty(self.buffers.stats().records == 0 && !self.buffers.is_busy());
            if stopping && !self.buffers.is_busy() {
                self.sync_acks();
                stop.change(|state| state.is_quiet = true);
            }
        }
        if let Err(error) = self.buffers.collect_results().and_then(|()| self.buffers.sync_queues())
        {
            self.disk_failed(&error);
        }
    }

    /// Writes requests, syncs once, and answers.
    fn write_jobs(&mut self, jobs: impl Iterator<Item = WriteJob>, stop: &WriterStop) {
        // Report this before any client is answered, which may then check whether all is sent.
        stop.set_empty(false);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at_millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let mut written = Vec::new();
        for job in jobs {
            if !job.begin_write() {
                self.telemetry.record_refused(
                    job.topic.signal,
                    RefusalReason::Timeout,
                    job.record_count(),
                );
                continue;
            }
            match self.write(&job, at_millis) {
                Ok(()) => written.push(job),
                Err(refused) => self.refuse_job(job, refused),
            }
        }
        match self.buffers.sync_queues() {
            Ok(()) => {
                for job in written {
                    job.finish_with(Ok(()));
                }
            }
            Err(error) => {
                self.disk_failed(&error);
                for job in written {
                    // The sender may still read it: then the records arrived twice.
                    self.telemetry.records_in(job.topic.signal, job.record_count());
                    let why = format!("the buffer's disk failed: {error}");
                    self.refuse_job(job, PublishError::Unconfirmed(why));
                }
            }
        }
    }

    /// Writes messages that wait for Kafka and won't be sent before their clients' deadlines.
    fn write_waiting(&mut self, stop: &WriterStop) {
        let soon = Instant::now() + WRITE_AHEAD;
        let jobs = self.buffers.topics().flat_map(|topic| {
            let messages = self.kafka.take_waiting(topic, soon).into_iter();
            messages.map(move |message| WriteJob::of_message(topic, message))
        });
        let jobs: Vec<WriteJob> = jobs.collect();
        if jobs.is_empty() {
            return;
        }
        tracing::info!(
            messages = jobs.len(),
            "writing messages that waited for Kafka to the buffer on disk"
        );
        let mut jobs = jobs.into_iter().peekable();
        while jobs.peek().is_some() {
            self.write_jobs(jobs.by_ref().take(BATCH), stop);
        }
    }

    fn write(&mut self, job: &WriteJob, at_millis: u64) -> Result<(), PublishError> {
        let mut stored = 0;
        for (bytes, records) in &job.pieces {
            let count = u32::try_from(*records).unwrap_or(u32::MAX);
            match self.buffers.append_request(job.topic, bytes, at_millis, count) {
                Ok(_) => {
                    stored += records;
                    self.telemetry.add_buffered(job.topic.signal, *records as i64);
                }
                Err(error) => {
                    // The pieces before it are still sent, and arrive again with the retry.
                    self.telemetry.records_in(job.topic.signal, stored);
                    let refused = self.not_written(error);
                    return Err(match stored {
                        0 => refused,
                        _ => PublishError::Unconfirmed(refused.to_string()),
                    });
                }
            }
        }
        self.end_trouble();
        Ok(())
    }

    fn not_written(&mut self, error: AppendError) -> PublishError {
        match error {
            AppendError::Full { .. } => {
                self.report_trouble(error.to_string());
                PublishError::Full
            }
            AppendError::TooLong { .. } => PublishError::Unavailable(error.to_string()),
            AppendError::Disk(error) => {
                self.disk_failed(&error);
                PublishError::Unavailable(format!("the buffer's disk failed: {error}"))
            }
        }
    }

    fn refuse_job(&mut self, job: WriteJob, refused: PublishError) {
        let refusal = match refused {
            PublishError::Full => RefusalReason::Full,
            PublishError::Unconfirmed(_) => RefusalReason::Unconfirmed,
            _ => RefusalReason::Unavailable,
        };
        self.telemetry.record_refused(job.topic.signal, refusal, job.record_count());
        job.finish_with(Err(refused));
    }

    fn disk_failed(&mut self, error: &io::Error) {
        self.report_trouble(format!("the buffer's disk failed: {error}"));
    }

    fn end_trouble(&mut self) {
        if self.trouble.take().is_some() {
            tracing::info!("the buffer on disk accepts records again");
        }
    }

    fn report_trouble(&mut self, trouble: String) {
        if self.trouble.as_ref() != Some(&trouble) {
            tracing::warn!(trouble, "the buffer on disk has a problem");
        }
        self.trouble = Some(trouble);
    }

    fn run_housekeeping(&mut self, stop: &WriterStop) {
        self.next_housekeeping = Instant::now() + HOUSEKEEPING;
        self.write_waiting(stop);
        self.sync_acks();
        self.buffers.report_damaged(&self.telemetry);
        let oldest = self.buffers.oldest_millis();
        let age = oldest.and_then(|millis| {
            let then = UNIX_EPOCH.checked_add(Duration::from_millis(millis))?;
            SystemTime::now().duration_since(then).ok()
        });
        let stats = self.buffers.stats();
        let age = age.unwrap_or_default();
        self.telemetry.disk_buffer(stats.file_bytes, stats.count, age);
        self.telemetry.disk_buffer_set_aside(self.buffers.aside_records());
        self.update_readiness();
    }

    fn sync_acks(&mut self) {
        if !self.buffers.is_dirty() {
            return;
        }
        match self.buffers.sync_queues() {
            // Records were sent, so there is space again. Otherwise an edge that isn't ready for a
            // full buffer would stay so through the next outage, and get no request to write.
            Ok(()) => self.end_trouble(),
            Err(error) => self.disk_failed(&error),
        }
    }

    /// Reports ready while records can go to Kafka or to the disk. Before Kafka was ever reached
    /// that requires records on disk, so that invalid settings aren't mistaken for an outage.
    fn update_readiness(&mut self) {
        let mut notes = self.behind.warnings();
        notes.extend(self.buffers.warnings());
        self.part.set_warning((!notes.is_empty()).then(|| notes.join("; ")));
        let reasons = self.behind.reasons();
        if reasons.is_empty() {
            self.proven = true;
            self.part.set_ready();
        } else if let Some(trouble) = &self.trouble {
            self.part.set_not_ready(format!("{}; {trouble}", reasons.join("; ")));
        } else if self.proven {
            self.part.set_ready();
        } else {
            self.part.set_not_ready(reasons.join("; "));
        }
    }
}

#[cfg(test)]
mod tests;
