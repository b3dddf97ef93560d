//! Reads a file's bytes in order and writes complete records.
//!
//! The caller retains an unfinished line and passes it again with more bytes after it. The reader
//! holds parts of a container's line, and lines of an open record.

use std::sync::Arc;

use memchr::memchr;

use crate::container::docker;
use crate::container::{LinePart, OutputStream, STREAMS, parse_cri};
use crate::encoding::TextEncoding;
use crate::form::{Container, MultilineRule, RecordRules};
use crate::open::{OpenRecords, RecordText, joined_len};
use crate::parse::ParseFault;
use crate::parser::RecordParser;
use crate::request::{LineRecord, Records};
use crate::text::{complete_chars, cut_text, without_cr, without_empty_lines};

/// The number of records written, and of those that were changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Records written.
    pub records: u64,
    /// Records that were cut, or are continued in the next record.
    pub cut: u64,
    /// Records with bytes that aren't UTF-8.
    pub invalid_utf8: u64,
    /// Records of container lines without the container's format.
    pub unparsed: u64,
    /// Records whose text, time or severity doesn't fit the source's [`crate::ParseRules`], in the
    /// order of [`ParseFault::ALL`].
    pub parse_faults: [u64; ParseFault::ALL.len()],
}

impl RecordCounts {
    #[inline]
    fn write_record(
        &mut self,
        parser: Option<&mut RecordParser>,
        out: &mut Records<'_>,
        stream: OutputStream,
        now_unix_nanos: u64,
        text: RecordText<'_>,
    ) {
        if out.is_excluded() {
            return;
        }
        let record = LineRecord {
            stream,
            time_unix_nano: text.time_unix_nano,
            observed_time_unix_nano: now_unix_nanos,
            body: text.body,
            is_cut: text.is_cut,
        };
        let written = out.write(&record, parser);
        self.records += 1;
        self.cut += u64::from(text.is_cut);
        self.invalid_utf8 += u64::from(!written.is_text);
        if let Some(fault) = written.fault {
            self.parse_faults[fault as usize] += 1;
        }
        self.parse_faults[ParseFault::Timestamp as usize] += u64::from(written.has_bad_time);
        self.parse_faults[ParseFault::Severity as usize] += u64::from(written.has_bad_severity);
    }

    /// Writes a record of several lines, unless all of them are empty.
    fn write_lines(
        &mut self,
        parser: Option<&mut RecordParser>,
        out: &mut Records<'_>,
        stream: OutputStream,
        now_unix_nanos: u64,
        text: RecordText<'_>,
    ) {
        let body = without_empty_lines(text.body);
        if !body.is_empty() {
            self.write_record(parser, out, stream, now_unix_nanos, RecordText { body, ..text });
        }
    }
}

/// Why open records are written.
#[derive(Clone, Copy, Debug)]
pub enum FlushReason<'a> {
    /// No bytes came for some time: an open multiline record is complete. An unfinished line
    /// remains.
    Idle,
    /// No more bytes will come.
    File {
        /// The unfinished last line, which counts as complete.
        unfinished_line: &'a [u8],
    },
}

/// Where a restart reads on.
///
/// Records of a container's two streams overlap. A restart from `offset` alone loses nothing, but
/// repeats records that end after it, some without their beginning. With `written`, nothing is
/// repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The start of the first line that isn't in a written record.
    pub offset: u64,
    /// Lines that start before these offsets are in written records: of standard output, standard
    /// error, and neither.
    pub written: [u64; STREAMS],
}

/// Reads one file's bytes in order, by the crate's rules.
#[derive(Debug)]
pub struct LineReader {
    form: Arc<RecordRules>,
    /// The form's encoding, or the one that the file's byte order mark states.
    encoding: TextEncoding,
    offset: u64,
    /// The start of the line whose remainder is skipped.
    skipped_line: Option<u64>,
    open: OpenRecords,
    /// Lines before these offsets were written by an earlier reader.
    written: [u64; STREAMS],
    counts: RecordCounts,
    parser: Option<Box<RecordParser>>,
}

