//! The worker thread: scans, reads files in fair order, sends requests, and records positions.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::metrics::FileMetrics;
use millrace_lines::{FlushReason, LineReader, ParseFault};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::pods::Namespaces;
use millrace_tail::{Action, FileCheck, FileId, FileTotals, ReadOutcome, Tail, TailEvent};
use rustix::time::{ClockId, clock_gettime};

use super::backlog::Backlog;
use super::find::finder::{Finder, FinderSettings};
use super::find::source::FileSource;
use super::find::walk::{identity_of, stamps_of};
use super::open::labels::FileLabels;
use super::open::pending_opens::{PendingOpen, PendingOpens};
use super::open::table::OpenFiles;
use super::open::{Buffer, OpenLogFile, SLICE_BYTES};
use super::outbox::Outbox;
use super::positions::Positions;

use millrace_pipeline::clock::now_unix_nanos;

/// How often events are read, which bounds their delay after a silence. 20 times a second cost
/// 0.0003 core.
pub(super) const EVENTS_INTERVAL: Duration = Duration::from_millis(50);

/// The shortest time between two scans of directories or of written files.
const SCAN_INTERVAL: Duration = Duration::from_millis(250);

/// The same if scans take long: a new pod's first line is read within a second.
const SCAN_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// The factor of the scan interval over a scan's duration: 1 in 50 is 0.02 core.
const SCAN_TIME_SHARE: u32 = 50;

/// How often positions are written at most: a kill repeats a second's lines and the requests in
/// flight.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);

/// The longest sleep, after which events are read and a drain is noticed.
const SLEEP_MAX: Duration = EVENTS_INTERVAL;

/// The maximum irrelevant files remembered between two walks: 1,024 of 100 bytes are 0.1 MB.
const STRANGERS_MAX: usize = 1024;

/// Wakes a sleeping thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Returns a waker of the current thread.
pub(super) fn thread_waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

pub(super) struct FilesWorker {
    pub(super) sources: Vec<FileSource>,
    pub(super) tail: Tail,
    positions: Positions,
    outbox: Outbox,
    pub(super) metrics: FileMetrics,
    backlog: Backlog,
    pub(super) labels: FileLabels,
    namespaces: Option<Arc<Namespaces>>,
    pub(super) finder: Finder,
    pub(super) table: OpenFiles,
    pub(super) opening: PendingOpens,
    pub(super) buffer: Buffer,
    scanned_at: Option<Instant>,
    scan_interval: Duration,
    /// When the directories were last walked.
    walked_at: Option<Instant>,
    listened_at: Option<Instant>,
    flushed_at: Option<Instant>,
    /// Whether a walk is needed only after an event.
    pub(super) is_quiescent: bool,
    /// Whether a walk is needed in any case.
    must_walk: bool,
    /// Whether positions may have changed since they were last stored.
    is_dirty: bool,
    /// Written files that no source reads, since the last walk.
    strangers: HashSet<PathBuf>,
    written_at: Instant,
    /// Returns the thread's processor time: in a simulation it is constant, so that the seed
    /// decides everything.
    pub(super) processor_time: fn() -> Duration,
}

impl FilesWorker {
    pub(super) fn new(
        (sources, finding): (Vec<FileSource>, FinderSettings),
        tail: Tail,
        positions: Positions,
        outbox: Outbox,
        metrics: FileMetrics,
        (buffer, held): (Buffer, Reservation),
        labels: FileLabels,
    ) -> Self {
        let now = Instant::now();
        Self {
            table: OpenFiles::new(&sources, held),
            opening: PendingOpens::new(now),
            sources,
            tail,
            positions,
            outbox,
            metrics,
            backlog: Backlog::default(),
            labels,
            namespaces: None,
            finder: Finder::new(finding),
            buffer,
            scanned_at: None,
            scan_interval: SCAN_INTERVAL,
            walked_at: None,
            listened_at: None,
            flushed_at: None,
            is_quiescent: false,
            must_walk: false,
            is_dirty: true,
            strangers: HashSet::new(),
            written_at: now,
            processor_time,
        }
    }

    /// Sets who knows the selected namespaces.
    pub(super) fn with_namespaces(self, namespaces: Option<Arc<Namespaces>>) -> Self {
        Self { namespaces, ..self }
    }

