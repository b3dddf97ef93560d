//! Opens files, at once or when what they depend on is read, and closes them.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millrace_lines::{Encoding, Reader, Resume};
use millrace_tail::{FileId, Identity, Opened, Position};

use super::open::{self, Buffer, Content, Found, Open};
use super::unpack::{UNPACK_BYTES, Unpack};
use super::worker::{EVENTS_INTERVAL, Worker};

/// Compressed files that are read at once: 4 of some 600 KiB, and one alone is as fast as a disk.
const UNPACKED_MAX: usize = 4;

/// A file to be opened. A rotated one that may be a copy of one that was written since it was read
/// waits: which text it has shows once that is read. A log that is always written would keep it
/// waiting if it were opened at looks alone.
pub(super) struct Waiting {
    pub(super) file: Identity,
    pub(super) path: Arc<Path>,
    pub(super) source: usize,
    pub(super) packed: bool,
}

/// What isn't open and should be, since the last walk.
pub(super) struct Opening {
    /// Files to be opened once others are read.
    waiting: Vec<Waiting>,
    waited_at: Instant,
    /// Files that may not be opened.
    denied: HashSet<Identity>,
}

impl Opening {
    pub(super) fn new(now: Instant) -> Self {
        Self { waiting: Vec::new(), waited_at: now, denied: HashSet::new() }
    }

    /// Files that may not be opened.
    pub(super) fn denied(&self) -> &HashSet<Identity> {
        &self.denied
    }

    /// A walk begins: it tries all that may not be opened.
    pub(super) fn try_again(&mut self) {
        self.denied.clear();
    }

    /// A walk has ended: it says anew what is to be opened.
    pub(super) fn begin_anew(&mut self) {
        self.waiting.clear();
    }
}

impl Worker {
    pub(super) fn open_or_wait(&mut self, one: Waiting, now: Instant) {
        if self.tail.must_wait(one.file) {
            return self.opening.waiting.push(one);
        }
        let Waiting { file, path, source, packed } = one;
        match packed {
            true => self.open_packed(file, &path, source, now),
            false => self.open(file, &path, source, now),
        }
    }

    /// Opens what waits for others, as far as those are read.
    pub(super) fn open_waiting(&mut self, now: Instant) {
        let is_due = self.table.is_quiet() || now - self.opening.waited_at >= EVENTS_INTERVAL;
        if self.opening.waiting.is_empty() || !is_due {
            return;
        }
        self.opening.waited_at = now;
        for one in std::mem::take(&mut self.opening.waiting) {
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
        let links = &self.sources.get(source)?.links;
        match links.open(path) {
            Ok(found) => Some(found),
            Err(error) => {
                if error.kind() == std::io::ErrorKind::PermissionDenied {
                    self.opening.denied.insert(file);
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
        let (file, position, is_behind_others) = match opened {
            Opened::Unread => return None,
            Opened::From(file, position) => (file, position, false),
            Opened::FromEnd(file, position) => (file, position, true),
        };
        // Several sources may see a file that is rotated: what it is, the source of its text says.
        let source = self.tail.source(file).unwrap_or(source);
        let rules = self.sources.get(source)?;
        let is_within =
            is_behind_others && !content.is_line_start(position.offset, rules.form.encoding);
        let Position { offset, written } = match is_within {
            true => self.tail.begins_within_line(file),
            false => position,
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
        self.table.insert(file, Open::new(content, reader, label, source, now));
        self.table.queue(file, &self.sources);
        Some(file)
    }

    /// Opens a compressed file, if there is room for its text.
    fn open_packed(&mut self, file: Identity, path: &Arc<Path>, source: usize, now: Instant) {
        // Which of the sources its text is of isn't known yet.
        let longest = self.sources.iter().map(|it| it.form.max_record_bytes).max().unwrap_or(0);
        let bytes = (Buffer::bytes_for(longest) + UNPACK_BYTES) as u64;
        if self.table.unpacked() >= UNPACKED_MAX || !self.table.take_bytes(bytes) {
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
        match begun.and_then(|file| self.table.get_mut(file)) {
            Some(open) => open.unpacks_in(bytes),
            None => self.table.give_back(bytes),
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

    pub(super) fn close(&mut self, file: FileId) {
        self.is_settled = false;
        self.labels.forget(file);
        if let Some(open) = self.table.remove(file) {
            self.tail.closed(file, open.position());
        }
    }

    /// No more can be read of a compressed file for now.
    pub(super) fn give_up(&mut self, file: FileId) {
        if let Some(open) = self.table.get_mut(file)
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
}