struct RawLine<'a> {
    text: &'a [u8],
    is_cut: bool,
    /// The offset of the next line.
    next: usize,
    /// Whether the line continues after the bytes.
    continues: bool,
}

/// An open record whose lines are contiguous in the caller's bytes.
struct OpenSpan {
    from: usize,
    to: usize,
    start: u64,
}

impl LineReader {
    /// Reads from `offset` on, where a line starts.
    #[must_use]
    pub fn new(form: Arc<RecordRules>, offset: u64) -> Self {
        Self::resume_from(form, Resume { offset, written: [offset; STREAMS] })
    }

    /// Continues where another reader of the file stopped.
    #[must_use]
    pub fn resume_from(form: Arc<RecordRules>, from: Resume) -> Self {
        Self {
            parser: RecordParser::new(&form).map(Box::new),
            encoding: form.line_encoding(),
            form,
            offset: from.offset,
            skipped_line: None,
            open: OpenRecords::default(),
            written: from.written,
            counts: RecordCounts::default(),
        }
    }

    /// Applies the byte order mark of a file that begins with `head`. A reader from offset 0 finds
    /// it itself.
    #[must_use]
    pub fn of_file(self, head: &[u8]) -> Self {
        Self { encoding: self.encoding.of_file(head), ..self }
    }

    /// Reads from `offset` on, within a line, whose remainder is skipped.
    #[must_use]
    pub fn within_line(form: Arc<RecordRules>, offset: u64) -> Self {
        Self { skipped_line: Some(offset), ..Self::new(form, offset) }
    }

    /// Reads bytes that follow the previous ones, and writes complete records to `out`. Returns the
    /// number of bytes consumed: fewer than given if the remainder is an unfinished line, or `out`
    /// is full.
    ///
    /// A line longer than `max_record_bytes` and [`crate::LINE_OVERHEAD_BYTES`] is always consumed.
    pub fn read_bytes(
        &mut self,
        bytes: &[u8],
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        let at = self.skip_line(bytes);
        if self.encoding != TextEncoding::Utf8 {
            return self.read_encoded(bytes, at, now_unix_nanos, out);
        }
        let form = Arc::clone(&self.form);
        match (form.container, &form.multiline) {
            (Container::None, None) => self.read_lines(bytes, at, now_unix_nanos, out),
            (Container::None, Some(rule)) => self.read_groups(rule, bytes, at, now_unix_nanos, out),
            _ => self.read_parts(bytes, at, now_unix_nanos, out),
        }
    }

    /// Writes open records, even to a full request.
    pub fn flush(&mut self, end: FlushReason<'_>, now_unix_nanos: u64, out: &mut Records<'_>) {
        let is_end = matches!(end, FlushReason::File { .. });
        if let FlushReason::File { unfinished_line: rest } = end {
            let at = self.skip_line(rest);
            let start = self.offset;
            self.offset += (rest.len() - at) as u64;
            // Half a unit after a skipped line is skipped with it.
            if self.skipped_line.take().is_none() && at < rest.len() {
                self.write_last_line(&rest[at..], start, now_unix_nanos, out);
            }
        }
        let is_joined = self.form.multiline.is_some();
        while let Some(stream) = self.first_open(is_end) {
            let open = self.open.slot_of(stream);
            let parser = self.parser.as_deref_mut();
            if is_joined {
                self.counts.write_lines(parser, out, stream, now_unix_nanos, open.record_text());
            } else {
                self.counts.write_record(parser, out, stream, now_unix_nanos, open.record_text());
            }
            open.close();
        }
        self.open.free_if_idle();
    }

