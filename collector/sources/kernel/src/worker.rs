//! The task: reads records, gathers them briefly, sends them until confirmed, and writes the
//! position.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::metrics::KernelMetrics;
use millrace_lines::{
    FileAttributes, KERNEL_RECORD_BYTES_MAX, KernelMoment, KernelRecord, KernelWriter,
    LogsRequest as Lines,
};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::random_seed::random_seed;
use millrace_tail::{KernelLog, RecordStatus};
use millrace_wire::Signal;
use millrace_wire::limits::WireLimits;
use millrace_wire::otlp::{self, RequestOutline};
use rustix::io::{Errno, read};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::device::{Log, zero_unix_nano};
use millrace_pipeline::clock::now_unix_nanos;
use millrace_pipeline::delivery_path::{DeliveryPath, SEND_BACKOFF};
use millrace_source_files::Positions;

/// A request's size: the log of most kernels is 256 KiB, and a kill repeats this much.
pub(super) const REQUEST_BYTES: usize = 256 * 1024;

/// The most by which the last record may exceed it: its bytes, each replaced by three, and
/// attributes.
pub(super) const SLACK_BYTES: usize = 4 * KERNEL_RECORD_BYTES_MAX;

/// The interval at which the log is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The interval while records arrive: a log of 256 KiB is overwritten unread from 13 MB a second
/// on.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

/// How long a record waits for others: a kernel writes related records faster, and five requests a
/// second, each with a position, cost little.
const GATHER: Duration = Duration::from_millis(200);

/// The waits before an unreadable log is opened again.
const OPEN_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(30) };

/// The most consecutive reads that report "overwritten" or "too long". Each skips to another
/// record, so a kernel reports a few at most: 1,000 are a fault of the device.
const PASSED_MAX: u32 = 1000;

#[derive(Debug)]
pub(super) struct KernelWorker {
    log: Log,
    opened: OwnedFd,
    reader: RecordReader,
    positions: Arc<Mutex<Positions>>,
    delivery: DeliveryPath,
    /// The memory of the request while it is filled and until it is confirmed.
    _reservation: Reservation,
    drain: Drain,
    sending: Backoff,
    opening: Backoff,
}

/// Reads records into requests.
#[derive(Debug)]
pub(super) struct RecordReader {
    state: KernelLog,
    source: FileAttributes,
    writer: KernelWriter,
    lines: Lines,
    buffer: Vec<u8>,
    metrics: KernelMetrics,
}

/// The result of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KernelRead {
    /// The request is full.
    Full,
    /// The log has no further record for now.
    Drained,
    /// The stored position doesn't belong to this log.
    Implausible,
}

impl KernelWorker {
    pub(super) fn new(
        (log, opened): (Log, OwnedFd),
        taker: RecordReader,
        positions: Positions,
        (delivery, reservation): (DeliveryPath, Reservation),
        drain: Drain,
    ) -> Self {
        Self {
            log,
            opened,
            reader: taker,
            positions: Arc::new(Mutex::new(positions)),
            delivery,
            _reservation: reservation,
            drain,
            sending: Backoff::new(SEND_BACKOFF, random_seed()),
            opening: Backoff::new(OPEN_BACKOFF, random_seed()),
        }
    }

    pub(super) async fn run(mut self) -> bool {
        let mut is_on_record = true;
        while !self.drain.is_begun() {
            self.gather_records().await;
            if self.reader.lines.is_empty() {
                continue;
            }
            if !self.deliver_records().await {
                return false;
            }
            self.reader.lines.clear();
            is_on_record = self.store_position().await;
        }
        is_on_record || self.store_position().await
    }

    /// Reads until a request is ready, or the drain begins.
    async fn gather_records(&mut self) {
        let drain = self.drain.clone();
        let mut due = None;
        loop {
            match self.reader.read_records(|buffer| read(&self.opened, buffer)) {
                Ok(KernelRead::Full) => return,
                Ok(KernelRead::Drained) => {}
                Ok(KernelRead::Implausible) => {
                    tracing::error!(
                        "the stored position is beyond the end of the kernel log, so it belongs to \
                         another log: reading from the oldest record; records already sent are \
                         sent again"
                    );
                    self.reopen_log().await;
                    continue;
                }
                Err(error) => {
                    tracing::error!(
                        %error,
                        "cannot read the kernel log: reopening it"
                    );
                    self.reopen_log().await;
                }
            }
            let mut wait = POLL_INTERVAL;
            if !self.reader.lines.is_empty() {
                let now = Instant::now();
                if *due.get_or_insert(now + GATHER) <= now {
                    return;
                }
                self.opening.reset();
                wait = BUSY_INTERVAL;
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = drain.wait_for_begin() => return,
            }
        }
    }

