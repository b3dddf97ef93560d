//! Reads a file's bytes in order and writes whole records.
//!
//! The caller keeps an unfinished line and passes it again with more behind it. The reader holds
//! parts of a container's line, and lines of an open record.

use std::sync::Arc;

use memchr::memchr;

use crate::container::{Part, STREAMS, Stream, cri};
use crate::docker;
use crate::encoding::Encoding;
use crate::form::{Container, Form, Multiline};
use crate::open::{OpenRecords, Whole, joined_len};
use crate::parse::{ParseFault, Parser};
use crate::request::{Record, Records};
use crate::text::{cut, whole_characters, without_cr, without_empty_lines};

/// What was written, and how much of it was changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Records written.
    pub records: u64,
    /// Of them: cut, or continued in the next record.
    pub cut: u64,
    /// Of them: with bytes that aren't UTF-8.
    pub invalid_utf8: u64,
    /// Of them: container lines without the container's format.
    pub unparsed: u64,
    /// Of them: text, time or severity doesn't fit the source's [`crate::Parse`], in the order of
    /// [`ParseFault::ALL`].
    pub parse_faults: [u64; ParseFault::ALL.len()],
}

impl Counts {
    #[inline]
    fn put(
        &mut self,
        parser: Option<&mut Parser>,
        out: &mut Records<'_>,
        stream: Stream,
        now_unix_nanos: u64,
        whole: Whole<'_>,
    ) {
        if out.is_passed_over() {
            return;
        }
        let record = Record {
            stream,
            time_unix_nano: whole.time_unix_nano,
            observed_time_unix_nano: now_unix_nanos,
            body: whole.body,
            is_cut: whole.is_cut,
        };
        let written = out.write(&record, parser);
        self.records += 1;
        self.cut += u64::from(whole.is_cut);
        self.invalid_utf8 += u64::from(!written.is_text);
        if let Some(fault) = written.fault {
            self.parse_faults[fault as usize] += 1;
        }
        self.parse_faults[ParseFault::Timestamp as usize] += u64::from(written.has_bad_time);
        self.parse_faults[ParseFault::Severity as usize] += u64::from(written.has_bad_severity);
    }

    /// A record of several lines. One of empty lines alone is none.
    fn put_lines(
        &mut self,
        parser: Option<&mut Parser>,
        out: &mut Records<'_>,
        stream: Stream,
        now_unix_nanos: u64,
        whole: Whole<'_>,
    ) {
        let body = without_empty_lines(whole.body);
        if !body.is_empty() {
            self.put(parser, out, stream, now_unix_nanos, Whole { body, ..whole });
        }
    }
}

/// Why open records are written.
#[derive(Clone, Copy, Debug)]
pub enum End<'a> {
    /// Nothing came for some time: an open record of several lines is complete. An unfinished line
    /// stays.
    Idle,
    /// No more bytes will come.
    File {
        /// The unfinished last line. It counts as complete.
        rest: &'a [u8],
    },
}

/// Where a restart reads on.
///
/// Records of a container's two streams overlap. A restart from `offset` alone loses nothing, but
/// repeats records that end behind it, some without their beginning. With `written`, nothing is
/// repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// The start of the first line that isn't in a written record.
    pub offset: u64,
    /// Lines that start before these are in written records: of standard output, standard error,
    /// and neither.
    pub written: [u64; STREAMS],
}

/// Reads one file's bytes in order. See the crate's rules.
#[derive(Debug)]
pub struct Reader {
    form: Arc<Form>,
    /// The form's, or the order of the file's byte order mark.
    encoding: Encoding,
    offset: u64,
    /// The start of the line whose rest is skipped.
    passing: Option<u64>,
    open: OpenRecords,
    /// Lines before these were written by an earlier reader.
    written: [u64; STREAMS],
    counts: Counts,
    parser: Option<Box<Parser>>,
}

/// A line in the caller's bytes.
struct Line<'a> {
    text: &'a [u8],
    is_cut: bool,
    /// Where the next line begins.
    next: usize,
    /// Whether the line goes on behind the bytes.
    goes_on: bool,
}

/// An open record whose lines lie in sequence in the caller's bytes.
struct Here {
    from: usize,
    to: usize,
    start: u64,
}

impl Reader {
    /// Reads from `offset` on, where a line starts.
    #[must_use]
    pub fn new(form: Arc<Form>, offset: u64) -> Self {
        Self::resumed(form, Resume { offset, written: [offset; STREAMS] })
    }