    /// Switches to another form of the same file, with another parser or multiline rule, for all
    /// further bytes. Open records are written by the former form, except one with an unfinished
    /// line, which ends by the new form. Returns false if the form is already in use.
    pub fn switch_form(
        &mut self,
        form: &Arc<RecordRules>,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> bool {
        if Arc::ptr_eq(&self.form, form) {
            return false;
        }
        self.flush(FlushReason::Idle, now_unix_nanos, out);
        self.parser = RecordParser::new(form).map(Box::new);
        self.form = Arc::clone(form);
        true
    }

    /// Where a restart reads on without losing a record: the start of the first line that isn't in
    /// a written record.
    #[must_use]
    pub fn resume_offset(&self) -> u64 {
        self.resume_point().offset
    }

    /// Where a restart reads on without losing or repeating a record.
    #[must_use]
    pub fn resume_point(&self) -> Resume {
        let starts = self.open.iter().map(|(_, open)| open.start);
        let offset = starts.chain(self.skipped_line).fold(self.offset, u64::min);
        let mut written = self.written.map(|written| written.max(self.offset));
        for (stream, open) in self.open.iter() {
            written[stream as usize] = open.start;
        }
        Resume { offset, written }
    }

    /// The end of the consumed bytes.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether [`FlushReason::Idle`] would write an open record.
    #[must_use]
    pub fn has_open(&self) -> bool {
        self.first_open(false).is_some()
    }

    /// Memory of open records: at most the longest record for each stream.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.open.iter().map(|(_, open)| open.held_bytes()).sum()
    }

    /// Whether a line ends in `bytes`, which follow the consumed ones.
    #[must_use]
    pub fn has_line(&self, bytes: &[u8]) -> bool {
        let lead = self.encoding.lead_bytes(self.offset, bytes);
        self.encoding.line_feed(&bytes[lead..]).is_some()
    }

    /// Returns and resets the counts.
    pub fn take_counts(&mut self) -> RecordCounts {
        std::mem::take(&mut self.counts)
    }

    /// The open record that starts first; unless `all`, of those whose last line is complete.
    fn first_open(&self, all: bool) -> Option<OutputStream> {
        let open = self.open.iter().filter(|(_, open)| all || !open.is_in_line);
        open.min_by_key(|(_, open)| open.start).map(|(stream, _)| stream)
    }

    /// Skips the remainder of a long line. Returns where the next one begins.
    fn skip_line(&mut self, bytes: &[u8]) -> usize {
        if self.skipped_line.is_none() {
            return 0;
        }
        let lead = self.encoding.lead_bytes(self.offset, bytes);
        let (units, unit_bytes) = (&bytes[lead..], self.encoding.unit_bytes());
        let end = self.encoding.line_feed(units);
        if end.is_some() {
            self.skipped_line = None;
        }
        let aligned_bytes = units.len() - units.len() % unit_bytes;
        let passed = lead + end.map_or(aligned_bytes, |end| end + unit_bytes);
        self.offset += passed as u64;
        passed
    }

    /// Moves past a line. Returns its start.
    #[inline]
    fn advance_past(&mut self, line: &RawLine<'_>, at: usize) -> u64 {
        let start = self.offset;
        self.offset += (line.next - at) as u64;
        if line.continues {
            self.skipped_line = Some(start);
        }
        start
    }

    /// Reads lines that are records.
    fn read_lines(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        let limit = self.form.line_bytes();
        while !out.is_full() {
            let Some(line) = plain_line(bytes, at, limit) else { break };
            let start = self.advance_past(&line, at);
            at = line.next;
            let is_written = start < self.written[OutputStream::Unknown as usize];
            if !line.text.is_empty() && !is_written {
                let text = RecordText { body: line.text, time_unix_nano: 0, is_cut: line.is_cut };
                self.counts.write_record(
                    self.parser.as_deref_mut(),
                    out,
                    OutputStream::Unknown,
                    now_unix_nanos,
                    text,
                );
            }
        }
        at
    }