    /// Opens the log again, or waits for the drain.
    async fn reopen_log(&mut self) {
        loop {
            tokio::select! {
                () = sleep(self.opening.next_wait()) => {}
                () = self.drain.wait_for_begin() => return,
            }
            match self.log.open_log() {
                Ok(opened) => {
                    self.opened = opened;
                    return self.reader.state.handle_reopen();
                }
                Err(error) => tracing::error!(%error, "cannot open the kernel log: retrying"),
            }
        }
    }

    /// Sends the request until it is confirmed. Returns `false` if the drain's deadline came first.
    async fn deliver_records(&mut self) -> bool {
        let Some(checked) = self.check_request() else { return true };
        let bytes = self.reader.lines.bytes();
        loop {
            let sent =
                self.delivery.send_and_wait(Signal::Logs, bytes, &checked, &self.drain).await;
            let Ok(answer) = sent else { return false };
            let Err(refused) = answer else {
                self.sending.reset();
                return true;
            };
            if self.sending.tries() == 0 {
                tracing::warn!(
                    %refused,
                    "records of the kernel log are not accepted: reading pauses until they are"
                );
            }
            tokio::select! {
                () = sleep(self.sending.next_wait()) => {}
                () = self.drain.wait_for_deadline() => return false,
            }
        }
    }

    /// Checks the request. Logs an error and returns `None` if it is malformed: that would be a bug
    /// of ours, and sending it again would not help.
    fn check_request(&self) -> Option<RequestOutline> {
        let lines = &self.reader.lines;
        let checked = otlp::check_request(Signal::Logs, lines.bytes(), &WireLimits::default());
        let log_refusal = |error: &millrace_wire::WireError| {
            let records = lines.record_count();
            tracing::error!(%error, records, "a request built from the kernel log is malformed");
        };
        checked.inspect_err(log_refusal).ok()
    }

    /// Writes the position, before which all records are confirmed. Returns whether it was written.
    async fn store_position(&self) -> bool {
        let Some(position) = self.reader.state.position() else { return true };
        let positions = Arc::clone(&self.positions);
        let write = move || {
            let mut positions = positions.lock().unwrap_or_else(PoisonError::into_inner);
            positions.write(&position.to_document())
        };
        let written = spawn_blocking(write).await.unwrap_or_else(|ended| Err(ended.into()));
        let Err(error) = written else { return true };
        self.reader.metrics.positions_failed.inc();
        tracing::error!(
            %error,
            "cannot write the position in the kernel log: reading continues, but a restart would \
             resend records from the last written position"
        );
        false
    }
}

impl RecordReader {
    pub(super) fn new(state: KernelLog, source: FileAttributes, metrics: KernelMetrics) -> Self {
        Self {
            state,
            source,
            writer: KernelWriter::default(),
            lines: Lines::with_limit(REQUEST_BYTES),
            buffer: vec![0; KERNEL_RECORD_BYTES_MAX],
            metrics,
        }
    }

    /// Reads records, one with each `read`, until there are no more, or the request is full.
    fn read_records(
        &mut self,
        read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
    ) -> io::Result<KernelRead> {
        let mut lost_sum = 0;
        let read = self.read_counting_lost(read, &mut lost_sum);
        if lost_sum > 0 {
            self.metrics.lost.inc_by(lost_sum);
            tracing::warn!(
                lost = lost_sum,
                "the kernel overwrote records of its log before they were read"
            );
        }
        read
    }

    fn read_counting_lost(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
        lost_sum: &mut u64,
    ) -> io::Result<KernelRead> {
        let Self { state, source, writer, lines, buffer, metrics } = self;
        let boot_id = state.boot().to_owned();
        let moment = KernelMoment {
            boot_id: &boot_id,
            zero_unix_nano: zero_unix_nano(),
            now_unix_nano: now_unix_nanos(),
        };
        let mut records = lines.begin_records(source);
        let mut passed = 0;
        while !records.is_full() {
            let length = match read(&mut buffer[..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(Errno::AGAIN) if state.handle_end() => return Ok(KernelRead::Drained),
                Err(Errno::AGAIN) => return Ok(KernelRead::Implausible),
                Err(Errno::INTR) => continue,
                // Overwritten, or longer than the buffer. The next read returns another record,
                // whose number shows how many are missing.
                Err(Errno::PIPE | Errno::INVAL) if passed < PASSED_MAX => {
                    passed += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            passed = 0;
            let record = KernelRecord::read(&buffer[..length]);
            match record.sequence().map(|sequence| state.observe_record(sequence)) {
                Some(RecordStatus::Known) => continue,
                Some(RecordStatus::New { lost }) => *lost_sum += lost,
                None => {
                    state.observe_unnumbered();
                    metrics.unparsed.inc();
                }
            }
            metrics.records.inc();
            if !writer.write(&record, &moment, &mut records) {
                metrics.invalid_utf8.inc();
            }
        }
        Ok(KernelRead::Full)
    }
}

#[cfg(test)]
mod tests;
