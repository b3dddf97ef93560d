//! The thread: look, read each file in its turn, send, and keep positions.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use millrace_lines::{End, ParseFault, Reader};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::file_metrics::FileMetrics;
use millrace_pipeline::pods::Namespaces;
use millrace_tail::{Action, Event, FileId, Glance, Step, Tail, Totals};

use super::backlog::Backlog;
use super::finder::{Finder, Finding};
use super::labels::Labels;
use super::open::{Buffer, Open, SLICE_BYTES};
use super::opening::{Opening, Waiting};
use super::outbox::Outbox;
use super::positions::Positions;
use super::source::Source;
use super::table::Table;
use super::walk::{identity, stamps};

use crate::clock::now_unix_nanos;

/// How often events are taken: what they tell after a silence waits this long at most. 20 times a
/// second cost 0.0003 core.
pub(super) const EVENTS_INTERVAL: Duration = Duration::from_millis(50);

/// The shortest time between two looks, at directories or at files that were written.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The same where a look takes long: a new pod's first line is read within a second.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// How much longer the time between two looks is than a look: 1 in 50 is 0.02 core.
const LOOK_SHARE: u32 = 50;

/// How often positions are written at most: a kill repeats a second's lines and what was in flight.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);

/// The longest sleep: events are taken, and a drain is noticed, after it.
const SLEEP_MAX: Duration = EVENTS_INTERVAL;

/// Files of no concern that are remembered between two walks: 1,024 of 100 bytes are 0.1 MB.
const STRANGERS_MAX: usize = 1024;

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
    pub(super) sources: Vec<Source>,
    pub(super) tail: Tail,
    positions: Positions,
    outbox: Outbox,
    pub(super) metrics: FileMetrics,
    backlog: Backlog,
    pub(super) labels: Labels,
    namespaces: Option<Arc<Namespaces>>,
    pub(super) finder: Finder,
    pub(super) table: Table,
    pub(super) opening: Opening,
    pub(super) buffer: Buffer,
    looked_at: Option<Instant>,
    look_interval: Duration,
    /// When the directories were walked last.
    walked_at: Option<Instant>,
    listened_at: Option<Instant>,
    flushed_at: Option<Instant>,
    /// Whether a walk is needed only if something is told.
    pub(super) is_settled: bool,
    /// Whether one is needed at any rate.
    must_look: bool,
    /// Whether positions may have changed since they were last asked for.
    is_stirred: bool,
    /// Files that are written and of no concern, since the last walk.
    strangers: HashSet<PathBuf>,
    written_at: Instant,
}

impl Worker {
    pub(super) fn new(
        (sources, finding): (Vec<Source>, Finding),
        tail: Tail,
        positions: Positions,
        outbox: Outbox,
        metrics: FileMetrics,
        (buffer, held): (Buffer, Reservation),
        labels: Labels,
    ) -> Self {
        let now = Instant::now();
        Self {
            table: Table::new(&sources, held),
            opening: Opening::new(now),
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
            looked_at: None,
            look_interval: LOOK_INTERVAL,
            walked_at: None,
            listened_at: None,
            flushed_at: None,
            is_settled: false,
            must_look: false,
            is_stirred: true,
            strangers: HashSet::new(),
            written_at: now,
        }
    }

    /// With somebody who knows which namespaces are read.
    pub(super) fn choosing(self, namespaces: Option<Arc<Namespaces>>) -> Self {
        Self { namespaces, ..self }
    }

    /// Reads until the drain begins. Whether everything is confirmed and on record then.
    pub(super) fn run(mut self, drain: &Drain) -> bool {
        while !drain.is_begun() {
            let now = Instant::now();
            self.listen(now);
            self.end_waits(now);
            let read = self.read(now);
            let sent = self.send(now, false);
            self.is_stirred |= read || sent || self.outbox.is_waiting();
            if self.is_stirred && now.duration_since(self.written_at) >= POSITIONS_INTERVAL {
                self.is_stirred = !self.keep_positions(now);
            }
            if !read && !sent {
                thread::park_timeout(self.sleep(now));
            }
        }
        self.finish(drain)
    }

