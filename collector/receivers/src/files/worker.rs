//! The thread: look, read each file in its turn, send, and keep positions.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use millrace_lines::{End, ParseFault, Reader};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::file_metrics::FileMetrics;
use millrace_tail::{Action, Event, FileId, Opened, Step, Tail};

use super::clock::now_unix_nanos;
use super::open::{self, Buffer, Open, SLICE_BYTES};
use super::outbox::Outbox;
use super::positions::Positions;
use super::source::Source;
use super::walk::Walk;

/// How often the directories are looked at: a new pod's first line waits this long at most.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The same where a look takes long: a new pod's first line is read within a second.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// How much longer the time between two looks is than a look: 1 in 50 is 0.02 core.
const LOOK_SHARE: u32 = 50;

/// How often positions are written at most: a kill repeats a second's lines and what was in flight.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);

/// The longest sleep: a drain is noticed after it.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Wakes a thread that sleeps.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// What wakes the present thread.
pub(super) fn waker() -> Waker {
    Waker::from(Arc::new(Unpark(thread::current())))
}

pub(super) struct Worker {
    sources: Vec<Source>,
    tail: Tail,
    positions: Positions,
    outbox: Outbox,
    metrics: FileMetrics,
    walk: Walk,
    open: HashMap<FileId, Open>,
    ready: VecDeque<FileId>,
    buffer: Buffer,
    looked_at: Option<Instant>,
    look_interval: Duration,
    /// For the buffer, and for what readers hold of unfinished records.
    held: Reservation,
    written_at: Instant,
}

impl Worker {
    pub(super) fn new(
        sources: Vec<Source>,
        tail: Tail,
        positions: Positions,
        outbox: Outbox,
        metrics: FileMetrics,
        (buffer, held): (Buffer, Reservation),
    ) -> Self {
        Self {
            sources,
            tail,
            positions,
            outbox,
            metrics,
            walk: Walk::default(),
            open: HashMap::new(),
            ready: VecDeque::new(),
            buffer,
            looked_at: None,
            look_interval: LOOK_INTERVAL,
            held,
            written_at: Instant::now(),
        }
    }

    /// Reads until the drain begins. Whether everything is confirmed and on record then.
    pub(super) fn run(mut self, drain: &Drain) -> bool {
        while !drain.is_begun() {
            let now = Instant::now();
            if self.looked_at.is_none_or(|at| now.duration_since(at) >= self.look_interval) {
                let first = self.looked_at.replace(now).is_none();
                self.look(now);
                let took = now.elapsed().saturating_mul(LOOK_SHARE);
                self.look_interval = took.clamp(LOOK_INTERVAL, LOOK_INTERVAL_MAX);
                if first {
                    // What was there at the first start is on record before any of it is rotated.
                    self.keep_positions();
                }
            }
            let read = self.read_one(now);
            let sent = self.send(now, false);
            if now.duration_since(self.written_at) >= POSITIONS_INTERVAL {
                self.keep_positions();
            }
            if !read && !sent {
                thread::park_timeout(self.sleep(now));
            }
        }
        self.finish(drain)
    }

    fn sleep(&self, now: Instant) -> Duration {
        let looks = self.looked_at.map(|at| at + self.look_interval);
        let next = [looks, self.outbox.next_due()].into_iter().flatten().min();
        next.map_or(SLEEP_MAX, |at| at.saturating_duration_since(now)).min(SLEEP_MAX)
    }

    /// Nothing is read any more: waits for what was, and keeps the positions.
    fn finish(mut self, drain: &Drain) -> bool {
        while !self.outbox.is_empty() && !drain.remaining().is_zero() {
            let now = Instant::now();
            if !self.send(now, true) {
                thread::park_timeout(self.sleep(now).min(drain.remaining()));
            }
        }
        self.keep_positions() && self.outbox.is_empty()
    }

    fn send(&mut self, now: Instant, ending: bool) -> bool {
        if ending || self.outbox.is_due(now) {
            self.outbox.close(&mut self.tail);
        }
        self.outbox.advance(&mut self.tail, now)
    }

