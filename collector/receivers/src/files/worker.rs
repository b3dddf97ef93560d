//! The thread: look, read each file in its turn, send, and keep positions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use millrace_lines::{Encoding, End, ParseFault, Reader, Resume};
use millrace_pipeline::budget::Reservation;
use millrace_pipeline::drain::Drain;
use millrace_pipeline::file_metrics::FileMetrics;
use millrace_pipeline::pods::Namespaces;
use millrace_tail::{
    Action, Event, FileId, Glance, Identity, Opened, Position, Step, Tail, Totals, Turns,
};

use super::backlog::Backlog;
use super::finder::{Finder, Finding};
use super::labels::Labels;
use super::open::{self, Buffer, Content, Found, Open, SLICE_BYTES};
use super::outbox::Outbox;
use super::positions::Positions;
use super::source::Source;
use super::unpack::{UNPACK_BYTES, Unpack};
use super::walk::{identity, stamps};

use crate::clock::now_unix_nanos;

/// How often events are taken: what they tell after a silence waits this long at most. 20 times a
/// second cost 0.0003 core.
const EVENTS_INTERVAL: Duration = Duration::from_millis(50);

/// The shortest time between two looks, at directories or at files that were written.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// The same where a look takes long: a new pod's first line is read within a second.
const LOOK_INTERVAL_MAX: Duration = Duration::from_secs(1);

/// How much longer the time between two looks is than a look: 1 in 50 is 0.02 core.
const LOOK_SHARE: u32 = 50;

/// How often positions are written at most: a kill repeats a second's lines and what was in flight.
const POSITIONS_INTERVAL: Duration = Duration::from_secs(1);

/// Compressed files that are read at once: 4 of some 600 KiB, and one alone is as fast as a disk.
const UNPACKED_MAX: usize = 4;

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

/// A rotated file that may be a copy of one that was written since it was read: which text it has
/// shows once that is read. A log that is always written would keep it waiting if it were opened at
/// looks alone.
struct Waiting {
    file: Identity,
    path: Arc<Path>,
    source: usize,
    packed: bool,
}