    /// Reads lines of a plain file that isn't UTF-8.
    fn read_encoded(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        let limit = self.form.line_bytes();
        while !out.is_full() {
            let rest = &bytes[at..];
            if self.offset == 0 {
                self.encoding = self.encoding.of_file(rest);
            }
            let unit_bytes = self.encoding.unit_bytes();
            let lead = self.encoding.lead_bytes(self.offset, rest);
            let units = &rest[lead..];
            let end = self.encoding.line_feed(units);
            // The last unit may be a CR that isn't part of the line.
            if end.is_none() && units.len() < limit + 2 * unit_bytes {
                break;
            }
            let aligned_bytes = units.len() - units.len() % unit_bytes;
            let line = RawLine {
                text: &units[..end.unwrap_or(aligned_bytes)],
                is_cut: end.is_none(),
                next: at + lead + end.map_or(aligned_bytes, |end| end + unit_bytes),
                continues: end.is_none(),
            };
            let start = self.advance_past(&line, at);
            at = line.next;
            self.write_encoded(line.text, start, now_unix_nanos, out);
        }
        at
    }

    /// Reads lines of multiline records. Only a record that is open at the end of `bytes` is
    /// copied.
    fn read_groups(
        &mut self,
        rule: &MultilineRule,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        const PLAIN: OutputStream = OutputStream::Unknown;
        let limit = self.form.line_bytes();
        let mut here: Option<OpenSpan> = None;
        while !out.is_full() {
            let Some(line) = plain_line(bytes, at, limit) else { break };
            let from = at;
            let start = self.advance_past(&line, at);
            at = line.next;
            if start < self.written[PLAIN as usize] {
                continue;
            }
            let joined = here.as_ref().map(|here| &bytes[here.from..here.to]);
            let begins = rule
                .begins_record(line.text, || joined.unwrap_or_else(|| self.open.body_of(PLAIN)));
            let starts_record = begins || line.is_cut;
            let is_open = here.is_some() || self.open.has_open(PLAIN);
            match &mut here {
                Some(here) if !starts_record && here.has_capacity(from, line.text, limit) => {
                    here.add_line(from, line.text, start);
                }
                _ if line.is_cut || !begins && is_open => {
                    self.copy_open(here.take(), bytes);
                    let part = plain_part(line.text, line.is_cut);
                    self.write_part(&part, start, now_unix_nanos, out);
                }
                _ => {
                    self.write_open(here.take(), bytes, now_unix_nanos, out);
                    if begins || !line.text.is_empty() {
                        here = Some(OpenSpan { from, to: from + line.text.len(), start });
                    }
                }
            }
        }
        self.copy_open(here, bytes);
        at
    }

    /// Copies an open record out of `bytes`.
    fn copy_open(&mut self, here: Option<OpenSpan>, bytes: &[u8]) {
        if let Some(here) = here {
            let limit = self.form.record_bytes();
            let open = self.open.slot_of(OutputStream::Unknown);
            open.begin_record(here.start, 0, limit, &bytes[here.from..here.to]);
        }
    }

    /// Writes an open record of a plain file.
    fn write_open(
        &mut self,
        here: Option<OpenSpan>,
        bytes: &[u8],
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        const PLAIN: OutputStream = OutputStream::Unknown;
        let parser = self.parser.as_deref_mut();
        if let Some(here) = here {
            let body = &bytes[here.from..here.to];
            let text = RecordText { body, time_unix_nano: 0, is_cut: false };
            self.counts.write_lines(parser, out, PLAIN, now_unix_nanos, text);
        } else if self.open.has_open(PLAIN) {
            let open = self.open.slot_of(PLAIN);
            self.counts.write_lines(parser, out, PLAIN, now_unix_nanos, open.record_text());
            open.close();
        }
    }

    /// Reads lines of containers.
    fn read_parts(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        let limit = self.form.line_bytes();
        while !out.is_full() {
            let Some(line) = find_line(bytes, at, limit, false) else { break };
            let start = self.advance_past(&line, at);
            at = line.next;
            self.write_container_line(line.text, line.is_cut, start, now_unix_nanos, out);
        }
        at
    }