    /// Whether the document is written, or needn't be.
    fn keep_positions(&mut self) -> bool {
        self.written_at = Instant::now();
        self.count();
        let Some(document) = self.tail.changed_checkpoint() else { return true };
        let Err(error) = self.positions.write(&document) else { return true };
        self.tail.checkpoint_failed();
        self.metrics.positions_failed.inc();
        tracing::error!(
            %error,
            "the positions of files can't be written: reading goes on, and a restart would read \
             again from those written last"
        );
        false
    }

    fn count(&self) {
        let totals = self.tail.totals();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.metrics.open.set(whole(totals.open));
        self.metrics.known.set(whole(totals.files));
        self.metrics.behind_bytes.set(whole(totals.behind_bytes));
    }

    fn look(&mut self, now: Instant) {
        let look = self.walk.look(&self.sources);
        for action in self.tail.look(&look.seen, look.complete) {
            match action {
                Action::Open { file, path, source } => self.open(file, &path, source),
                Action::Read { file } => self.queue(file),
                // What waits to be read first is asked for again.
                Action::Close { file } | Action::Finish { file } if self.is_queued(file) => {}
                Action::Close { file } => self.close(file),
                Action::Finish { file } => self.finish_file(file, now),
            }
        }
        self.flush_idle(now);
        self.say();
    }

    fn say(&mut self) {
        for event in self.tail.take_events() {
            match event {
                Event::BeganAgain { path, lost_bytes } => {
                    self.metrics.lost_bytes.inc_by(lost_bytes);
                    let path = path.display();
                    tracing::info!(%path, lost_bytes, "the file was truncated or replaced: read from 0");
                }
                Event::Gone { path, lost_bytes } => {
                    self.metrics.lost_bytes.inc_by(lost_bytes);
                    let path = path.display();
                    tracing::warn!(%path, lost_bytes, "the file went before all of it was read");
                }
                Event::TooMany { path } => {
                    let path = path.display();
                    tracing::error!(%path, "there are more files than can be read: not read");
                }
            }
        }
    }

    fn is_queued(&self, file: FileId) -> bool {
        self.open.get(&file).is_some_and(|open| open.queued)
    }

    fn queue(&mut self, file: FileId) {
        if let Some(open) = self.open.get_mut(&file)
            && !std::mem::replace(&mut open.queued, true)
        {
            self.ready.push_back(file);
        }
    }