    /// Takes events, and looks if one tells of something or it is time.
    fn listen(&mut self, now: Instant) {
        let is_over =
            |at: Option<Instant>, interval| at.is_none_or(|at| now.duration_since(at) >= interval);
        if !is_over(self.listened_at, EVENTS_INTERVAL) {
            return;
        }
        self.listened_at = Some(now);
        if !is_over(self.looked_at, self.look_interval) {
            self.finder.watch.listen(now);
            return;
        }
        let looked = self.look_if_needed(now);
        if is_over(self.flushed_at, LOOK_INTERVAL) {
            self.flush_idle(now);
        }
        if !looked {
            return;
        }
        let first = self.looked_at.replace(now).is_none();
        let took = now.elapsed().saturating_mul(LOOK_SHARE);
        self.look_interval = took.clamp(LOOK_INTERVAL, LOOK_INTERVAL_MAX);
        self.is_stirred = true;
        if first {
            // What was there at the first start is on record before any of it is rotated.
            self.keep_positions(now);
        }
    }

    /// Looks at what was told, or at all directories. False if there was nothing to look at.
    pub(super) fn look_if_needed(&mut self, now: Instant) -> bool {
        self.finder.watch.listen(now);
        // What was written before is read with what was known then.
        self.take_in();
        self.is_settled = self.is_settled || self.tail.is_settled(self.opening.denied());
        if self.must_look || !self.is_settled || self.finder.needs_walk(now) {
            self.look(now);
            return true;
        }
        let looked = self.glance(now);
        if looked.is_none() {
            self.look(now);
        }
        looked.unwrap_or(true)
    }

    /// Looks at single files. Whether there were any; none if that takes a walk.
    fn glance(&mut self, now: Instant) -> Option<bool> {
        let (written, untold) = self.finder.files(now)?;
        let looked = !written.is_empty() || !untold.is_empty();
        let written = written.into_iter().map(|path| (path, true));
        let mut needs_walk = false;
        for (path, told) in written.chain(untold.into_iter().map(|path| (path, false))) {
            needs_walk |= !self.glance_at(path, told);
        }
        (!needs_walk).then_some(looked)
    }

    /// Looks at a single file. False if that takes a walk.
    fn glance_at(&mut self, path: PathBuf, told: bool) -> bool {
        if self.sources.iter().any(|source| source.leaves_out(&path)) {
            return true;
        }
        let Ok(found) = fs::metadata(&path) else { return false };
        if !found.is_file() || self.strangers.contains(&path) {
            return true;
        }
        let file = identity(&found);
        match self.tail.glance(file, stamps(&found), told) {
            Glance::Nothing => true,
            Glance::Read(file) => {
                self.table.queue(file, &self.sources);
                true
            }
            Glance::Look => {
                let is_stranger = !self.sources.iter().any(|source| source.reads(&path))
                    && self.tail.is_stranger(file, &path);
                if is_stranger && self.strangers.len() < STRANGERS_MAX {
                    self.strangers.insert(path);
                }
                is_stranger
            }
        }
    }

    fn sleep(&self, now: Instant) -> Duration {
        let next = [self.outbox.next_due(), self.labels.next_due()].into_iter().flatten().min();
        next.map_or(SLEEP_MAX, |at| at.saturating_duration_since(now)).min(SLEEP_MAX)
    }

    /// Nothing is read any more: waits for what was, and keeps the positions.
    fn finish(mut self, drain: &Drain) -> bool {
        while !self.is_idle() && !drain.remaining().is_zero() {
            let now = Instant::now();
            if !self.send(now, true) {
                thread::park_timeout(self.sleep(now).min(drain.remaining()));
            }
        }
        self.keep_positions(Instant::now()) && self.is_idle()
    }

    /// Whether everything that was read is confirmed.
    pub(super) fn is_idle(&self) -> bool {
        self.outbox.is_empty()
    }

    #[cfg(test)]
    pub(super) fn totals(&self) -> Totals {
        self.tail.totals()
    }

    #[cfg(test)]
    pub(super) fn drop_events(&mut self) {
        self.finder.watch.listen(Instant::now());
        self.finder.watch.begin(false);
    }

    #[cfg(test)]
    pub(super) fn walked_at(&self) -> Option<Instant> {
        self.walked_at
    }

    #[cfg(test)]
    pub(super) fn open_inodes(&self) -> std::collections::HashSet<u64> {
        self.table.inodes()
    }

    pub(super) fn send(&mut self, now: Instant, ending: bool) -> bool {
        if ending || self.outbox.is_due(now) {
            self.outbox.close(&mut self.tail, now);
        }
        self.outbox.advance(&mut self.tail, now)
    }

