//! The task: read, gather for a moment, send until confirmed, write the position.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millrace_lines::{
    KERNEL_RECORD_BYTES_MAX, KernelMoment, KernelRecord, KernelWriter, Request as Lines, Source,
};
use millrace_pipeline::backoff::{Backoff, BackoffPolicy};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::kernel_metrics::KernelMetrics;
use millrace_tail::{KernelLog, Met};
use millrace_wire::Signal;
use millrace_wire::limits::Limits;
use millrace_wire::otlp::{self, Checked};
use rustix::io::{Errno, read};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use super::device::{Log, zero_unix_nano};
use crate::clock::now_unix_nanos;
use crate::files::Positions;
use crate::way::{SEND_BACKOFF, Way};

/// A request's bytes: the log of most kernels is 256 KiB, and that much is sent again after a kill.
pub(super) const REQUEST_BYTES: usize = 256 * 1024;

/// By how much the last record may pass them: its bytes, each replaced by three, and attributes.
pub(super) const SLACK_BYTES: usize = 4 * KERNEL_RECORD_BYTES_MAX;

/// How often the log is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// The same while records come: a log of 256 KiB is overwritten unread from 13 MB a second on.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);

/// How long a record waits for others: a kernel writes what belongs together in less, and five
/// requests a second, with a position each, cost little.
const GATHER: Duration = Duration::from_millis(200);

/// How long until a log that can't be read is opened again.
const OPEN_BACKOFF: BackoffPolicy =
    BackoffPolicy { first: Duration::from_millis(100), longest: Duration::from_secs(30) };

/// Reads in a row that say "overwritten" or "too long". Each moves on to another record, so a
/// kernel gives a few at most: 1,000 are a fault of the device.
const PASSED_MAX: u32 = 1000;

#[derive(Debug)]
pub(super) struct Worker {
    log: Log,
    opened: OwnedFd,
    taker: Taker,
    positions: Arc<Mutex<Positions>>,
    way: Way,
    /// For the request that is filled and kept until it is confirmed.
    _kept: Reservation,
    drain: Drain,
    sending: Backoff,
    opening: Backoff,
}

/// Makes records of what it reads.
#[derive(Debug)]
pub(super) struct Taker {
    state: KernelLog,
    source: Source,
    writer: KernelWriter,
    lines: Lines,
    buffer: Vec<u8>,
    metrics: KernelMetrics,
}

/// What a read came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// The request is full.
    Full,
    /// There is nothing more for now.
    Drained,
    /// The position on record isn't of this log.
    Implausible,
}

impl Worker {
    pub(super) fn new(
        (log, opened): (Log, OwnedFd),
        taker: Taker,
        positions: Positions,
        (way, kept): (Way, Reservation),
        drain: Drain,
    ) -> Self {
        let seed = u64::from(std::process::id());
        Self {
            log,
            opened,
            taker,
            positions: Arc::new(Mutex::new(positions)),
            way,
            _kept: kept,
            drain,
            sending: Backoff::new(SEND_BACKOFF, seed),
            opening: Backoff::new(OPEN_BACKOFF, seed),
        }
    }

    pub(super) async fn run(mut self) -> bool {
        let mut is_on_record = true;
        while !self.drain.is_begun() {
            self.gather().await;
            if self.taker.lines.is_empty() {
                continue;
            }
            if !self.deliver().await {
                return false;
            }
            self.taker.lines.clear();
            is_on_record = self.keep_position().await;
        }
        is_on_record || self.keep_position().await
    }

    /// Reads until there is a request to send, or the drain begins.
    async fn gather(&mut self) {
        let drain = self.drain.clone();
        let mut due = None;
        loop {
            match self.taker.take(|buffer| read(&self.opened, buffer)) {
                Ok(Read::Full) => return,
                Ok(Read::Drained) => {}
                Ok(Read::Implausible) => {
                    tracing::error!(
                        "the position on record lies beyond the kernel's log, so it isn't of this \
                         log: all of the log is read; what was sent before is sent again"
                    );
                    self.open_again().await;
                    continue;
                }
                Err(error) => {
                    tracing::error!(
                        %error,
                        "the kernel's log can't be read: it is opened again and read on"
                    );
                    self.open_again().await;
                }
            }
            let mut wait = LOOK_INTERVAL;
            if !self.taker.lines.is_empty() {
                let now = Instant::now();
                if *due.get_or_insert(now + GATHER) <= now {
                    return;
                }
                self.opening.reset();
                wait = BUSY_INTERVAL;
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = drain.begun() => return,
            }
        }
    }