    /// Continues where another reader of the file was.
    #[must_use]
    pub fn resumed(form: Arc<Form>, from: Resume) -> Self {
        Self {
            parser: Parser::new(&form).map(Box::new),
            encoding: form.encoding(),
            form,
            offset: from.offset,
            passing: None,
            open: OpenRecords::default(),
            written: from.written,
            counts: Counts::default(),
        }
    }

    /// The file begins with `head`: a byte order mark in it decides. A reader from offset 0 finds
    /// it itself.
    #[must_use]
    pub fn of_file(self, head: &[u8]) -> Self {
        Self { encoding: self.encoding.of_file(head), ..self }
    }

    /// Reads from `offset` on, within a line, whose rest is skipped.
    #[must_use]
    pub fn within_line(form: Arc<Form>, offset: u64) -> Self {
        Self { passing: Some(offset), ..Self::new(form, offset) }
    }

    /// Takes bytes that follow those taken before, and writes whole records to `out`. Returns how
    /// many were taken: fewer than given if the rest is an unfinished line, or `out` is full.
    ///
    /// A line longer than `max_record_bytes` and [`crate::LINE_OVERHEAD_BYTES`] is always taken.
    pub fn take(&mut self, bytes: &[u8], now_unix_nanos: u64, out: &mut Records<'_>) -> usize {
        let at = self.pass_over(bytes);
        if self.encoding != Encoding::Utf8 {
            return self.take_encoded(bytes, at, now_unix_nanos, out);
        }
        let form = Arc::clone(&self.form);
        match (form.container, &form.multiline) {
            (Container::None, None) => self.take_lines(bytes, at, now_unix_nanos, out),
            (Container::None, Some(rule)) => self.take_groups(rule, bytes, at, now_unix_nanos, out),
            _ => self.take_parts(bytes, at, now_unix_nanos, out),
        }
    }

    /// Writes open records, also to a full request.
    pub fn flush(&mut self, end: End<'_>, now_unix_nanos: u64, out: &mut Records<'_>) {
        let is_end = matches!(end, End::File { .. });
        if let End::File { rest } = end {
            let at = self.pass_over(rest);
            let start = self.offset;
            self.offset += (rest.len() - at) as u64;
            // Half a unit behind a skipped line goes with it.
            if self.passing.take().is_none() && at < rest.len() {
                self.last_line(&rest[at..], start, now_unix_nanos, out);
            }
        }
        let is_joined = self.form.multiline.is_some();
        while let Some(stream) = self.first_open(is_end) {
            let open = self.open.of(stream);
            let parser = self.parser.as_deref_mut();
            if is_joined {
                self.counts.put_lines(parser, out, stream, now_unix_nanos, open.whole());
            } else {
                self.counts.put(parser, out, stream, now_unix_nanos, open.whole());
            }
            open.close();
        }
        self.open.release();
    }

    /// What is taken from now on is read by another form of the same file: its parser or its rule
    /// of several lines differ. Open records are written by the former one, but for an unfinished
    /// line's, which ends by the new one. False if it is read by that form already.
    pub fn reform(&mut self, form: &Arc<Form>, now_unix_nanos: u64, out: &mut Records<'_>) -> bool {
        if Arc::ptr_eq(&self.form, form) {
            return false;
        }
        self.flush(End::Idle, now_unix_nanos, out);
        self.parser = Parser::new(form).map(Box::new);
        self.form = Arc::clone(form);
        true
    }

    /// Where a restart reads on without losing a record: the start of the first line that isn't in
    /// a written record.
    #[must_use]
    pub fn resume_offset(&self) -> u64 {
        self.resume().offset
    }

    /// Where a restart reads on without losing or repeating a record.
    #[must_use]
    pub fn resume(&self) -> Resume {
        let starts = self.open.iter().map(|(_, open)| open.start);
        let offset = starts.chain(self.passing).fold(self.offset, u64::min);
        let mut written = self.written.map(|written| written.max(self.offset));
        for (stream, open) in self.open.iter() {
            written[stream as usize] = open.start;
        }
        Resume { offset, written }
    }

    /// The end of the bytes taken.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether [`End::Idle`] would write an open record.
    #[must_use]
    pub fn holds_open(&self) -> bool {
        self.first_open(false).is_some()
    }