pub(super) struct Worker {
    sources: Vec<Source>,
    tail: Tail,
    positions: Positions,
    outbox: Outbox,
    metrics: FileMetrics,
    backlog: Backlog,
    labels: Labels,
    namespaces: Option<Arc<Namespaces>>,
    finder: Finder,
    open: HashMap<FileId, Box<Open>>,
    ready: Turns<FileId>,
    buffer: Buffer,
    looked_at: Option<Instant>,
    look_interval: Duration,
    /// When the directories were walked last.
    walked_at: Option<Instant>,
    listened_at: Option<Instant>,
    flushed_at: Option<Instant>,
    /// Whether a walk is needed only if something is told.
    is_settled: bool,
    /// Whether one is needed at any rate.
    must_look: bool,
    /// Whether positions may have changed since they were last asked for.
    is_stirred: bool,
    /// Files that may not be opened.
    denied: HashSet<Identity>,
    /// Files that are written and of no concern, since the last walk.
    strangers: HashSet<PathBuf>,
    /// Files to be opened once others are read, since the last walk.
    waiting: Vec<Waiting>,
    waited_at: Instant,
    /// Files whose reader may hold a record that waits for a further line.
    unfinished: BTreeSet<FileId>,
    /// For the buffer, and for what readers hold of unfinished records.
    held: Reservation,
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
        let weights = sources.iter().flat_map(|source| source.weights.clone()).collect();
        Self {
            ready: Turns::new(weights),
            sources,
            tail,
            positions,
            outbox,
            metrics,
            backlog: Backlog::default(),
            labels,
            namespaces: None,
            finder: Finder::new(finding),
            open: HashMap::new(),
            buffer,
            looked_at: None,
            look_interval: LOOK_INTERVAL,
            walked_at: None,
            listened_at: None,
            flushed_at: None,
            is_settled: false,
            must_look: false,
            is_stirred: true,
            denied: HashSet::new(),
            strangers: HashSet::new(),
            waiting: Vec::new(),
            waited_at: Instant::now(),
            unfinished: BTreeSet::new(),
            held,
            written_at: Instant::now(),
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
        self.is_settled = self.is_settled || self.tail.is_settled(&self.denied);
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
                self.queue(file);
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
        self.open.values().filter_map(|open| open.inode()).collect()
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
        self.denied.clear();
        let look = self.finder.walk(&self.sources, now);
        self.tail.pause(look.paused);
        let actions = self.tail.look(&look.seen, look.complete);
        drop(look.seen);
        self.waiting.clear();
        for action in actions {
            match action {
                Action::Open { file, path, source, packed } => {
                    self.open_or_wait(Waiting { file, path, source, packed }, now);
                }
                Action::Read { file } => self.queue(file),
                // What waits to be read first is asked for again.
                Action::Close { file } | Action::Finish { file } if self.is_queued(file) => {}
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
            self.line_up(file);
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
        if !self.sources.iter_mut().fold(false, |matters, one| one.tell(&chosen) || matters) {
            return;
        }
        let is_left = |open: &Open| {
            let source = self.sources.get(open.source);
            source.is_some_and(|source| source.leaves_out(open.label.path()))
        };
        let left = self.open.iter().filter(|(_, open)| is_left(open));
        let left: Vec<FileId> = left.map(|(file, _)| *file).collect();
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
        let files = self.open.iter().filter(|(_, open)| differs(open));
        for file in files.map(|(file, _)| *file).collect::<Vec<_>>() {
            if let Some(open) = self.open.get_mut(&file) {
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

    fn is_queued(&self, file: FileId) -> bool {
        self.open.get(&file).is_some_and(|open| open.queued)
    }

    fn queue(&mut self, file: FileId) {
        if let Some(open) = self.open.get_mut(&file)
            && !std::mem::replace(&mut open.queued, true)
        {
            self.line_up(file);
        }
    }

    fn line_up(&mut self, file: FileId) {
        if let Some(open) = self.open.get(&file)
            && let Some(source) = self.sources.get(open.source)
        {
            self.ready.push(source.share(open.label.path()), file);
        }
    }

    fn open_or_wait(&mut self, one: Waiting, now: Instant) {
        if self.tail.must_wait(one.file) {
            return self.waiting.push(one);
        }
        let Waiting { file, path, source, packed } = one;
        match packed {
            true => self.open_packed(file, &path, source, now),
            false => self.open(file, &path, source, now),
        }
    }

    /// Opens what waits for others, as far as those are read.
    fn open_waiting(&mut self, now: Instant) {
        let is_due = self.ready.is_empty() || now - self.waited_at >= EVENTS_INTERVAL;
        if self.waiting.is_empty() || !is_due {
            return;
        }
        self.waited_at = now;
        for one in std::mem::take(&mut self.waiting) {
            self.open_or_wait(one, now);
        }
    }

    fn open(&mut self, file: Identity, path: &Arc<Path>, source: usize, now: Instant) {
        let Some(found) = self.find(file, path, source) else { return };
        let Ok(head) = open::head(&found.file, &mut self.buffer) else {
            return self.tail.not_opened(file);
        };
        let opened = self.tail.opened(file, found.identity, found.size, head);
        self.begin(opened, Content::Plain(found.file), (path, source), now);
    }

    fn find(&mut self, file: Identity, path: &Path, source: usize) -> Option<Found> {
        let follows = self.sources.get(source).is_some_and(Source::follows_links);
        match open::open(path, follows) {
            Ok(found) => Some(found),
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    self.denied.insert(file);
                }
                if error.kind() != std::io::ErrorKind::NotFound {
                    self.finder.name(path, &error.to_string());
                }
                self.tail.not_opened(file);
                None
            }
        }
    }

    /// Begins to read a text where it was left. None if nothing of it is read.
    fn begin(
        &mut self,
        opened: Opened,
        content: Content,
        (path, source): (&Arc<Path>, usize),
        now: Instant,
    ) -> Option<FileId> {
        let rules = self.sources.get(source)?;
        let (file, Position { offset, written }) = match opened {
            Opened::Unread => return None,
            Opened::From(file, position) => (file, position),
            Opened::FromEnd(file, position)
                if content.is_line_start(position.offset, rules.form.encoding) =>
            {
                (file, position)
            }
            Opened::FromEnd(file, _) => (file, self.tail.begins_within_line(file)),
        };
        // The name that its text had.
        let path = match &content {
            Content::Plain(_) => Arc::clone(path),
            Content::Packed(_) => path.with_extension("").into(),
        };
        let label = self.labels.begin(rules, path, now);
        let reader = Reader::resumed(Arc::clone(label.form(rules)), Resume { offset, written });
        let reader = match rules.form.encoding {
            Encoding::Utf8 | Encoding::Latin1 => reader,
            Encoding::Utf16Le | Encoding::Utf16Be => reader.of_file(&content.mark()),
        };
        self.open.insert(file, Box::new(Open::new(content, reader, label, source, now)));
        self.queue(file);
        Some(file)
    }

    /// Opens a compressed file, if there is room for its text.
    fn open_packed(&mut self, file: Identity, path: &Arc<Path>, source: usize, now: Instant) {
        let longest = self.sources.get(source).map_or(0, |it| it.form.max_record_bytes);
        let bytes = (Buffer::bytes_for(longest) + UNPACK_BYTES) as u64;
        let are_open = self.open.values().filter(|open| open.is_packed()).count();
        if are_open >= UNPACKED_MAX || !self.held.try_resize(self.held.bytes() + bytes) {
            return self.tail.not_opened(file);
        }
        let mut begun = None;
        if let Some(found) = self.find(file, path, source) {
            match Unpack::new(found.file) {
                Ok(unpack) => {
                    let (size, head) = (unpack.size(), unpack.head());
                    let opened = self.tail.opened(file, found.identity, size, head);
                    let content = Content::Packed(Box::new(unpack));
                    begun = self.begin(opened, content, (path, source), now);
                }
                Err(error) => {
                    self.tail.torn(file);
                    self.say_damaged(path, 0, &error);
                }
            }
        }
        match begun.and_then(|file| self.open.get_mut(&file)) {
            Some(open) => open.unpacks_in(bytes),
            None => _ = self.held.try_resize(self.held.bytes().saturating_sub(bytes)),
        }
    }

    fn say_damaged(&mut self, path: &Path, read_bytes: u64, error: &std::io::Error) {
        self.metrics.damaged.inc();
        tracing::warn!(
            path = %path.display(),
            read_bytes,
            %error,
            "a compressed file is torn, damaged or not whole yet: nothing behind what was read of \
             its text can be; it is tried again when it has changed"
        );
    }

    fn close(&mut self, file: FileId) {
        self.is_settled = false;
        self.labels.forget(file);
        if let Some(open) = self.open.remove(&file) {
            let _ = self.held.try_resize(self.held.bytes().saturating_sub(open.held_bytes));
            self.tail.closed(file, open.position());
        }
    }

    /// A file's end: its last, unfinished line is a record as it is.
    fn finish_file(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.open.get_mut(&file) else { return };
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
            return self.queue(file);
        }
        self.tail.ended(file);
        self.close(file);
    }

    /// Records that wait for a further line too long are whole.
    fn flush_idle(&mut self, now: Instant) {
        self.flushed_at = Some(now);
        let waited = |open: &Open, sources: &[Source]| {
            let timeout = sources.get(open.source).map_or(Duration::ZERO, |source| source.timeout);
            open.reader.holds_open() && now.duration_since(open.taken_at) >= timeout
        };
        let open = &self.open;
        let holds = |file: &FileId| open.get(file).is_some_and(|open| open.reader.holds_open());
        self.unfinished.retain(holds);
        let is_over = |file: &FileId| {
            open.get(file).is_some_and(|open| !open.queued && waited(open, &self.sources))
        };
        let idle: Vec<FileId> = self.unfinished.iter().copied().filter(is_over).collect();
        for file in idle {
            // Each may write a long record: what is full goes first.
            self.send(now, false);
            self.flush_open(file, now);
        }
    }

    fn flush_open(&mut self, file: FileId, now: Instant) {
        let Some(open) = self.open.get_mut(&file) else { return };
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
        if self.ready.is_empty() || self.outbox.filling().is_none() {
            return false;
        }
        let Some(file) = self.ready.pop() else { return false };
        let Some(open) = self.open.get_mut(&file) else { return true };
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
        self.ready.spent(taken as u64);
        let full = records.is_full();
        drop(records);
        open.wide = taken == 0 && length >= SLICE_BYTES;
        let again = step == Step::On || full && taken < length;
        let is_stuck = open.fault().is_some() && taken == 0 && !full && !open.wide;
        let is_whole = open.is_packed() && !again;
        if taken > 0 || is_reformed {
            open.taken_at = now;
            self.unfinished.insert(file);
            self.note(file, now);
            if !self.cover(file) {
                self.flush_open(file, now);
                self.cover(file);
            }
        }
        if is_stuck {
            self.give_up(file);
        } else if is_whole {
            self.finish_file(file, now);
        } else if again {
            self.queue(file);
        }
        true
    }

    /// No more can be read of a compressed file for now.
    fn give_up(&mut self, file: FileId) {
        if let Some(open) = self.open.get_mut(&file)
            && let Some(error) = open.fault()
        {
            let error = std::io::Error::new(error.kind(), error.to_string());
            let read_bytes = open.reader.offset();
            let path = self.tail.path(file).map(Path::to_owned).unwrap_or_default();
            self.say_damaged(&path, read_bytes, &error);
        }
        self.close(file);
        self.tail.damaged(file);
    }

    /// Covers what a reader holds of unfinished records. False if the budget has no room for that:
    /// they are taken as they are then.
    fn cover(&mut self, file: FileId) -> bool {
        let Some(open) = self.open.get_mut(&file) else { return true };
        let held_bytes = open.needed_bytes();
        let sum = self.held.bytes() - open.held_bytes.min(self.held.bytes()) + held_bytes;
        let covered = self.held.try_resize(sum);
        if covered {
            open.held_bytes = held_bytes;
        }
        covered
    }

    /// An open file has another text now: the open record of the former is whole, and the `next` is
    /// read from 0.
    fn begin_again(&mut self, file: FileId, next: FileId, now: Instant) {
        self.is_settled = false;
        // There was room for a slice, so there is for what is held.
        if let Some(open) = self.open.get_mut(&file)
            && let Some(source) = self.sources.get(open.source)
            && let Some(lines) = self.outbox.filling()
        {
            let attributes = self.labels.attributes(file, &open.label, source);
            open.reader.flush(End::Idle, now_unix_nanos(), &mut lines.records(attributes));
        }
        self.note(file, now);
        self.labels.forget(file);
        let Some(mut open) = self.open.remove(&file) else { return };
        if let Some(source) = self.sources.get(open.source) {
            open.reader = Reader::new(Arc::clone(&source.form), 0);
        }
        self.open.insert(next, open);
        self.queue(next);
        self.say();
    }

    /// Notes how far a file is in records.
    fn note(&mut self, file: FileId, now: Instant) {
        self.metrics_of(file);
        if let Some(open) = self.open.get(&file) {
            let position = open.position();
            self.tail.taken(file, position);
            self.outbox.fed(file, position, now);
        }
    }

    fn metrics_of(&mut self, file: FileId) {
        if let Some(open) = self.open.get_mut(&file) {
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