    /// Opens the log again, or waits for the drain.
    async fn open_again(&mut self) {
        loop {
            tokio::select! {
                () = sleep(self.opening.next_wait()) => {}
                () = self.drain.begun() => return,
            }
            match self.log.open() {
                Ok(opened) => {
                    self.opened = opened;
                    return self.taker.state.reopened();
                }
                Err(error) => tracing::error!(%error, "it is tried again"),
            }
        }
    }

    /// Sends what was read until it is confirmed. False if the drain's deadline came first.
    async fn deliver(&mut self) -> bool {
        let Some(checked) = self.check() else { return true };
        let bytes = self.taker.lines.bytes();
        loop {
            let sent = self.way.deliver(Signal::Logs, bytes, &checked, &self.drain).await;
            let Ok(answer) = sent else { return false };
            let Err(refused) = answer else {
                self.sending.reset();
                return true;
            };
            if self.sending.tries() == 0 {
                tracing::warn!(
                    %refused,
                    "records of the kernel's log are not taken: reading stops until they are"
                );
            }
            tokio::select! {
                () = sleep(self.sending.next_wait()) => {}
                () = self.drain.expired() => return false,
            }
        }
    }

    /// What the request comes to. None, with a word in the log, if it isn't well-formed: that would
    /// be a fault of ours, and sending it again would not help.
    fn check(&self) -> Option<Checked> {
        let lines = &self.taker.lines;
        let checked = otlp::check(Signal::Logs, lines.bytes(), &Limits::default());
        let say = |error: &millrace_wire::WireError| {
            let records = lines.count();
            tracing::error!(%error, records, "a request made of the kernel's log is malformed");
        };
        checked.inspect_err(say).ok()
    }

    /// Writes the position, all before which is confirmed. Whether it is written.
    async fn keep_position(&self) -> bool {
        let Some(position) = self.taker.state.position() else { return true };
        let positions = Arc::clone(&self.positions);
        let write = move || {
            let mut positions = positions.lock().unwrap_or_else(PoisonError::into_inner);
            positions.write(&position.document())
        };
        let written = spawn_blocking(write).await.unwrap_or_else(|ended| Err(ended.into()));
        let Err(error) = written else { return true };
        self.taker.metrics.positions_failed.inc();
        tracing::error!(
            %error,
            "the position in the kernel's log can't be written: reading goes on, and a restart \
             would read again from the one written last"
        );
        false
    }
}

impl Taker {
    pub(super) fn new(state: KernelLog, source: Source, metrics: KernelMetrics) -> Self {
        Self {
            state,
            source,
            writer: KernelWriter::default(),
            lines: Lines::with_limit(REQUEST_BYTES),
            buffer: vec![0; KERNEL_RECORD_BYTES_MAX],
            metrics,
        }
    }

    /// Takes records, one with each `read`, until there are no more, or the request is full.
    fn take(&mut self, read: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> io::Result<Read> {
        let mut lost_sum = 0;
        let read = self.take_counting(read, &mut lost_sum);
        if lost_sum > 0 {
            self.metrics.lost.inc_by(lost_sum);
            tracing::warn!(
                lost = lost_sum,
                "the kernel overwrote records of its log before they were read"
            );
        }
        read
    }

    fn take_counting(
        &mut self,
        mut read: impl FnMut(&mut [u8]) -> Result<usize, Errno>,
        lost_sum: &mut u64,
    ) -> io::Result<Read> {
        let Self { state, source, writer, lines, buffer, metrics } = self;
        let boot_id = state.boot().to_owned();
        let moment = KernelMoment {
            boot_id: &boot_id,
            zero_unix_nano: zero_unix_nano(),
            now_unix_nano: now_unix_nanos(),
        };
        let mut records = lines.records(source);
        let mut passed = 0;
        while !records.is_full() {
            let length = match read(&mut buffer[..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => length,
                Err(Errno::AGAIN) if state.drained() => return Ok(Read::Drained),
                Err(Errno::AGAIN) => return Ok(Read::Implausible),
                Err(Errno::INTR) => continue,
                // Overwritten; longer than the buffer. The next read is of another record, whose
                // number shows how many are missing.
                Err(Errno::PIPE | Errno::INVAL) if passed < PASSED_MAX => {
                    passed += 1;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            passed = 0;
            let record = KernelRecord::read(&buffer[..length]);
            match record.sequence().map(|sequence| state.met(sequence)) {
                Some(Met::Known) => continue,
                Some(Met::New { lost }) => *lost_sum += lost,
                None => {
                    state.met_unnumbered();
                    metrics.unparsed.inc();
                }
            }
            metrics.records.inc();
            if !writer.write(&record, &moment, &mut records) {
                metrics.invalid_utf8.inc();
            }
        }
        Ok(Read::Full)
    }
}

#[cfg(test)]
#[path = "../../tests/unit/kernel/worker.rs"]
mod tests;