    /// Memory of open records: at most the longest record for each stream.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.open.iter().map(|(_, open)| open.held_bytes()).sum()
    }

    /// Whether a line ends in `bytes`, which follow those taken.
    #[must_use]
    pub fn has_line(&self, bytes: &[u8]) -> bool {
        let lead = self.encoding.lead_bytes(self.offset, bytes);
        self.encoding.line_feed(&bytes[lead..]).is_some()
    }

    /// What was counted since the last call.
    pub fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }

    /// The open record that starts first; unless `all`, of those whose last line is complete.
    fn first_open(&self, all: bool) -> Option<Stream> {
        let open = self.open.iter().filter(|(_, open)| all || !open.is_in_line);
        open.min_by_key(|(_, open)| open.start).map(|(stream, _)| stream)
    }

    /// Skips the rest of a long line. Returns where the next one begins.
    fn pass_over(&mut self, bytes: &[u8]) -> usize {
        if self.passing.is_none() {
            return 0;
        }
        let lead = self.encoding.lead_bytes(self.offset, bytes);
        let (units, unit_bytes) = (&bytes[lead..], self.encoding.unit_bytes());
        let end = self.encoding.line_feed(units);
        if end.is_some() {
            self.passing = None;
        }
        let whole_bytes = units.len() - units.len() % unit_bytes;
        let passed = lead + end.map_or(whole_bytes, |end| end + unit_bytes);
        self.offset += passed as u64;
        passed
    }

    /// Moves behind a line. Returns its start.
    #[inline]
    fn move_behind(&mut self, line: &Line<'_>, at: usize) -> u64 {
        let start = self.offset;
        self.offset += (line.next - at) as u64;
        if line.goes_on {
            self.passing = Some(start);
        }
        start
    }

    /// Lines that are records.
    fn take_lines(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        let limit = self.form.line_bytes();
        while !out.is_full() {
            let Some(line) = plain_line(bytes, at, limit) else { break };
            let start = self.move_behind(&line, at);
            at = line.next;
            let is_written = start < self.written[Stream::Unknown as usize];
            if !line.text.is_empty() && !is_written {
                let whole = Whole { body: line.text, time_unix_nano: 0, is_cut: line.is_cut };
                self.counts.put(
                    self.parser.as_deref_mut(),
                    out,
                    Stream::Unknown,
                    now_unix_nanos,
                    whole,
                );
            }
        }
        at
    }

    /// Lines of a plain file that isn't UTF-8.
    fn take_encoded(
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
            let whole_bytes = units.len() - units.len() % unit_bytes;
            let line = Line {
                text: &units[..end.unwrap_or(whole_bytes)],
                is_cut: end.is_none(),
                next: at + lead + end.map_or(whole_bytes, |end| end + unit_bytes),
                goes_on: end.is_none(),
            };
            let start = self.move_behind(&line, at);
            at = line.next;
            self.put_encoded(line.text, start, now_unix_nanos, out);
        }
        at
    }

    /// Lines of which several are a record. Only what is open at the end of `bytes` is copied.
    fn take_groups(
        &mut self,
        rule: &Multiline,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        const PLAIN: Stream = Stream::Unknown;
        let limit = self.form.line_bytes();
        let mut here: Option<Here> = None;
        while !out.is_full() {
            let Some(line) = plain_line(bytes, at, limit) else { break };
            let from = at;
            let start = self.move_behind(&line, at);
            at = line.next;
            if start < self.written[PLAIN as usize] {
                continue;
            }
            let joined = here.as_ref().map(|here| &bytes[here.from..here.to]);
            let begins = rule.begins(line.text, || joined.unwrap_or_else(|| self.open.body(PLAIN)));
            let is_apart = begins || line.is_cut;
            let is_open = here.is_some() || self.open.has(PLAIN);
            match &mut here {
                Some(here) if !is_apart && here.has_room(from, line.text, limit) => {
                    here.add(from, line.text, start);
                }
                _ if line.is_cut || !begins && is_open => {
                    self.hold(here.take(), bytes);
                    let part = plain_part(line.text, line.is_cut);
                    self.put_part(&part, start, now_unix_nanos, out);
                }
                _ => {
                    self.put_open(here.take(), bytes, now_unix_nanos, out);
                    if begins || !line.text.is_empty() {
                        here = Some(Here { from, to: from + line.text.len(), start });
                    }
                }
            }
        }
        self.hold(here, bytes);
        at
    }

    /// Copies an open record that lies in `bytes`.
    fn hold(&mut self, here: Option<Here>, bytes: &[u8]) {
        if let Some(here) = here {
            let limit = self.form.record_bytes();
            let open = self.open.of(Stream::Unknown);
            open.begin(here.start, 0, limit, &bytes[here.from..here.to]);
        }
    }

    /// Writes an open record of a plain file.
    fn put_open(
        &mut self,
        here: Option<Here>,
        bytes: &[u8],
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        const PLAIN: Stream = Stream::Unknown;
        let parser = self.parser.as_deref_mut();
        if let Some(here) = here {
            let body = &bytes[here.from..here.to];
            let whole = Whole { body, time_unix_nano: 0, is_cut: false };
            self.counts.put_lines(parser, out, PLAIN, now_unix_nanos, whole);
        } else if self.open.has(PLAIN) {
            let open = self.open.of(PLAIN);
            self.counts.put_lines(parser, out, PLAIN, now_unix_nanos, open.whole());
            open.close();
        }
    }

    /// Lines of containers.
    fn take_parts(
        &mut self,
        bytes: &[u8],
        mut at: usize,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) -> usize {
        let limit = self.form.line_bytes();
        while !out.is_full() {
            let Some(line) = line(bytes, at, limit, false) else { break };
            let start = self.move_behind(&line, at);
            at = line.next;
            self.container_line(line.text, line.is_cut, start, now_unix_nanos, out);
        }
        at
    }

    fn container_line(
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
            return match cri(line) {
                Some(part) => {
                    let part = Part { is_cut, ..part };
                    self.put_part(&part, start, now_unix_nanos, out);
                }
                None => self.put_unparsed(line, is_cut, start, now_unix_nanos, out),
            };
        }
        let mut scratch = out.lend_scratch();
        let part = if is_cut {
            docker::parse_cut(line, &mut scratch)
        } else {
            docker::parse(line, &mut scratch)
        };
        match part {
            Some(part) if part.stream == Stream::Unknown => {
                self.put_alone(&part, start, now_unix_nanos, out);
            }
            Some(part) => self.put_part(&part, start, now_unix_nanos, out),
            None => self.put_unparsed(line, is_cut, start, now_unix_nanos, out),
        }
        out.return_scratch(scratch);
    }

    /// The unfinished line at a file's end.
    fn last_line(&mut self, text: &[u8], start: u64, now_unix_nanos: u64, out: &mut Records<'_>) {
        if self.encoding != Encoding::Utf8 {
            let lead = self.encoding.lead_bytes(start, text);
            return self.put_encoded(&text[lead..], start, now_unix_nanos, out);
        }
        let is_plain = self.form.container == Container::None;
        let text = if is_plain { without_cr(text) } else { text };
        let (text, is_cut) = cut(text, self.form.line_bytes());
        if !is_plain {
            return self.container_line(text, is_cut, start, now_unix_nanos, out);
        }
        self.put_plain(&plain_part(text, is_cut), start, now_unix_nanos, out);
    }

    /// A line that isn't UTF-8, without its end.
    fn put_encoded(&mut self, text: &[u8], start: u64, now_unix_nanos: u64, out: &mut Records<'_>) {
        let text = self.encoding.without_cr(text);
        let (text, is_cut) = self.encoding.cut(text, self.form.line_bytes());
        let mut scratch = out.lend_scratch();
        self.encoding.decode(text, &mut scratch);
        self.put_plain(&plain_part(&scratch, is_cut), start, now_unix_nanos, out);
        out.return_scratch(scratch);
    }

    /// A line of a plain file.
    fn put_plain(
        &mut self,
        part: &Part<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        if self.form.multiline.is_some() {
            self.put_part(part, start, now_unix_nanos, out);
        } else if !part.text.is_empty() {
            self.put_alone(part, start, now_unix_nanos, out);
        }
    }

    /// A line that doesn't have the container's format. An empty one is none.
    #[cold]
    fn put_unparsed(
        &mut self,
        line: &[u8],
        is_cut: bool,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let line = without_cr(line);
        if line.is_empty() || start < self.written[Stream::Unknown as usize] {
            return;
        }
        self.counts.unparsed += 1;
        let (body, more) = cut(line, self.form.record_bytes());
        let whole = Whole { body, time_unix_nano: 0, is_cut: is_cut || more };
        self.counts.put(None, out, Stream::Unknown, now_unix_nanos, whole);
    }

    /// A line that is a record.
    #[inline]
    fn put_alone(
        &mut self,
        part: &Part<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        if start < self.written[part.stream as usize] {
            return;
        }
        let (body, is_cut) = cut(part.text, self.form.record_bytes());
        let is_cut = is_cut || part.is_cut;
        let whole = Whole { body, time_unix_nano: part.time_unix_nano, is_cut };
        self.counts.put(self.parser.as_deref_mut(), out, part.stream, now_unix_nanos, whole);
    }

    /// A line or a part of one, which may be one of several of its record.
    #[inline]
    fn put_part(
        &mut self,
        part: &Part<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let stream = part.stream;
        let is_joined = self.form.multiline.is_some();
        if part.is_last && !is_joined && !self.open.is_in_line(stream) {
            return self.put_alone(part, start, now_unix_nanos, out);
        }
        if start < self.written[stream as usize] {
            return;
        }
        self.add_part(part, start, now_unix_nanos, out);
        if !self.open.has(stream) {
            return;
        }
        let open = self.open.of(stream);
        if part.is_cut {
            open.mark_cut();
        }
        open.is_in_line = !part.is_last;
        if part.is_last && !is_joined {
            self.counts.put(self.parser.as_deref_mut(), out, stream, now_unix_nanos, open.whole());
            open.close();
            self.open.release();
        }
    }

    fn add_part(
        &mut self,
        part: &Part<'_>,
        start: u64,
        now_unix_nanos: u64,
        out: &mut Records<'_>,
    ) {
        let &Part { stream, time_unix_nano, text, .. } = part;
        let limit = self.form.record_bytes();
        let open = self.open.of(stream);
        if open.is_in_line {
            if open.has_to_split(text, limit) {
                self.counts.put_lines(
                    self.parser.as_deref_mut(),
                    out,
                    stream,
                    now_unix_nanos,
                    open.before_line(),
                );
                open.split();
            }
            return open.extend(text, limit);
        }
        let rule = self.form.multiline.as_ref();
        let begins = rule.is_none_or(|rule| rule.begins(text, || open.body()));
        if open.is_open {
            if !begins && open.has_room(text, limit) {
                return open.add_line(start, time_unix_nano, limit, text);
            }
            let whole = open.whole();
            let is_cut = whole.is_cut || !begins;
            self.counts.put_lines(
                self.parser.as_deref_mut(),
                out,
                stream,
                now_unix_nanos,
                Whole { is_cut, ..whole },
            );
            open.close();
        } else if !begins && text.is_empty() && part.is_last {
            return;
        }
        open.begin(start, time_unix_nano, limit, text);
    }
}