    /// Whether the document is written, or needn't be.
    pub(super) fn keep_positions(&mut self, now: Instant) -> bool {
        self.written_at = now;
        self.count(now);
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

    fn count(&mut self, now: Instant) {
        let totals = self.tail.totals();
        let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.metrics.open.set(whole(totals.open));
        self.metrics.known.set(whole(totals.files));
        let Totals { behind_bytes, taken_bytes, confirmed_bytes, .. } = totals;
        self.metrics.tally(behind_bytes, taken_bytes, confirmed_bytes);
        self.metrics.patterns_left_out.inc_by(self.labels.take_left_out());
        self.backlog.count(&self.tail, &self.sources, &self.metrics.backlog, now);
    }

    /// Walks all directories, and does what follows.
    pub(super) fn look(&mut self, now: Instant) {
        self.take_in();
        let since = self.walked_at.replace(now).map_or(Duration::ZERO, |at| now.duration_since(at));
        let skipped = since.as_millis() / self.look_interval.as_millis().max(1);
        self.tail.skip_looks(u32::try_from(skipped.saturating_sub(1)).unwrap_or(0));
        (self.is_settled, self.must_look) = (false, false);
        self.strangers.clear();
        self.opening.try_again();
        let look = self.finder.walk(&self.sources, now);
        self.tail.pause(look.paused);
        let actions = self.tail.look(&look.seen, look.complete);
        drop(look.seen);
        self.opening.begin_anew();
        for action in actions {
            match action {
                Action::Open { file, path, source, packed } => {
                    self.open_or_wait(Waiting { file, path, source, packed }, now);
                }
                Action::Read { file } => self.table.queue(file, &self.sources),
                // What waits to be read first is asked for again.
                Action::Close { file } | Action::Finish { file } if self.table.is_queued(file) => {}
                Action::Close { file } => self.close(file),
                Action::Finish { file } => self.finish_file(file, now),
            }
        }
        self.flush_idle(now);
        self.say();
        let unwatched = i64::try_from(self.finder.watch.unwatched()).unwrap_or(i64::MAX);
        self.metrics.unwatched.set(unwatched);
        self.metrics.events_lost.inc_by(self.finder.watch.take_overflows());
    }

    /// Files that waited for their pods are read.
    pub(super) fn end_waits(&mut self, now: Instant) {
        for file in self.labels.released(now) {
            self.table.line_up(file, &self.sources);
        }
    }

    /// What is known of namespaces and pods may have changed.
    fn take_in(&mut self) {
        self.choose();
        self.relabel();
    }

    /// Which namespaces are read has changed: files of the others are closed where they are.
    fn choose(&mut self) {
        let chosen = self.namespaces.as_ref().and_then(|namespaces| namespaces.chosen());
        let Some(chosen) = chosen else { return };
        // Every source is told, also behind one to which it matters.
        let mut matters = false;
        for source in &mut self.sources {
            matters |= source.tell(&chosen);
        }
        if !matters {
            return;
        }
        let is_left = |open: &Open| {
            let source = self.sources.get(open.source);
            source.is_some_and(|source| source.leaves_out(open.label.path()))
        };
        let left = self.table.those(is_left);
        tracing::info!(
            namespaces = chosen.len(),
            files = left.len(),
            "which namespaces are read has changed; files of those that aren't any more are closed"
        );
        left.into_iter().for_each(|file| self.close(file));
        self.must_look = true;
        self.finder.begin_anew();
    }

    /// What is known of pods has changed: records from now on have it.
    fn relabel(&mut self) {
        if !self.labels.changed() {
            return;
        }
        let differs = |open: &Open| self.labels.differs(open, &self.sources);
        for file in self.table.those(differs) {
            if let Some(open) = self.table.get_mut(file) {
                self.labels.renew(file, open, &self.sources);
            }
        }
    }

    fn say(&mut self) {
        for event in self.tail.take_events() {
            match event {
                Event::BeganAgain { path } => {
                    let path = path.display();
                    tracing::info!(%path, "the file was truncated or replaced: read from 0");
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

    /// A file's end: its last, unfinished line is a record as it is.
    fn finish_file(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.table.get_mut(file) else { return };
        // Without room the machine asks again at the next look.
        let Some(lines) = self.outbox.filling().filter(|lines| !lines.is_full()) else { return };
        open.wide = true;
        let Ok(slice) = open.read(&mut self.buffer) else { return };
        let Some(source) = self.sources.get(open.source) else { return };
        let mut records = lines.records(self.labels.attributes(file, &open.label, source));
        let nanos = now_unix_nanos();
        open.reader.reform(open.label.form(source), nanos, &mut records);
        let taken = open.reader.take(slice.bytes, nanos, &mut records);
        let rest = &slice.bytes[taken..];
        // Lines that came since the look, and for which there is no room.
        let has_more = open.reader.has_line(rest);
        if !has_more {
            open.reader.flush(End::File { rest }, nanos, &mut records);
        }
        drop(records);
        self.note(file, now);
        if has_more {
            return self.table.queue(file, &self.sources);
        }
        self.tail.ended(file);
        self.close(file);
    }

    /// Records that wait for a further line too long are whole.
    fn flush_idle(&mut self, now: Instant) {
        self.flushed_at = Some(now);
        let idle = self.table.waited(&self.sources, now);
        for file in idle {
            // Each may write a long record: what is full goes first.
            self.send(now, false);
            self.flush_open(file, now);
        }
    }

    fn flush_open(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.table.get_mut(file) else { return };
        let Some(lines) = self.outbox.filling().filter(|lines| !lines.is_full()) else { return };
        let Some(source) = self.sources.get(open.source) else { return };
        let attributes = self.labels.attributes(file, &open.label, source);
        open.reader.flush(End::Idle, now_unix_nanos(), &mut lines.records(attributes));
        self.note(file, now);
    }

    /// Reads a slice, and opens what waited for it. Whether there was something to read, and room
    /// for it.
    pub(super) fn read(&mut self, now: Instant) -> bool {
        let read = self.read_one(now);
        if read {
            self.open_waiting(now);
        }
        read
    }

    /// Reads a slice of the file whose turn it is.
    fn read_one(&mut self, now: Instant) -> bool {
        if self.table.is_quiet() || self.outbox.filling().is_none() {
            return false;
        }
        let Some(file) = self.table.next() else { return false };
        let Some(open) = self.table.get_mut(file) else { return true };
        if self.labels.holds(file, open, &self.sources, now) {
            return true;
        }
        open.queued = false;
        let from = open.reader.offset();
        let slice = match open.read(&mut self.buffer) {
            Ok(slice) => slice,
            Err(error) => {
                tracing::warn!(%error, "a file can't be read; it is tried again at the next look");
                self.must_look = true;
                return true;
            }
        };
        let length = slice.bytes.len();
        self.metrics.read_bytes.inc_by(length as u64);
        let step = self.tail.has_read(file, from, length as u64, slice.size, slice.head);
        if let Step::BeginAgain(next) = step {
            self.begin_again(file, next, now);
            return true;
        }
        let Some(lines) = self.outbox.filling() else { return true };
        let Some(source) = self.sources.get(open.source) else { return true };
        let mut records = lines.records(self.labels.attributes(file, &open.label, source));
        let nanos = now_unix_nanos();
        let is_reformed =
            !records.is_full() && open.reader.reform(open.label.form(source), nanos, &mut records);
        let taken = open.reader.take(slice.bytes, nanos, &mut records);
        let full = records.is_full();
        drop(records);
        open.wide = taken == 0 && length >= SLICE_BYTES;
        let again = step == Step::On || full && taken < length;
        let is_stuck = open.fault().is_some() && taken == 0 && !full && !open.wide;
        let is_whole = open.is_packed() && !again;
        let has_taken = taken > 0 || is_reformed;
        if has_taken {
            open.taken_at = now;
        }
        self.table.spent(taken as u64);
        if has_taken {
            self.table.is_unfinished(file);
            self.note(file, now);
            if !self.table.cover(file) {
                self.flush_open(file, now);
                self.table.cover(file);
            }
        }
        if is_stuck {
            self.give_up(file);
        } else if is_whole {
            self.finish_file(file, now);
        } else if again {
            self.table.queue(file, &self.sources);
        }
        true
    }

    /// An open file has another text now: the open record of the former is whole, and the `next` is
    /// read from 0.
    fn begin_again(&mut self, file: FileId, next: FileId, now: Instant) {
        self.is_settled = false;
        // There was room for a slice, so there is for what is held.
        if let Some(open) = self.table.get_mut(file)
            && let Some(source) = self.sources.get(open.source)
            && let Some(lines) = self.outbox.filling()
        {
            let attributes = self.labels.attributes(file, &open.label, source);
            open.reader.flush(End::Idle, now_unix_nanos(), &mut lines.records(attributes));
        }
        self.note(file, now);
        self.labels.forget(file);
        let Some(open) = self.table.rename(file, next) else { return };
        if let Some(source) = self.sources.get(open.source) {
            open.reader = Reader::new(Arc::clone(&source.form), 0);
        }
        self.table.queue(next, &self.sources);
        self.say();
    }

    /// Notes how far a file is in records.
    fn note(&mut self, file: FileId, now: Instant) {
        self.metrics_of(file);
        if let Some(open) = self.table.get(file) {
            let position = open.position();
            self.tail.taken(file, position);
            self.outbox.fed(file, position, now);
        }
    }

    fn metrics_of(&mut self, file: FileId) {
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
