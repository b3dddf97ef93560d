//! Open records: lines and parts of lines, joined up to a limit.

use crate::container::{STREAMS, Stream};
use crate::text::whole_characters;

/// Memory kept for the next record. Longer ones are rare enough for an allocation each, and there
/// may be ten thousand files.
const KEPT_BYTES: usize = 4 * 1024;

/// A stream's open record, or none.
#[derive(Debug, Default)]
pub(crate) struct Open {
    body: Vec<u8>,
    pub(crate) is_open: bool,
    /// Whether its last line goes on.
    pub(crate) is_in_line: bool,
    /// Whether some of it was skipped.
    is_cut: bool,
    /// The first line's start in the file, and its time.
    pub(crate) start: u64,
    pub(crate) time_unix_nano: u64,
    /// The last line's start in `body` and in the file, and its time.
    line_at: usize,
    line_start: u64,
    line_time: u64,
}

/// What is written of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) time_unix_nano: u64,
    pub(crate) is_cut: bool,
}

/// A file's open records, one for each stream. Most files have none, which takes no memory.
#[derive(Debug, Default)]
pub(crate) struct OpenRecords(Option<Box<[Open; STREAMS]>>);

impl OpenRecords {
    /// The records that are open.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Stream, &Open)> {
        let all = self.0.iter().flat_map(|all| Stream::ALL.into_iter().zip(all.iter()));
        all.filter(|(_, open)| open.is_open)
    }

    /// Whether a stream has an open record.
    #[inline]
    pub(crate) fn has(&self, stream: Stream) -> bool {
        self.0.as_ref().is_some_and(|all| all[stream as usize].is_open)
    }

    /// Whether the last line of a stream's open record goes on.
    #[inline]
    pub(crate) fn is_in_line(&self, stream: Stream) -> bool {
        self.0.as_ref().is_some_and(|all| all[stream as usize].is_in_line)
    }

    /// What is joined of a stream's open record.
    pub(crate) fn body(&self, stream: Stream) -> &[u8] {
        self.0.as_ref().map_or(&[], |all| all[stream as usize].body())
    }

    /// A stream's place for an open record.
    pub(crate) fn of(&mut self, stream: Stream) -> &mut Open {
        &mut self.0.get_or_insert_default()[stream as usize]
    }

    /// Frees the memory if no record is open.
    pub(crate) fn release(&mut self) {
        if self.iter().next().is_none() {
            self.0 = None;
        }
    }
}

impl Open {
    /// What is joined of it.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Memory that it takes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.capacity()
    }

    /// Begins a record with a line or the first part of one. None may be open.
    pub(crate) fn begin(&mut self, start: u64, time_unix_nano: u64, limit: usize, text: &[u8]) {
        self.is_open = true;
        self.is_cut = false;
        (self.start, self.time_unix_nano) = (start, time_unix_nano);
        (self.line_at, self.line_start, self.line_time) = (0, start, time_unix_nano);
        self.extend(text, limit);
    }

    /// Whether another line, or the first part of one, has room.
    pub(crate) fn has_room(&self, text: &[u8], limit: usize) -> bool {
        !self.is_cut && joined_len(self.body.len(), text.len()) <= limit
    }

    /// Adds a line, or the first part of one, that has room.
    pub(crate) fn add_line(&mut self, start: u64, time_unix_nano: u64, limit: usize, text: &[u8]) {
        if self.body.is_empty() {
            // Empty lines at the beginning aren't kept.
            return self.begin(start, time_unix_nano, limit, text);
        }
        self.extend(b"\n", limit);
        (self.line_at, self.line_start, self.line_time) = (self.body.len(), start, time_unix_nano);
        self.extend(text, limit);
    }

    /// Whether the lines before the last one must go so that `text` fits.
    pub(crate) fn has_to_split(&self, text: &[u8], limit: usize) -> bool {
        !self.is_cut && self.line_at > 0 && self.body.len() + text.len() > limit
    }

    /// The lines before the last one.
    pub(crate) fn before_line(&self) -> Whole<'_> {
        let body = &self.body[..self.line_at - 1];
        Whole { body, time_unix_nano: self.time_unix_nano, is_cut: true }
    }

    /// Removes them: the last line begins a record.
    pub(crate) fn split(&mut self) {
        self.body.drain(..self.line_at);
        (self.line_at, self.start, self.time_unix_nano) = (0, self.line_start, self.line_time);
    }

    /// Adds to the last line what fits.
    pub(crate) fn extend(&mut self, text: &[u8], limit: usize) {
        if self.is_cut {
            return;
        }
        let room = limit - self.body.len().min(limit);
        let needed = self.body.len() + text.len().min(room);
        if needed > self.body.capacity() {
            // Doubled each time, up to the limit.
            let capacity = needed.max(2 * self.body.capacity()).min(limit);
            self.body.reserve_exact(capacity - self.body.len());
        }
        self.body.extend_from_slice(&text[..text.len().min(room)]);
        if text.len() > room {
            self.is_cut = true;
            let whole = whole_characters(&self.body[self.line_at..]).len();
            self.body.truncate(self.line_at + whole);
        }
    }

    /// Notes that more of its last line was skipped.
    pub(crate) fn mark_cut(&mut self) {
        self.is_cut = true;
    }

    /// What is written of it.
    pub(crate) fn whole(&self) -> Whole<'_> {
        Whole { body: &self.body, time_unix_nano: self.time_unix_nano, is_cut: self.is_cut }
    }

    /// Ends the record.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
        self.is_in_line = false;
        self.body.clear();
        if self.body.capacity() > KEPT_BYTES {
            self.body = Vec::new();
        }
    }
}

/// A record's length with another line. Empty lines at the beginning aren't kept.
#[inline]
pub(crate) fn joined_len(body_bytes: usize, line_bytes: usize) -> usize {
    if body_bytes == 0 { line_bytes } else { body_bytes + 1 + line_bytes }
}
