//! Builds an `ExportLogsServiceRequest`, and holds the attributes that a file's records share.
//!
//! A record's length is known before it is written. A group's isn't: it is filled in at its end.

use millrace_wire::limits::{DAYS, WRITTEN_BYTES};
use millrace_wire::otlp::{Days, ROW_BYTES, TimeRange, repeated_bytes};
use millrace_wire::protobuf::{
    FIXED64, LENGTH, VARINT, begin_group, end_group, field_tag, put_bytes, varint_len,
};

use crate::container::{OutputStream, STREAMS};
use crate::parse::{
    BodyLocation, ParseBuffers, ParseFault, ParsedRecord, ReservedNames, TRUNCATED,
};
use crate::parser::RecordParser;
use crate::text::{is_text, put_replaced, replaced_len};

const STREAM: &str = "log.iostream";

// Tags of ExportLogsServiceRequest, ResourceLogs, ScopeLogs.
const RESOURCE_LOGS: u8 = field_tag(1, LENGTH) as u8;
const RESOURCE: u8 = field_tag(1, LENGTH) as u8;
const SCOPE_LOGS: u8 = field_tag(2, LENGTH) as u8;
const LOG_RECORD: u8 = field_tag(2, LENGTH) as u8;
// Tags of LogRecord.
const TIME: u8 = field_tag(1, FIXED64) as u8;
const SEVERITY_NUMBER: u8 = field_tag(2, VARINT) as u8;
const SEVERITY_TEXT: u8 = field_tag(3, LENGTH) as u8;
const BODY: u8 = field_tag(5, LENGTH) as u8;
pub(crate) const ATTRIBUTE: u8 = field_tag(6, LENGTH) as u8;
const OBSERVED_TIME: u8 = field_tag(11, FIXED64) as u8;
// Tags of Resource, KeyValue, AnyValue.
const RESOURCE_ATTRIBUTE: u8 = field_tag(1, LENGTH) as u8;
const KEY: u8 = field_tag(1, LENGTH) as u8;
const VALUE: u8 = field_tag(2, LENGTH) as u8;
const STRING: u8 = field_tag(1, LENGTH) as u8;
const BOOL: u8 = field_tag(2, VARINT) as u8;

/// The maximum bytes of a record's head: its tag and length, two times, tags and lengths of the
/// body, and a severity of 32 bytes.
const HEAD_BYTES_MAX: usize = 96;

/// Memory retained for the next text that is unescaped, decoded or replaced.
const RETAINED_BYTES: usize = 64 * 1024;

/// A request is full at this many days: half of its limit, less the four records by which it may
/// exceed it.
const DAYS_FULL: usize = DAYS / 2 - 4;

/// A request is full at this written size: a quarter of its limit. The remainder is for the records
/// by which it may exceed it.
const WRITTEN_BYTES_FULL: u64 = WRITTEN_BYTES / 4;

/// The maximum age of a field's time at reading, and how far ahead it may be: 400 days and two,
/// what gateways accept by default. With a record outside this range, they would set aside all
/// records of its file in the message.
const AGE_NANOS_MAX: u64 = 400 * DAY_NANOS;
const AHEAD_NANOS_MAX: u64 = 2 * DAY_NANOS;
const DAY_NANOS: u64 = 86_400 * 1_000_000_000;

/// The overhead of an attribute over its bytes, as `wire` counts it.
const ATTRIBUTE_BYTES: usize = 16;

/// The attributes that all records of a file share, encoded once: of the resource, and of each
/// record (such as `log.file.path`). Each open file has one.
#[derive(Clone, Debug)]
pub struct FileAttributes {
    resource: Box<[u8]>,
    attributes: Box<[u8]>,
    /// Names that no field of a line may set.
    reserved: ReservedNames,
    /// The bytes of a row in tables on top of a record's own bytes.
    row_bytes: u64,
    /// Whether its lines become no records.
    is_excluded: bool,
}

impl FileAttributes {
    /// Encodes attributes with text values, of the resource and of each record.
    #[must_use]
    pub fn new(resource: &[(&str, &str)], record: &[(&str, &str)]) -> Self {
        let mut inner = Vec::new();
        for (key, value) in resource {
            put_attribute(&mut inner, RESOURCE_ATTRIBUTE, key, value);
        }
        let mut field = Vec::new();
        put_bytes(&mut field, RESOURCE, &inner);
        let mut attributes = Vec::new();
        for (key, value) in record {
            put_attribute(&mut attributes, ATTRIBUTE, key, value);
        }
        let shared = field.len() + ATTRIBUTE_BYTES * resource.len();
        let row_bytes = ROW_BYTES + repeated_bytes(shared as u64);
        let reserved = ReservedNames::new(resource.iter().chain(record).map(|(key, _)| *key));
        let (resource, attributes) = (field.into(), attributes.into());
        Self { resource, attributes, reserved, row_bytes, is_excluded: false }
    }