    /// Reads until the drain begins. Returns whether everything is then confirmed and recorded.
    pub(super) fn run(mut self, drain: &Drain) -> bool {
        while !drain.is_begun() {
            let now = Instant::now();
            self.poll_events(now);
            self.release_waiting(now);
            let read = self.read(now);
            let sent = self.send_requests(now, false);
            self.is_dirty |= read || sent || self.outbox.is_waiting();
            if self.is_dirty && now.duration_since(self.written_at) >= POSITIONS_INTERVAL {
                self.is_dirty = !self.store_positions(now);
            }
            if !read && !sent {
                thread::park_timeout(self.sleep_time(now));
            }
        }
        self.finish_drain(drain)
    }

    /// Reads events, and scans if one requires it or the interval has passed.
    fn poll_events(&mut self, now: Instant) {
        let is_over =
            |at: Option<Instant>, interval| at.is_none_or(|at| now.duration_since(at) >= interval);
        if !is_over(self.listened_at, EVENTS_INTERVAL) {
            return;
        }
        self.listened_at = Some(now);
        if !is_over(self.scanned_at, self.scan_interval) {
            self.finder.watch.read_events(now);
            return;
        }
        let has_scanned = self.scan_if_needed(now);
        if is_over(self.flushed_at, SCAN_INTERVAL) {
            self.flush_idle(now);
        }
        if !has_scanned {
            return;
        }
        let first = self.scanned_at.replace(now).is_none();
        let took = now.elapsed().saturating_mul(SCAN_TIME_SHARE);
        self.scan_interval = took.clamp(SCAN_INTERVAL, SCAN_INTERVAL_MAX);
        self.is_dirty = true;
        if first {
            // Files that exist at the first start are recorded before any of them is rotated.
            self.store_positions(now);
        }
    }

    /// Scans reported files, or all directories. Returns false if there was nothing to scan.
    pub(super) fn scan_if_needed(&mut self, now: Instant) -> bool {
        self.finder.watch.read_events(now);
        // Lines written before this scan are read with the metadata known then.
        self.refresh_metadata();
        self.is_quiescent = self.is_quiescent || self.tail.is_quiescent(self.opening.denied());
        if self.must_walk || !self.is_quiescent || self.finder.needs_walk(now) {
            self.walk_directories(now);
            return true;
        }
        let checked = self.check_files(now);
        if checked.is_none() {
            self.walk_directories(now);
        }
        checked.unwrap_or(true)
    }

    /// Checks single files. Returns whether there were any, or None if a walk is needed.
    fn check_files(&mut self, now: Instant) -> Option<bool> {
        let (written, unreported) = self.finder.files_to_check(now)?;
        let has_checked = !written.is_empty() || !unreported.is_empty();
        let written = written.into_iter().map(|path| (path, true));
        let mut needs_walk = false;
        for (path, is_reported) in written.chain(unreported.into_iter().map(|path| (path, false))) {
            needs_walk |= !self.check_file(path, is_reported);
        }
        (!needs_walk).then_some(has_checked)
    }

    /// Checks a single file. Returns false if a walk is needed.
    fn check_file(&mut self, path: PathBuf, is_reported: bool) -> bool {
        if self.sources.iter().any(|source| source.excludes_path(&path)) {
            return true;
        }
        let found = match fs::metadata(&path) {
            Ok(found) => found,
            // A walk couldn't read it either.
            Err(error) => return !is_reported && error.kind() != ErrorKind::NotFound,
        };
        if !found.is_file() || self.strangers.contains(&path) {
            return true;
        }
        let file = identity_of(&found);
        match self.tail.check_file(file, stamps_of(&found), is_reported) {
            FileCheck::Nothing => true,
            FileCheck::Read(file) => {
                self.table.queue_file(file, &self.sources);
                true
            }
            FileCheck::Scan => {
                let is_stranger = !self.sources.iter().any(|source| source.reads_file(&path))
                    && self.tail.is_stranger(file, &path);
                if is_stranger && self.strangers.len() < STRANGERS_MAX {
                    self.strangers.insert(path);
                }
                is_stranger
            }
        }
    }

    fn sleep_time(&self, now: Instant) -> Duration {
        let next = [self.outbox.next_due(), self.labels.next_due()].into_iter().flatten().min();
        next.map_or(SLEEP_MAX, |at| at.saturating_duration_since(now)).min(SLEEP_MAX)
    }

    /// Ends without reading more: waits for confirmations, and stores the positions.
    fn finish_drain(mut self, drain: &Drain) -> bool {
        while !self.is_idle() && !drain.remaining().is_zero() {
            let now = Instant::now();
            if !self.send_requests(now, true) {
                thread::park_timeout(self.sleep_time(now).min(drain.remaining()));
            }
        }
        self.store_positions(Instant::now()) && self.is_idle()
    }