    fn write_container_line(
        &mut self,
        line: &[u8],
        is_cut: bool,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let is_docker = match self.form.container {
            Container::DockerJson => true,
            Container::Detect => line.first() == Some(&b'{'),
            Container::None | Container::Cri => false,
        };
        if !is_docker {
            return match parse_cri(line) {
                Some(part) => {
                    let part = LinePart { is_cut, ..part };
                    self.write_part(&part, start, now_unix_nanos, out);
                }
                None => self.write_unparsed(line, is_cut, start, now_unix_nanos, out),
            };
        }
        let mut scratch = out.take_scratch();
        let part = if is_cut {
            docker::parse_cut(line, &mut scratch)
        } else {
            docker::parse_line(line, &mut scratch)
        };
        match part {
            Some(part) if part.stream == OutputStream::Unknown => {
                self.write_single(&part, start, now_unix_nanos, out);
            }
            Some(part) => self.write_part(&part, start, now_unix_nanos, out),
            None => self.write_unparsed(line, is_cut, start, now_unix_nanos, out),
        }
        out.return_scratch(scratch);
    }

    /// Writes the unfinished line at a file's end.
    fn write_last_line(
        &mut self,
        text: &[u8],
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        if self.encoding != TextEncoding::Utf8 {
            let lead = self.encoding.lead_bytes(start, text);
            return self.write_encoded(&text[lead..], start, now_unix_nanos, out);
        }
        let is_plain = self.form.container == Container::None;
        let text = if is_plain { without_cr(text) } else { text };
        let (text, is_cut) = cut_text(text, self.form.line_bytes());
        if !is_plain {
            return self.write_container_line(text, is_cut, start, now_unix_nanos, out);
        }
        self.write_plain(&plain_part(text, is_cut), start, now_unix_nanos, out);
    }

    /// Writes a line that isn't UTF-8, without its end.
    fn write_encoded(
        &mut self,
        text: &[u8],
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let text = self.encoding.without_cr(text);
        let (text, is_cut) = self.encoding.cut_text(text, self.form.line_bytes());
        let mut scratch = out.take_scratch();
        self.encoding.decode(text, &mut scratch);
        self.write_plain(&plain_part(&scratch, is_cut), start, now_unix_nanos, out);
        out.return_scratch(scratch);
    }

    /// Writes a line of a plain file.
    fn write_plain(
        &mut self,
        part: &LinePart<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        if self.form.multiline.is_some() {
            self.write_part(part, start, now_unix_nanos, out);
        } else if !part.text.is_empty() {
            self.write_single(part, start, now_unix_nanos, out);
        }
    }

    /// Writes a line without the container's format, unless it is empty.
    #[cold]
    fn write_unparsed(
        &mut self,
        line: &[u8],
        is_cut: bool,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let line = without_cr(line);
        if line.is_empty() || start < self.written[OutputStream::Unknown as usize] {
            return;
        }
        self.counts.unparsed += 1;
        let (body, more) = cut_text(line, self.form.record_bytes());
        let text = RecordText { body, time_unix_nano: 0, is_cut: is_cut || more };
        self.counts.write_record(None, out, OutputStream::Unknown, now_unix_nanos, text);
    }

    /// Writes a line that is a record.
    #[inline]
    fn write_single(
        &mut self,
        part: &LinePart<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        if start < self.written[part.stream as usize] {
            return;
        }
        let (body, is_cut) = cut_text(part.text, self.form.record_bytes());
        let is_cut = is_cut || part.is_cut;
        let text = RecordText { body, time_unix_nano: part.time_unix_nano, is_cut };
        self.counts.write_record(
            self.parser.as_deref_mut(),
            out,
            part.stream,
            now_unix_nanos,
            text,
        );
    }

    /// Writes a line or a part of one, which may belong to a multiline record.
    #[inline]
    fn write_part(
        &mut self,
        part: &LinePart<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let stream = part.stream;
        let is_joined = self.form.multiline.is_some();
        if part.is_last && !is_joined && !self.open.is_in_line(stream) {
            return self.write_single(part, start, now_unix_nanos, out);
        }
        if start < self.written[stream as usize] {
            return;
        }
        if is_joined {
            self.write_overdue(part, now_unix_nanos, out);
        }
        self.add_part(part, start, now_unix_nanos, out);
        if !self.open.has_open(stream) {
            return;
        }
        let open = self.open.slot_of(stream);
        if part.is_cut {
            open.mark_cut();
        }
        open.is_in_line = !part.is_last;
        if part.is_last && !is_joined {
            self.counts.write_record(
                self.parser.as_deref_mut(),
                out,
                stream,
                now_unix_nanos,
                open.record_text(),
            );
            open.close();
            self.open.free_if_idle();
        }
    }