    /// Marks a file whose lines become no records.
    #[must_use]
    pub fn without_records(self) -> Self {
        Self { is_excluded: true, ..self }
    }
}

pub(crate) fn put_attribute(out: &mut Vec<u8>, tag: u8, key: &str, value: &str) {
    let mut inner = Vec::new();
    put_bytes(&mut inner, STRING, value.as_bytes());
    put_key_value(out, tag, key, &inner);
}

pub(crate) fn put_key_value(out: &mut Vec<u8>, tag: u8, key: &str, value: &[u8]) {
    let mut inner = Vec::new();
    put_bytes(&mut inner, KEY, key.as_bytes());
    put_bytes(&mut inner, VALUE, value);
    put_bytes(out, tag, &inner);
}

/// A request being written: records of several files, in a group for each. [`LogsRequest::clear`]
/// retains its buffer.
///
/// It is full at its limit, or earlier by the days or the written size of its records. A record
/// always fits: one record may exceed the limit, or three when a file is flushed.
#[derive(Debug)]
pub struct LogsRequest {
    bytes: Vec<u8>,
    limit_bytes: usize,
    /// The length after the last record. A group's head alone doesn't count: a request that isn't
    /// full accepts a record of any source.
    record_end: usize,
    count: u64,
    written_bytes: u64,
    days: Days,
    /// The attribute of each stream.
    streams: [Vec<u8>; STREAMS],
    /// The attribute of a record that was cut.
    truncated: Vec<u8>,
    /// Buffers for fields of a record's text.
    buffers: ParseBuffers,
    /// Buffer for texts that aren't UTF-8.
    replaced: Vec<u8>,
    /// Buffer for a line that is unescaped or decoded.
    scratch: Vec<u8>,
}

impl LogsRequest {
    /// Creates an empty request that is full at `limit_bytes`, at most 16 MiB.
    #[must_use]
    pub fn with_limit(limit_bytes: usize) -> Self {
        let streams = [Some("stdout"), Some("stderr"), None].map(|stream| {
            let mut out = Vec::new();
            if let Some(stream) = stream {
                put_attribute(&mut out, ATTRIBUTE, STREAM, stream);
            }
            out
        });
        let mut truncated = Vec::new();
        put_key_value(&mut truncated, ATTRIBUTE, TRUNCATED, &[BOOL, 1]);
        Self {
            bytes: Vec::new(),
            limit_bytes: limit_bytes.clamp(1, WRITTEN_BYTES_FULL as usize),
            record_end: 0,
            count: 0,
            written_bytes: 0,
            days: Days::default(),
            streams,
            truncated,
            buffers: ParseBuffers::default(),
            replaced: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Begins a source's records. Dropping the result ends them.
    pub fn begin_records<'a>(&'a mut self, source: &'a FileAttributes) -> Records<'a> {
        let start = self.bytes.len();
        self.bytes.push(RESOURCE_LOGS);
        let outer = begin_group(&mut self.bytes);
        self.bytes.extend_from_slice(&source.resource);
        self.bytes.push(SCOPE_LOGS);
        let inner = begin_group(&mut self.bytes);
        Records { request: self, source, start, groups: [outer, inner] }
    }

    /// The bytes written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The number of records written.
    #[must_use]
    pub const fn record_count(&self) -> u64 {
        self.count
    }

    /// Whether the request has no record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it must be sent before more is written.
    #[inline]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.record_end >= self.limit_bytes
            || self.written_bytes >= WRITTEN_BYTES_FULL
            || self.days.len() >= DAYS_FULL
    }

    /// Empties the request, and retains its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.record_end = 0;
        self.count = 0;
        self.written_bytes = 0;
        self.days.clear();
    }
}

/// The records of one source in a request.
#[derive(Debug)]
pub struct Records<'a> {
    request: &'a mut LogsRequest,
    source: &'a FileAttributes,
    start: usize,
    groups: [usize; 2],
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct LineRecord<'a> {
    pub(crate) stream: OutputStream,
    /// 0 if unknown.
    pub(crate) time_unix_nano: u64,
    pub(crate) observed_time_unix_nano: u64,
    pub(crate) body: &'a [u8],
    pub(crate) is_cut: bool,
}