    /// Whether everything that was read is confirmed.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_empty()
    }

    #[cfg(test)]
    pub(super) fn totals(&self) -> FileTotals {
        self.tail.totals()
    }

    #[cfg(test)]
    pub(super) fn drop_events(&mut self) {
        self.finder.watch.read_events(Instant::now());
        self.finder.watch.begin_walk(false);
    }

    #[cfg(test)]
    pub(super) fn walked_at(&self) -> Option<Instant> {
        self.walked_at
    }

    #[cfg(test)]
    pub(super) fn open_inodes(&self) -> std::collections::HashSet<u64> {
        self.table.inodes()
    }

    pub(super) fn send_requests(&mut self, now: Instant, ending: bool) -> bool {
        if ending || self.outbox.is_due(now) {
            self.outbox.close_filling(&mut self.tail, now);
        }
        self.outbox.send_and_confirm(&mut self.tail, now)
    }

    /// Stores the positions if they changed. Returns whether they are on record.
    pub(super) fn store_positions(&mut self, now: Instant) -> bool {
        self.written_at = now;
        self.update_metrics(now);
        let Some(document) = self.tail.changed_checkpoint() else { return true };
        let Err(error) = self.positions.write(&document) else { return true };
        self.tail.checkpoint_failed();
        self.metrics.positions_failed.inc();
        tracing::error!(
            %error,
            "cannot write the positions of files: reading continues, but a restart would resend \
             records from the last written positions"
        );
        false
    }

    fn update_metrics(&mut self, now: Instant) {
        let totals = self.tail.totals();
        let to_gauge = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.metrics.open.set(to_gauge(totals.open));
        self.metrics.known.set(to_gauge(totals.files));
        let FileTotals { backlog_bytes: behind_bytes, accepted_bytes, confirmed_bytes, .. } =
            totals;
        self.metrics.record_progress(behind_bytes, accepted_bytes, confirmed_bytes);
        self.metrics.patterns_omitted.inc_by(self.labels.take_rejected());
        self.backlog.update_metrics(&self.tail, &self.sources, &self.metrics.backlog, now);
    }

    /// Walks all directories, and applies the resulting actions.
    pub(super) fn walk_directories(&mut self, now: Instant) {
        self.refresh_metadata();
        let since = self.walked_at.replace(now).map_or(Duration::ZERO, |at| now.duration_since(at));
        let skipped = since.as_millis() / self.scan_interval.as_millis().max(1);
        self.tail.skip_scans(u32::try_from(skipped.saturating_sub(1)).unwrap_or(0));
        (self.is_quiescent, self.must_walk) = (false, false);
        self.strangers.clear();
        self.opening.clear_denied();
        let Self { finder, sources, tail, table, .. } = self;
        let scan = finder.walk_all(sources, tail, |files| table.reserve_scan(files), now);
        self.tail.set_paused(scan.paused);
        let actions = self.tail.apply_scan(&scan.files, &scan.unlisted);
        drop(scan.files);
        self.opening.clear_waiting();
        for action in actions {
            match action {
                Action::Open { file, path, source, packed } => {
                    self.open_or_wait(PendingOpen { file, path, source, packed }, now);
                }
                Action::Read { file } => self.table.queue_file(file, &self.sources),
                // A queued file is read first; the next scan repeats the action.
                Action::Close { file } | Action::Finish { file } if self.table.is_queued(file) => {}
                Action::Close { file } => self.close_file(file),
                Action::Finish { file } => self.finish_file(file, now),
            }
        }
        self.flush_idle(now);
        self.report_events();
        let unwatched = i64::try_from(self.finder.watch.unwatched()).unwrap_or(i64::MAX);
        self.metrics.unwatched.set(unwatched);
        self.metrics.events_lost.inc_by(self.finder.watch.take_overflows());
    }

    /// Queues the files that waited for their pods.
    pub(super) fn release_waiting(&mut self, now: Instant) {
        for file in self.labels.release_due(now) {
            self.table.push_to_queue(file, &self.sources);
        }
    }

    /// Applies changes of namespaces and pods.
    fn refresh_metadata(&mut self) {
        self.apply_namespaces();
        self.relabel_files();
    }

    /// Applies a changed selection of namespaces: files of the others are closed at their
    /// positions.
    fn apply_namespaces(&mut self) {
        let chosen = self.namespaces.as_ref().and_then(|namespaces| namespaces.chosen());
        let Some(chosen) = chosen else { return };
        // Every source is updated, also after one whose selection changed.
        let mut matters = false;
        for source in &mut self.sources {
            matters |= source.set_namespaces(&chosen);
        }
        if !matters {
            return;
        }
        let is_left = |open: &OpenLogFile| {
            let source = self.sources.get(open.source);
            source.is_some_and(|source| source.excludes_path(open.label.path()))
        };
        let left = self.table.filter_files(is_left);
        tracing::info!(
            namespaces = chosen.len(),
            files = left.len(),
            "the selected namespaces have changed; files of namespaces that are no longer selected \
             are closed"
        );
        left.into_iter().for_each(|file| self.close_file(file));
        self.must_walk = true;
        self.finder.force_full_walk();
    }

    /// Applies changes of pods: records from now on have the new attributes.
    fn relabel_files(&mut self) {
        if !self.labels.take_changed() {
            return;
        }
        let differs = |open: &OpenLogFile| self.labels.has_other_pod(open, &self.sources);
        for file in self.table.filter_files(differs) {
            if let Some(open) = self.table.get_mut(file) {
                self.labels.renew_label(file, open, &self.sources);
            }
        }
    }

    fn report_events(&mut self) {
        for event in self.tail.take_events() {
            match event {
                TailEvent::Restarted { path } => {
                    let path = path.display();
                    tracing::info!(%path,
                        "the file was truncated or replaced: reading it from its first byte");
                }
                TailEvent::Lost { path, lost_bytes } => {
                    self.metrics.lost_bytes.inc_by(lost_bytes);
                    let path = path.display();
                    tracing::warn!(%path, lost_bytes,
                        "the file was deleted or truncated before it was read completely");
                }
                TailEvent::TooMany { path } => {
                    let path = path.display();
                    tracing::error!(%path, "too many files: this one is not read");
                }
            }
        }
    }

    /// Finishes a file: its last line becomes a record even if it is unfinished.
    fn finish_file(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.table.get_mut(file) else { return };
        // Without capacity nothing happens, and the next scan repeats the action.
        let Some(lines) = self.outbox.filling_lines().filter(|lines| !lines.is_full()) else {
            return;
        };
        open.wide = true;
        let Ok(slice) = open.read(&mut self.buffer) else { return };
        let Some(source) = self.sources.get(open.source) else { return };
        let mut records = lines.begin_records(self.labels.attributes_of(file, &open.label, source));
        let nanos = now_unix_nanos();
        open.reader.switch_form(open.label.form_for(&source.form), nanos, &mut records);
        let consumed = open.reader.read_bytes(slice.bytes, nanos, &mut records);
        let rest = &slice.bytes[consumed..];
        // Lines that came since the scan, and for which the request has no capacity.
        let has_more = open.reader.has_line(rest);
        if !has_more {
            open.reader.flush(FlushReason::File { unfinished_line: rest }, nanos, &mut records);
        }
        drop(records);
        self.record_position(file, now);
        if has_more {
            return self.table.queue_file(file, &self.sources);
        }
        self.tail.record_end(file);
        self.close_file(file);
    }

    /// Flushes records that have waited too long for another line.
    fn flush_idle(&mut self, now: Instant) {
        self.flushed_at = Some(now);
        let idle = self.table.overdue_files(&self.sources, now);
        for file in idle {
            // Each flush may write a long record, so full requests are sent first.
            self.send_requests(now, false);
            self.flush_open(file, now);
        }
    }

    fn flush_open(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.table.get_mut(file) else { return };
        let Some(lines) = self.outbox.filling_lines().filter(|lines| !lines.is_full()) else {
            return;
        };
        let Some(source) = self.sources.get(open.source) else { return };
        let attributes = self.labels.attributes_of(file, &open.label, source);
        open.reader.flush(
            FlushReason::Idle,
            now_unix_nanos(),
            &mut lines.begin_records(attributes),
        );
        self.record_position(file, now);
    }

    /// Reads a slice, and opens files that waited for it. Returns false if nothing was queued or
    /// there was no capacity.
    pub(super) fn read(&mut self, now: Instant) -> bool {
        let read = self.read_one(now);
        if read {
            self.open_waiting(now);
        }
        read
    }

    /// Reads a slice of the next file in fair order.
    fn read_one(&mut self, now: Instant) -> bool {
        if self.table.is_queue_empty() || self.outbox.filling_lines().is_none() {
            return false;
        }
        let Some(file) = self.table.next() else { return false };
        let Some(open) = self.table.get_mut(file) else { return true };
        if self.labels.hold_for_pod(file, open, &self.sources, now) {
            return true;
        }
        open.queued = false;
        let from = open.reader.offset();
        let began = (self.processor_time)();
        let slice = match open.read(&mut self.buffer) {
            Ok(slice) => slice,
            Err(error) => {
                self.handle_read_error(file, &error);
                return true;
            }
        };
        let length = slice.bytes.len();
        self.metrics.read_bytes.inc_by(length as u64);
        let step = self.tail.record_read(file, from, length as u64, slice.size, slice.head);
        if let ReadOutcome::Restart(next) = step {
            self.restart_file(file, next, now);
            return true;
        }
        let Some(lines) = self.outbox.filling_lines() else { return true };
        let Some(source) = self.sources.get(open.source) else { return true };
        let mut records = lines.begin_records(self.labels.attributes_of(file, &open.label, source));
        let nanos = now_unix_nanos();
        let is_reformed = !records.is_full()
            && open.reader.switch_form(open.label.form_for(&source.form), nanos, &mut records);
        let consumed = open.reader.read_bytes(slice.bytes, nanos, &mut records);
        let full = records.is_full();
        drop(records);
        open.wide = consumed == 0 && length >= SLICE_BYTES;
        let again = step == ReadOutcome::On || full && consumed < length;
        let is_stuck = open.read_fault().is_some() && consumed == 0 && !full && !open.wide;
        let is_complete = open.is_packed() && !again;
        let has_progress = consumed > 0 || is_reformed;
        if has_progress {
            open.last_read_at = now;
        }
        let took = (self.processor_time)().saturating_sub(began);
        self.table.charge_usage(consumed as u64, took);
        if has_progress {
            self.table.mark_unfinished(file);
            self.record_position(file, now);
            if !self.table.cover_held(file) {
                self.flush_open(file, now);
                self.table.cover_held(file);
            }
        }
        if is_stuck {
            self.give_up_packed(file);
        } else if is_complete {
            self.finish_file(file, now);
        } else if again {
            self.table.queue_file(file, &self.sources);
        }
        true
    }

    /// Restarts an open file that has another text now: the former text's open record is flushed,
    /// and `next` is read from 0.
    fn restart_file(&mut self, file: FileId, next: FileId, now: Instant) {
        self.is_quiescent = false;
        // The request had capacity for a slice, so it has enough for the open record.
        if let Some(open) = self.table.get_mut(file)
            && let Some(source) = self.sources.get(open.source)
            && let Some(lines) = self.outbox.filling_lines()
        {
            let attributes = self.labels.attributes_of(file, &open.label, source);
            open.reader.flush(
                FlushReason::Idle,
                now_unix_nanos(),
                &mut lines.begin_records(attributes),
            );
        }
        self.record_position(file, now);
        self.labels.forget_file(file);
        let Some(open) = self.table.replace_id(file, next) else { return };
        if let Some(source) = self.sources.get(open.source) {
            open.reader = LineReader::new(Arc::clone(&source.form), 0);
        }
        self.table.queue_file(next, &self.sources);
        self.report_events();
    }

    /// Records up to which position a file's lines are in records.
    fn record_position(&mut self, file: FileId, now: Instant) {
        self.record_counts(file);
        if let Some(open) = self.table.get(file) {
            let position = open.position();
            self.tail.record_accepted(file, position);
            self.outbox.record_written(file, position, now);
        }
    }

    fn record_counts(&mut self, file: FileId) {
        if let Some(open) = self.table.get_mut(file) {
            let counts = open.reader.take_counts();
            if open.label.is_missing() {
                self.metrics.unlabeled.inc_by(counts.records);
            }
            self.metrics.records.inc_by(counts.records);
            self.metrics.cut.inc_by(counts.cut);
            self.metrics.invalid_utf8.inc_by(counts.invalid_utf8);
            self.metrics.unparsed.inc_by(counts.unparsed);
            for (fault, count) in ParseFault::ALL.iter().zip(counts.parse_faults) {
                if count > 0 {
                    self.metrics
                        .parse_failed
                        .with_label_values(&[&fault.to_string()])
                        .inc_by(count);
                }
            }
        }
    }
}
