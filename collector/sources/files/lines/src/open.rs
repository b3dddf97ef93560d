//! Holds open records: lines and parts of lines, joined up to a limit.

use crate::container::{OutputStream, STREAMS};
use crate::text::complete_chars;

/// Memory retained for the next record. Longer records are rare enough for an allocation each, and
/// there may be ten thousand files.
const RETAINED_BYTES: usize = 4 * 1024;

#[derive(Debug, Default)]
pub(crate) struct OpenRecord {
    body: Vec<u8>,
    pub(crate) is_open: bool,
    /// Whether its last line is unfinished.
    pub(crate) is_in_line: bool,
    /// Whether some of its bytes were skipped.
    is_cut: bool,
    /// The first line's offset in the file, and its time.
    pub(crate) start: u64,
    pub(crate) time_unix_nano: u64,
    /// The last line's offset in `body` and in the file, and its time.
    line_at: usize,
    line_start: u64,
    line_time: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordText<'a> {
    pub(crate) body: &'a [u8],
    pub(crate) time_unix_nano: u64,
    pub(crate) is_cut: bool,
}

/// A file's open records, one for each stream. Most files have none, which takes no memory.
#[derive(Debug, Default)]
pub(crate) struct OpenRecords(Option<Box<[OpenRecord; STREAMS]>>);

impl OpenRecords {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (OutputStream, &OpenRecord)> {
        let all = self.0.iter().flat_map(|all| OutputStream::ALL.into_iter().zip(all.iter()));
        all.filter(|(_, open)| open.is_open)
    }

    #[inline]
    pub(crate) fn has_open(&self, stream: OutputStream) -> bool {
        self.0.as_ref().is_some_and(|all| all[stream as usize].is_open)
    }

    /// Whether the last line of a stream's open record is unfinished.
    #[inline]
    pub(crate) fn is_in_line(&self, stream: OutputStream) -> bool {
        self.0.as_ref().is_some_and(|all| all[stream as usize].is_in_line)
    }

    /// Finds an open record of another stream whose last line is complete, and older than this
    /// time.
    pub(crate) fn older_than(
        &self,
        time_unix_nano: u64,
        stream: OutputStream,
    ) -> Option<OutputStream> {
        let mut others = self.iter().filter(|(other, _)| *other != stream);
        others.find(|(_, open)| open.is_older(time_unix_nano)).map(|(other, _)| other)
    }

    /// The joined lines of a stream's open record.
    pub(crate) fn body_of(&self, stream: OutputStream) -> &[u8] {
        self.0.as_ref().map_or(&[], |all| all[stream as usize].body())
    }

    /// A stream's slot for an open record.
    pub(crate) fn slot_of(&mut self, stream: OutputStream) -> &mut OpenRecord {
        &mut self.0.get_or_insert_default()[stream as usize]
    }

    /// Frees the memory if no record is open.
    pub(crate) fn free_if_idle(&mut self) {
        if self.iter().next().is_none() {
            self.0 = None;
        }
    }
}

impl OpenRecord {
    /// The joined lines of the record.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The allocated bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.capacity()
    }

    /// Begins a record with a line or the first part of one. None may be open.
    pub(crate) fn begin_record(
        &mut self,
        start: u64,
        time_unix_nano: u64,
        limit: usize,
        text: &[u8],
    ) {
        self.is_open = true;
        self.is_cut = false;
        (self.start, self.time_unix_nano) = (start, time_unix_nano);
        (self.line_at, self.line_start, self.line_time) = (0, start, time_unix_nano);
        self.extend(text, limit);
    }

    /// Whether another line, or the first part of one, fits.
    pub(crate) fn has_capacity(&self, text: &[u8], limit: usize) -> bool {
        !self.is_cut && joined_len(self.body.len(), text.len()) <= limit
    }

    /// Adds a line, or the first part of one, that fits.
    pub(crate) fn add_line(&mut self, start: u64, time_unix_nano: u64, limit: usize, text: &[u8]) {
        if self.body.is_empty() {
            // Empty lines at the beginning are dropped.
            return self.begin_record(start, time_unix_nano, limit, text);
        }
        self.extend(b"\n", limit);
        (self.line_at, self.line_start, self.line_time) = (self.body.len(), start, time_unix_nano);
        self.extend(text, limit);
    }

    /// Whether the lines before the last one must be written so that `text` fits.
    pub(crate) fn has_to_split(&self, text: &[u8], limit: usize) -> bool {
        !self.is_cut && self.line_at > 0 && self.body.len() + text.len() > limit
    }

    /// The lines before the last one.
    pub(crate) fn before_line(&self) -> RecordText<'_> {
        let body = &self.body[..self.line_at - 1];
        RecordText { body, time_unix_nano: self.time_unix_nano, is_cut: true }
    }

    /// Removes the lines before the last one, which then begins a record.
    pub(crate) fn drain_lines(&mut self) {
        self.body.drain(..self.line_at);
        (self.line_at, self.start, self.time_unix_nano) = (0, self.line_start, self.line_time);
    }

    /// Adds as much to the last line as fits.
    pub(crate) fn extend(&mut self, text: &[u8], limit: usize) {
        if self.is_cut {
            return;
        }
        let room = limit - self.body.len().min(limit);
        let needed = self.body.len() + text.len().min(room);
        if needed > self.body.capacity() {
            // The capacity doubles each time, up to the limit.
            let capacity = needed.max(2 * self.body.capacity()).min(limit);
            self.body.reserve_exact(capacity - self.body.len());
        }
        self.body.extend_from_slice(&text[..text.len().min(room)]);
        if text.len() > room {
            self.is_cut = true;
            let complete = complete_chars(&self.body[self.line_at..]).len();
            self.body.truncate(self.line_at + complete);
        }
    }

    /// Whether its last line is complete, and older than this time.
    pub(crate) fn is_older(&self, time_unix_nano: u64) -> bool {
        !self.is_in_line && (1..time_unix_nano).contains(&self.line_time)
    }

    /// Records that more of its last line was skipped.
    pub(crate) fn mark_cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn record_text(&self) -> RecordText<'_> {
        RecordText { body: &self.body, time_unix_nano: self.time_unix_nano, is_cut: self.is_cut }
    }

    /// Ends the record.
    pub(crate) fn close(&mut self) {
        self.is_open = false;
        self.is_in_line = false;
        self.body.clear();
        if self.body.capacity() > RETAINED_BYTES {
            self.body = Vec::new();
        }
    }
}

/// The length of a record with another line. Empty lines at the beginning are dropped.
#[inline]
pub(crate) fn joined_len(body_bytes: usize, line_bytes: usize) -> usize {
    if body_bytes == 0 { line_bytes } else { body_bytes + 1 + line_bytes }
}