    /// Writes open records of other streams that are overdue at this line's time.
    fn write_overdue(&mut self, part: &LinePart<'_>, now_unix_nanos: u64, out: &mut Records<'_>) {
        let overdue = part.time_unix_nano.saturating_sub(self.form.timeout_nanos);
        while let Some(stream) = self.open.older_than(overdue, part.stream) {
            let open = self.open.slot_of(stream);
            let parser = self.parser.as_deref_mut();
            self.counts.write_lines(parser, out, stream, now_unix_nanos, open.record_text());
            open.close();
        }
    }

    fn add_part(
        &mut self,
        part: &LinePart<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let &LinePart { stream, time_unix_nano, text, .. } = part;
        let limit = self.form.record_bytes();
        let open = self.open.slot_of(stream);
        if open.is_in_line {
            if open.has_to_split(text, limit) {
                self.counts.write_lines(
                    self.parser.as_deref_mut(),
                    out,
                    stream,
                    now_unix_nanos,
                    open.before_line(),
                );
                open.drain_lines();
            }
            return open.extend(text, limit);
        }
        let rule = self.form.multiline.as_ref();
        let begins = rule.is_none_or(|rule| rule.begins_record(text, || open.body()));
        if open.is_open {
            if !begins && open.has_capacity(text, limit) {
                return open.add_line(start, time_unix_nano, limit, text);
            }
            let record = open.record_text();
            let is_cut = record.is_cut || !begins;
            self.counts.write_lines(
                self.parser.as_deref_mut(),
                out,
                stream,
                now_unix_nanos,
                RecordText { is_cut, ..record },
            );
            open.close();
        } else if !begins && text.is_empty() && part.is_last {
            return;
        }
        open.begin_record(start, time_unix_nano, limit, text);
    }
}

impl OpenSpan {
    /// Whether the line at `from` follows the record directly, and fits.
    #[inline]
    fn has_capacity(&self, from: usize, line: &[u8], limit: usize) -> bool {
        self.to + 1 == from && joined_len(self.to - self.from, line.len()) <= limit
    }

    /// Adds a line. Empty lines at the beginning are dropped.
    #[inline]
    fn add_line(&mut self, from: usize, line: &[u8], start: u64) {
        if self.from == self.to {
            (self.from, self.start) = (from, start);
        }
        self.to = from + line.len();
    }
}

fn plain_part(text: &[u8], is_cut: bool) -> LinePart<'_> {
    LinePart { stream: OutputStream::Unknown, time_unix_nano: 0, text, is_last: true, is_cut }
}

/// Returns the line at `at`, without its end. None if its end is missing and it may still be short
/// enough.
#[inline]
fn plain_line(bytes: &[u8], at: usize, limit: usize) -> Option<RawLine<'_>> {
    find_line(bytes, at, limit, true)
}

#[inline]
fn find_line(bytes: &[u8], at: usize, limit: usize, ends_with_cr: bool) -> Option<RawLine<'_>> {
    let rest = &bytes[at..];
    let Some(length) = memchr(b'\n', rest) else {
        // The last byte may be a CR that isn't part of the line.
        return (rest.len() > limit + 1).then(|| RawLine {
            text: complete_chars(&rest[..limit]),
            is_cut: true,
            next: bytes.len(),
            continues: true,
        });
    };
    let text = &rest[..length];
    let text = if ends_with_cr { without_cr(text) } else { text };
    let (text, is_cut) = cut_text(text, limit);
    Some(RawLine { text, is_cut, next: at + length + 1, continues: false })
}