    fn open(&mut self, file: FileId, path: &std::path::Path, source: usize) {
        let Some(rules) = self.sources.get(source) else { return self.tail.not_opened(file) };
        let found = match open::open(path, rules.follows_links()) {
            Ok(found) => found,
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.walk.name(path, &error.to_string());
                }
                return self.tail.not_opened(file);
            }
        };
        let Ok(head) = open::head(&found.file, &mut self.buffer) else {
            return self.tail.not_opened(file);
        };
        if let Opened::From(offset) = self.tail.opened(file, found.identity, found.size, head) {
            let reader = Reader::new(Arc::clone(&rules.form), offset);
            let open = Open::new(found.file, reader, rules.attributes(path), source);
            self.open.insert(file, open);
            self.queue(file);
        }
    }

    fn close(&mut self, file: FileId) {
        if let Some(open) = self.open.remove(&file) {
            let _ = self.held.try_resize(self.held.bytes().saturating_sub(open.held_bytes));
            self.tail.closed(file, open.reader.resume_offset());
        }
    }

    /// A file's end: its last, unfinished line is a record as it is.
    fn finish_file(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.open.get_mut(&file) else { return };
        // Without room the machine asks again at the next look.
        let Some(lines) = self.outbox.filling().filter(|lines| !lines.is_full()) else { return };
        open.wide = true;
        let Ok(slice) = open.read(&mut self.buffer) else { return };
        let mut records = lines.records(&open.attributes);
        let nanos = now_unix_nanos();
        let taken = open.reader.take(slice.bytes, nanos, &mut records);
        let rest = &slice.bytes[taken..];
        open.reader.flush(End::File { rest }, nanos, &mut records);
        drop(records);
        self.note(file, now);
        self.close(file);
    }

    /// Records that wait for a further line too long are whole.
    fn flush_idle(&mut self, now: Instant) {
        let waited = |open: &Open, sources: &[Source]| {
            let timeout = sources.get(open.source).map_or(Duration::ZERO, |source| source.timeout);
            open.reader.holds_open() && now.duration_since(open.taken_at) >= timeout
        };
        let idle: Vec<FileId> = self
            .open
            .iter()
            .filter(|(_, open)| !open.queued && waited(open, &self.sources))
            .map(|(file, _)| *file)
            .collect();
        for file in idle {
            // Each may write a long record: what is full goes first.
            self.send(now, false);
            self.flush_open(file, now);
        }
    }

    fn flush_open(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.open.get_mut(&file) else { return };
        let Some(lines) = self.outbox.filling().filter(|lines| !lines.is_full()) else { return };
        open.reader.flush(End::Idle, now_unix_nanos(), &mut lines.records(&open.attributes));
        self.note(file, now);
    }

    /// Reads a slice of the file whose turn it is. Whether there was one, and room for it.
    fn read_one(&mut self, now: Instant) -> bool {
        if self.ready.is_empty() || self.outbox.filling().is_none() {
            return false;
        }
        let Some(file) = self.ready.pop_front() else { return false };
        let Some(open) = self.open.get_mut(&file) else { return true };
        open.queued = false;
        let from = open.reader.offset();
        let slice = match open.read(&mut self.buffer) {
            Ok(slice) => slice,
            Err(error) => {
                tracing::warn!(%error, "a file can't be read; it is tried again at the next look");
                return true;
            }
        };
        let length = slice.bytes.len();
        self.metrics.read_bytes.inc_by(length as u64);
        let step = self.tail.has_read(file, from, length as u64, slice.size, slice.head);
        if step == Step::BeginAgain {
            self.begin_again(file, now);
            return true;
        }
        let Some(lines) = self.outbox.filling() else { return true };
        let mut records = lines.records(&open.attributes);
        let taken = open.reader.take(slice.bytes, now_unix_nanos(), &mut records);
        let full = records.is_full();
        drop(records);
        open.wide = taken == 0 && length >= SLICE_BYTES;
        let again = step == Step::On || full && taken < length;
        if taken > 0 {
            open.taken_at = now;
            self.note(file, now);
            if !self.cover(file) {
                self.flush_open(file, now);
                self.cover(file);
            }
        }
        if again {
            self.queue(file);
        }
        true
    }

    /// Covers what a reader holds of unfinished records. False if the budget has no room for that:
    /// they are taken as they are then.
    fn cover(&mut self, file: FileId) -> bool {
        let Some(open) = self.open.get_mut(&file) else { return true };
        let held_bytes = open.reader.held_bytes() as u64;
        let sum = self.held.bytes() - open.held_bytes.min(self.held.bytes()) + held_bytes;
        let covered = self.held.try_resize(sum);
        if covered {
            open.held_bytes = held_bytes;
        }
        covered
    }

    /// What was in the file is gone: its open record is whole, and it is read from 0.
    fn begin_again(&mut self, file: FileId, now: Instant) {
        // There was room for a slice, so there is for what is held.
        if let Some(open) = self.open.get_mut(&file)
            && let Some(lines) = self.outbox.filling()
        {
            open.reader.flush(End::Idle, now_unix_nanos(), &mut lines.records(&open.attributes));
            self.metrics_of(file);
        }
        if let (Some(open), sources) = (self.open.get_mut(&file), &self.sources)
            && let Some(source) = sources.get(open.source)
        {
            open.reader = Reader::new(Arc::clone(&source.form), 0);
        }
        self.note(file, now);
        self.queue(file);
        self.say();
    }

    /// Notes how far a file is in records.
    fn note(&mut self, file: FileId, now: Instant) {
        self.metrics_of(file);
        if let Some(open) = self.open.get(&file) {
            let resume_offset = open.reader.resume_offset();
            self.tail.taken(file, resume_offset);
            self.outbox.fed(file, resume_offset, now);
        }
    }

    fn metrics_of(&mut self, file: FileId) {
        if let Some(open) = self.open.get_mut(&file) {
            let counts = open.reader.take_counts();
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
