//! Opens files, at once or after the files that they depend on are read, and closes them.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use millrace_lines::{LineReader, Resume, TextEncoding};
use millrace_tail::{FileId, InodeId, OpenOutcome, Position};

use super::pending_opens::PendingOpen;
use super::unpack::{UNPACK_BYTES, Unpack};
use super::{Buffer, Content, OpenLogFile, OpenedFile};
use crate::open;
use crate::worker::{EVENTS_INTERVAL, FilesWorker};

/// The maximum compressed files read at a time: 4 of some 600 KiB, and one alone is as fast as a
/// disk.
const UNPACKED_MAX: usize = 4;

impl FilesWorker {
    pub(crate) fn open_or_wait(&mut self, one: PendingOpen, now: Instant) {
        if self.tail.must_wait(one.file) {
            return self.opening.waiting.push(one);
        }
        let PendingOpen { file, path, source, packed } = one;
        match packed {
            true => self.open_packed(file, &path, source, now),
            false => self.open_plain(file, &path, source, now),
        }
    }

    /// Opens waiting files whose dependencies are read.
    pub(crate) fn open_waiting(&mut self, now: Instant) {
        let is_due = self.table.is_queue_empty() || now - self.opening.waited_at >= EVENTS_INTERVAL;
        if self.opening.waiting.is_empty() || !is_due {
            return;
        }
        self.opening.waited_at = now;
        for one in std::mem::take(&mut self.opening.waiting) {
            self.open_or_wait(one, now);
        }
    }

    fn open_plain(&mut self, file: InodeId, path: &Arc<Path>, source: usize, now: Instant) {
        let Some(found) = self.open_or_deny(file, path, source) else { return };
        let head = match open::read_head(&found.file, &mut self.buffer) {
            Ok(head) => head,
            Err(error) => return self.deny_file(file, path, &error),
        };
        let opened = self.tail.record_opened(file, found.identity, found.size, head);
        self.begin_text(opened, Content::Plain(found.file), (path, source), now);
    }

    fn open_or_deny(&mut self, file: InodeId, path: &Path, source: usize) -> Option<OpenedFile> {
        let links = &self.sources.get(source)?.links;
        match links.open_file(path) {
            Ok(found) => Some(found),
            Err(error) => {
                self.deny_file(file, path, &error);
                None
            }
        }
    }

    /// Records that a file can't be opened. Unless it is gone, the next walk tries it again; no
    /// walk is scheduled for this file alone, or walks would never end.
    fn deny_file(&mut self, file: InodeId, path: &Path, error: &std::io::Error) {
        if error.kind() != std::io::ErrorKind::NotFound {
            self.opening.denied.insert(file);
            self.finder.report_unread(path, &error.to_string());
        }
        self.tail.record_open_failure(file);
    }

    /// Begins to read a text at its recorded position. None if the text isn't read.
    fn begin_text(
        &mut self,
        opened: OpenOutcome,
        content: Content,
        (path, source): (&Arc<Path>, usize),
        now: Instant,
    ) -> Option<FileId> {
        let (file, position, is_behind_others) = match opened {
            OpenOutcome::Unread => return None,
            OpenOutcome::From(file, position) => (file, position, false),
            OpenOutcome::FromEnd(file, position) => (file, position, true),
        };
        // Several sources may match a rotated file: the source of its text applies.
        let source = self.tail.source(file).unwrap_or(source);
        let rules = self.sources.get(source)?;
        let is_within =
            is_behind_others && !content.is_line_start(position.offset, rules.form.encoding);
        let Position { offset, written } = match is_within {
            true => self.tail.begins_within_line(file),
            false => position,
        };
        // The path that the text had.
        let path = match &content {
            Content::Plain(_) => Arc::clone(path),
            Content::Packed(_) => path.with_extension("").into(),
        };
        let label = self.labels.label_file(rules, path, now);
        let reader = LineReader::resume_from(
            Arc::clone(label.form_for(&rules.form)),
            Resume { offset, written },
        );
        let reader = match rules.form.encoding {
            TextEncoding::Utf8 | TextEncoding::Latin1 => reader,
            TextEncoding::Utf16Le | TextEncoding::Utf16Be => {
                reader.of_file(&content.byte_order_mark())
            }
        };
        self.table.insert(file, OpenLogFile::new(content, reader, label, source, now));
        self.table.queue_file(file, &self.sources);
        Some(file)
    }

    /// Opens a compressed file, if the budget has capacity for its text.
    fn open_packed(&mut self, file: InodeId, path: &Arc<Path>, source: usize, now: Instant) {
        // The source of its text isn't known yet.
        let longest = self.sources.iter().map(|it| it.form.max_record_bytes).max().unwrap_or(0);
        let bytes = (Buffer::bytes_for(longest) + UNPACK_BYTES) as u64;
        if self.table.unpacked_count() >= UNPACKED_MAX || !self.table.reserve_bytes(bytes) {
            return self.tail.record_open_failure(file);
        }
        let mut begun = None;
        if let Some(found) = self.open_or_deny(file, path, source) {
            match Unpack::new(found.file) {
                Ok(unpack) => {
                    let (size, head) = (unpack.size(), unpack.head());
                    let opened = self.tail.record_opened(file, found.identity, size, head);
                    let content = Content::Packed(Box::new(unpack));
                    begun = self.begin_text(opened, content, (path, source), now);
                }
                Err(error) => {
                    self.tail.record_torn(file);
                    self.report_damaged(path, 0, &error);
                }
            }
        }
        match begun.and_then(|file| self.table.get_mut(file)) {
            Some(open) => open.reserve_unpack(bytes),
            None => self.table.release_bytes(bytes),
        }
    }

    fn report_damaged(&mut self, path: &Path, read_bytes: u64, error: &std::io::Error) {
        self.metrics.damaged.inc();
        tracing::warn!(
            path = %path.display(),
            read_bytes,
            %error,
            "a compressed file is truncated, corrupt or incomplete: its remaining text is not \
             read; reading is retried when the file changes"
        );
    }

    pub(crate) fn close_file(&mut self, file: FileId) {
        self.is_quiescent = false;
        self.labels.forget_file(file);
        if let Some(open) = self.table.remove(file) {
            self.tail.record_closed(file, open.position());
        }
    }

    /// Closes a file after a failed read. A later walk opens it again if it still has a name.
    pub(crate) fn handle_read_error(&mut self, file: FileId, error: &std::io::Error) {
        let Some(open) = self.table.remove(file) else { return };
        self.finder.report_unread(open.label.path(), &error.to_string());
        self.labels.forget_file(file);
        self.opening.denied.extend(self.tail.record_unreadable(file, open.position()));
        self.is_quiescent = false;
    }

    /// Closes a compressed file of which no more can be read for now.
    pub(crate) fn give_up_packed(&mut self, file: FileId) {
        if let Some(open) = self.table.get_mut(file)
            && let Some(error) = open.read_fault()
        {
            let error = std::io::Error::new(error.kind(), error.to_string());
            let read_bytes = open.reader.offset();
            let path = self.tail.path_of(file).map(Path::to_owned).unwrap_or_default();
            self.report_damaged(&path, read_bytes, &error);
        }
        self.close_file(file);
        self.tail.record_damaged(file);
    }
}