impl Here {
    /// Whether the line at `from` follows it, and has room.
    #[inline]
    fn has_room(&self, from: usize, line: &[u8], limit: usize) -> bool {
        self.to + 1 == from && joined_len(self.to - self.from, line.len()) <= limit
    }

    /// Empty lines at the beginning aren't kept.
    #[inline]
    fn add(&mut self, from: usize, line: &[u8], start: u64) {
        if self.from == self.to {
            (self.from, self.start) = (from, start);
        }
        self.to = from + line.len();
    }
}

fn plain_part(text: &[u8], is_cut: bool) -> Part<'_> {
    Part { stream: Stream::Unknown, time_unix_nano: 0, text, is_last: true, is_cut }
}

/// The line at `at`, without its end. None if its end isn't there and it may still be short enough.
#[inline]
fn plain_line(bytes: &[u8], at: usize, limit: usize) -> Option<Line<'_>> {
    line(bytes, at, limit, true)
}

#[inline]
fn line(bytes: &[u8], at: usize, limit: usize, ends_with_cr: bool) -> Option<Line<'_>> {
    let rest = &bytes[at..];
    let Some(length) = memchr(b'\n', rest) else {
        // The last byte may be a CR that isn't part of the line.
        return (rest.len() > limit + 1).then(|| Line {
            text: whole_characters(&rest[..limit]),
            is_cut: true,
            next: bytes.len(),
            goes_on: true,
        });
    };
    let text = &rest[..length];
    let text = if ends_with_cr { without_cr(text) } else { text };
    let (text, is_cut) = cut(text, limit);
    Some(Line { text, is_cut, next: at + length + 1, goes_on: false })
}