/// The fields of a record's text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordFields<'a> {
    /// 0 if unknown.
    pub(crate) time_unix_nano: u64,
    /// Number and text: 0 and empty if there is none.
    pub(crate) severity: (u8, &'a [u8]),
    pub(crate) attributes: &'a [u8],
    /// The bytes that its fields add in tables to the record's own bytes.
    pub(crate) nested_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteOutcome {
    /// False if U+FFFD replaced bytes of its body.
    pub(crate) is_text: bool,
    /// Why its parser couldn't parse it.
    pub(crate) fault: Option<ParseFault>,
    /// Whether the field of its time or severity can't be parsed.
    pub(crate) has_bad_time: bool,
    pub(crate) has_bad_severity: bool,
}

impl<'a> Records<'a> {
    /// Whether the request must be sent before more is written.
    #[inline]
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.request.is_full()
    }

    /// Whether this source's lines become no records.
    #[inline]
    pub(crate) const fn is_excluded(&self) -> bool {
        self.source.is_excluded
    }

    /// Takes the shared, empty buffer for a line that is unescaped or decoded.
    #[inline]
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.request.scratch)
    }

    /// Returns the buffer of [`Self::take_scratch`].
    #[inline]
    pub(crate) fn return_scratch(&mut self, mut scratch: Vec<u8>) {
        scratch.clear();
        scratch.shrink_to(RETAINED_BYTES);
        self.request.scratch = scratch;
    }

    /// Writes a record, with the fields that `parser` extracts.
    #[inline]
    pub(crate) fn write(
        &mut self,
        record: &LineRecord<'_>,
        parser: Option<&mut RecordParser>,
    ) -> WriteOutcome {
        if let Some(parser) = parser {
            return self.write_parsed(record, parser);
        }
        let more =
            RecordFields { time_unix_nano: record.time_unix_nano, ..RecordFields::default() };
        let is_text = self.write_plain(record, &more);
        WriteOutcome { is_text, fault: None, has_bad_time: false, has_bad_severity: false }
    }

    /// Writes a record whose body is its text. Returns false if U+FFFD replaced some of it.
    #[inline]
    pub(crate) fn write_plain(&mut self, record: &LineRecord<'_>, more: &RecordFields<'_>) -> bool {
        let is_text = is_text(record.body);
        let body_bytes = if is_text { record.body.len() } else { replaced_len(record.body) };
        self.write_head(record, body_bytes, more);
        let out = &mut self.request.bytes;
        if is_text {
            out.extend_from_slice(record.body);
        } else {
            put_replaced(out, record.body);
        }
        self.write_tail(record, more);
        is_text
    }

    #[inline(never)]
    fn write_parsed(&mut self, record: &LineRecord<'_>, parser: &mut RecordParser) -> WriteOutcome {
        let is_text = is_text(record.body);
        let mut buffers = std::mem::take(&mut self.request.buffers);
        let mut replaced = std::mem::take(&mut self.request.replaced);
        let text = if is_text {
            record.body
        } else {
            put_replaced(&mut replaced, record.body);
            &replaced[..]
        };
        let now = record.observed_time_unix_nano;
        let times = TimeRange::around_local_clock(now, AGE_NANOS_MAX, AHEAD_NANOS_MAX);
        let parsed = parser.parse_text(text, &self.source.reserved, &mut buffers, times);
        let (found, attributes) = match &parsed {
            Ok(found) => (*found, &buffers.attributes[..]),
            Err(_) => (ParsedRecord::default(), &[][..]),
        };
        let body = match found.body {
            BodyLocation::Full => text,
            BodyLocation::Part(part) => part,
            BodyLocation::Unescaped => &buffers.body,
        };
        let time_unix_nano = match found.time_unix_nano {
            0 => record.time_unix_nano,
            time => time,
        };
        let (severity, nested_bytes) = (found.severity, found.nested_bytes);
        let more = RecordFields { time_unix_nano, severity, attributes, nested_bytes };
        self.write_head(record, body.len(), &more);
        self.request.bytes.extend_from_slice(body);
        self.write_tail(record, &more);
        let written = WriteOutcome {
            is_text,
            has_bad_time: found.is_bad_timestamp,
            has_bad_severity: found.is_bad_severity,
            fault: parsed.err(),
        };
        buffers.release_excess();
        replaced.clear();
        replaced.shrink_to(RETAINED_BYTES);
        (self.request.buffers, self.request.replaced) = (buffers, replaced);
        written
    }

    /// Writes the bytes before the body.
    #[inline]
    fn write_head(&mut self, record: &LineRecord<'_>, body_bytes: usize, more: &RecordFields<'_>) {
        let (number, word) = more.severity;
        let value_bytes = 1 + varint_len(body_bytes as u64) + body_bytes;
        let time_bytes = if more.time_unix_nano == 0 { 0 } else { 9 };
        let number_bytes = if number == 0 { 0 } else { 2 };
        let word_bytes = if word.is_empty() { 0 } else { 2 + word.len() };
        let record_bytes = time_bytes
            + 9
            + number_bytes
            + word_bytes
            + (1 + varint_len(value_bytes as u64) + value_bytes)
            + more.attributes.len()
            + self.receiver_bytes(record);
        let mut head = RecordHead::default();
        head.push_integer(LOG_RECORD, record_bytes as u64);
        if more.time_unix_nano != 0 {
            head.push_fixed64(TIME, more.time_unix_nano);
        }
        head.push_fixed64(OBSERVED_TIME, record.observed_time_unix_nano);
        if number != 0 {
            head.push_integer(SEVERITY_NUMBER, number.into());
        }
        if !word.is_empty() {
            head.push_integer(SEVERITY_TEXT, word.len() as u64);
            word.iter().for_each(|byte| head.push_byte(*byte));
        }
        head.push_integer(BODY, value_bytes as u64);
        head.push_integer(STRING, body_bytes as u64);
        self.request.written_bytes += record_bytes as u64 + more.nested_bytes;

        let out = &mut self.request.bytes;
        out.reserve(record_bytes + HEAD_BYTES_MAX);
        out.extend_from_slice(&head.bytes[..head.length]);
    }

    /// Writes the bytes after the body. The receiver's own attributes come last.
    #[inline]
    fn write_tail(&mut self, record: &LineRecord<'_>, more: &RecordFields<'_>) {
        let LogsRequest { bytes: out, streams, truncated, .. } = &mut *self.request;
        out.extend_from_slice(more.attributes);
        out.extend_from_slice(&streams[record.stream as usize]);
        out.extend_from_slice(&self.source.attributes);
        if record.is_cut {
            out.extend_from_slice(truncated);
        }

        self.request.record_end = self.request.bytes.len();
        self.request.count += 1;
        self.request.written_bytes += self.source.row_bytes;
        let time = match more.time_unix_nano {
            0 => record.observed_time_unix_nano,
            time => time,
        };
        self.request.days.record_time(time, usize::MAX);
    }

    /// The bytes of the receiver's own attributes.
    #[inline]
    fn receiver_bytes(&self, record: &LineRecord<'_>) -> usize {
        let cut_bytes = if record.is_cut { self.request.truncated.len() } else { 0 };
        self.request.streams[record.stream as usize].len()
            + self.source.attributes.len()
            + cut_bytes
    }
}

impl Drop for Records<'_> {
    /// Fills in the lengths, or removes an empty group.
    fn drop(&mut self) {
        let [outer, inner] = self.groups;
        if self.request.bytes.len() == inner {
            self.request.bytes.truncate(self.start);
        } else {
            end_group(&mut self.request.bytes, inner);
            end_group(&mut self.request.bytes, outer);
        }
    }
}

/// The bytes before a record's body, assembled here and copied at once.
struct RecordHead {
    bytes: [u8; HEAD_BYTES_MAX],
    length: usize,
}

impl Default for RecordHead {
    #[inline]
    fn default() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], length: 0 }
    }
}

impl RecordHead {
    #[inline]
    fn push_byte(&mut self, push_byte: u8) {
        self.bytes[self.length] = push_byte;
        self.length += 1;
    }

    #[inline]
    fn push_integer(&mut self, tag: u8, mut value: u64) {
        self.push_byte(tag);
        while value >= 0x80 {
            self.push_byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.push_byte(value as u8);
    }

    #[inline]
    fn push_fixed64(&mut self, tag: u8, value: u64) {
        self.push_byte(tag);
        self.bytes[self.length..self.length + 8].copy_from_slice(&value.to_le_bytes());
        self.length += 8;
    }
}
