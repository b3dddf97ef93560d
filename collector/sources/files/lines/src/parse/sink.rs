//! Receives a parser's results: attributes as OTLP's bytes, and fields with a role.
//!
//! A scalar's lengths are known before it is written. An object's or array's aren't: one byte is
//! reserved for each, and its content moves if that is too short.

use millrace_wire::otlp::TimeRange;
use millrace_wire::protobuf::{FIXED64, LENGTH, VARINT, field_tag, put_varint, varint_len};

use super::reserved::{PREFIX, ReservedNames};
use super::severity::{self, SEVERITY_BYTES_MAX};
use super::{FIELDS_MAX, NAME_BYTES_MAX, NESTED_BYTES_MAX, ParseFault, Roles};
use crate::container::json_text::append_unescaped;

// Tags of LogRecord; of KeyValueList and ArrayValue, which are the same; of KeyValue; of AnyValue.
const ATTRIBUTE: u8 = field_tag(6, LENGTH) as u8;
const MEMBER: u8 = field_tag(1, LENGTH) as u8;
const KEY: u8 = field_tag(1, LENGTH) as u8;
const VALUE: u8 = field_tag(2, LENGTH) as u8;
const STRING: u8 = field_tag(1, LENGTH) as u8;
const BOOL: u8 = field_tag(2, VARINT) as u8;
const INT: u8 = field_tag(3, VARINT) as u8;
const DOUBLE: u8 = field_tag(4, FIXED64) as u8;
const ARRAY: u8 = field_tag(5, LENGTH) as u8;
const LIST: u8 = field_tag(6, LENGTH) as u8;

/// Memory retained for the next record. Longer records are rare.
const RETAINED_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug)]
pub(super) enum FieldValue<'a> {
    Text(&'a [u8]),
    /// Text with JSON's escapes in it.
    Escaped(&'a [u8]),
    Int(i64),
    Double(f64),
    Bool(bool),
    Null,
}

/// The location of the body.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum BodyLocation<'a> {
    /// The complete text.
    #[default]
    Full,
    /// A part of the text.
    Part(&'a [u8]),
    /// The body was unescaped into [`ParseBuffers::body`].
    Unescaped,
}

/// The parsed values other than attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ParsedRecord<'a> {
    pub(crate) body: BodyLocation<'a>,
    /// 0 if the text has none.
    pub(crate) time_unix_nano: u64,
    /// Number and text. The number is 0 for an unknown text; the text is empty if there is none.
    pub(crate) severity: (u8, &'a [u8]),
    /// The bytes that members of objects add in tables to the record's own bytes.
    pub(crate) nested_bytes: u64,
    pub(crate) is_bad_timestamp: bool,
    pub(crate) is_bad_severity: bool,
}

/// Memory that is reused for each record.
#[derive(Debug, Default)]
pub(crate) struct ParseBuffers {
    /// The record's encoded attributes.
    pub(crate) attributes: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The names in the open objects, as marks and as positions in `attributes`.
    marks: Vec<u32>,
    name_spans: Vec<(usize, usize)>,
}

impl ParseBuffers {
    /// Frees memory that only a long record needed.
    pub(crate) fn release_excess(&mut self) {
        self.attributes.clear();
        self.attributes.shrink_to(RETAINED_BYTES);
        self.body.clear();
        self.body.shrink_to(RETAINED_BYTES);
    }
}

/// The depth of an object or array, and the length of the names around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct NestingLevel {
    depth: usize,
    names_bytes: usize,
}

impl NestingLevel {
    pub(super) const TOP: Self = Self { depth: 0, names_bytes: 0 };

    pub(super) const fn child_level(&self, name: &[u8]) -> Self {
        // The name may have a prefix.
        let more = if self.is_top() { PREFIX.len() } else { 0 };
        Self { depth: self.depth + 1, names_bytes: self.names_bytes + more + name.len() + 1 }
    }

    pub(super) const fn is_top(&self) -> bool {
        self.depth == 0
    }

    pub(super) const fn depth(&self) -> usize {
        self.depth
    }
}

/// A member whose value is being written: the positions of its content, value and list.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenMember {
    content: usize,
    value: usize,
    list: usize,
    name_bytes: usize,
}

/// An element whose value is being written.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenElement {
    value: usize,
    list: usize,
}

pub(super) struct FieldSink<'s, 'a> {
    roles: &'s Roles,
    reserved: &'s ReservedNames,
    buffers: &'s mut ParseBuffers,
    /// The range of times that a field may set.
    times: TimeRange,
    parsed: ParsedRecord<'a>,
    has_body: bool,
    has_severity: bool,
    values: usize,
    names_from: usize,
}

impl<'s, 'a> FieldSink<'s, 'a> {
    pub(super) fn new(
        roles: &'s Roles,
        reserved: &'s ReservedNames,
        buffers: &'s mut ParseBuffers,
        times: TimeRange,
    ) -> Self {
        buffers.attributes.clear();
        buffers.body.clear();
        buffers.marks.clear();
        buffers.name_spans.clear();
        Self {
            roles,
            reserved,
            buffers,
            times,
            parsed: ParsedRecord::default(),
            has_body: false,
            has_severity: false,
            values: 0,
            names_from: 0,
        }
    }

    pub(super) fn into_parsed(self) -> ParsedRecord<'a> {
        self.parsed
    }

    /// Writes a field of the record. `raw` is its value as in the text.
    #[inline]
    pub(super) fn write_field(
        &mut self,
        name: &[u8],
        raw: &'a [u8],
        value: FieldValue<'a>,
    ) -> Result<(), ParseFault> {
        self.count_value()?;
        if self.assign_role(name, raw, value)? {
            return Ok(());
        }
        let prefix = self.reserved.prefix_for(name, false);
        self.write_pair(ATTRIBUTE, prefix, name, value)?;
        Ok(())
    }

    /// Writes a member of an object within the record.
    pub(super) fn write_member(
        &mut self,
        name: &[u8],
        value: FieldValue<'_>,
        level: &NestingLevel,
    ) -> Result<(), ParseFault> {
        self.count_value()?;
        let content_bytes = self.write_pair(MEMBER, &[], name, value)?;
        self.count_nested(content_bytes, level)
    }

    pub(super) fn write_element(&mut self, value: FieldValue<'_>) -> Result<(), ParseFault> {
        self.count_value()?;
        let out = &mut self.buffers.attributes;
        out.push(MEMBER);
        if let FieldValue::Escaped(text) = value {
            let start = begin_length(out);
            put_escaped(out, text)?;
            end_length(out, start);
        } else {
            put_varint(out, value_len(value) as u64);
            put_value(out, value);
        }
        Ok(())
    }

    /// Begins an object's names. Returns the argument of [`Self::leave_object`].
    pub(super) fn enter_object(&mut self) -> usize {
        std::mem::replace(&mut self.names_from, self.buffers.marks.len())
    }

    pub(super) fn leave_object(&mut self, names_from: usize) {
        self.buffers.marks.truncate(self.names_from);
        self.buffers.name_spans.truncate(self.names_from);
        self.names_from = names_from;
    }

    /// Begins a field or member that is an object or an array.
    pub(super) fn open_member(
        &mut self,
        name: &[u8],
        level: &NestingLevel,
        is_object: bool,
    ) -> Result<OpenMember, ParseFault> {
        self.count_value()?;
        let (tag, prefix) = match level.is_top() {
            true => (ATTRIBUTE, self.reserved.prefix_for(name, is_object)),
            false => (MEMBER, &[][..]),
        };
        self.check_name(prefix, name)?;
        let name_bytes = prefix.len() + name.len();
        let out = &mut self.buffers.attributes;
        out.push(tag);
        let content = begin_length(out);
        out.push(KEY);
        put_varint(out, name_bytes as u64);
        out.extend_from_slice(prefix);
        out.extend_from_slice(name);
        out.push(VALUE);
        let value = begin_length(out);
        out.push(if is_object { LIST } else { ARRAY });
        let list = begin_length(out);
        Ok(OpenMember { content, value, list, name_bytes })
    }

    pub(super) fn close_member(
        &mut self,
        opened: OpenMember,
        level: &NestingLevel,
    ) -> Result<(), ParseFault> {
        let OpenMember { content, value, list, name_bytes } = opened;
        let out = &mut self.buffers.attributes;
        end_length(out, list);
        end_length(out, value);
        let (content, content_bytes) = end_length(out, content);
        let name_at = content + 1 + varint_len(name_bytes as u64);
        self.record_name(name_at, name_bytes);
        if level.is_top() { Ok(()) } else { self.count_nested(content_bytes, level) }
    }

    /// Begins an element that is an object or an array.
    pub(super) fn open_element(&mut self, is_object: bool) -> Result<OpenElement, ParseFault> {
        self.count_value()?;
        let out = &mut self.buffers.attributes;
        out.push(MEMBER);
        let value = begin_length(out);
        out.push(if is_object { LIST } else { ARRAY });
        Ok(OpenElement { value, list: begin_length(out) })
    }

    pub(super) fn close_element(&mut self, opened: OpenElement) {
        end_length(&mut self.buffers.attributes, opened.list);
        end_length(&mut self.buffers.attributes, opened.value);
    }

    #[inline]
    fn count_value(&mut self) -> Result<(), ParseFault> {
        self.values += 1;
        if self.values > FIELDS_MAX { Err(ParseFault::TooManyFields) } else { Ok(()) }
    }

    fn count_nested(
        &mut self,
        content_bytes: usize,
        level: &NestingLevel,
    ) -> Result<(), ParseFault> {
        self.parsed.nested_bytes += (level.names_bytes + content_bytes) as u64;
        let is_within = self.parsed.nested_bytes <= NESTED_BYTES_MAX;
        if is_within { Ok(()) } else { Err(ParseFault::TooLarge) }
    }

    /// Assigns the field to its role. Returns false if it has none.
    #[inline]
    fn assign_role(
        &mut self,
        name: &[u8],
        raw: &'a [u8],
        value: FieldValue<'a>,
    ) -> Result<bool, ParseFault> {
        let is_one = |names: &[String]| names.iter().any(|one| one.as_bytes() == name);
        if !self.has_body && is_one(&self.roles.body) {
            return self.assign_body(value);
        }
        if self.parsed.time_unix_nano == 0 && is_one(&self.roles.timestamp) {
            return Ok(self.assign_time(raw, value));
        }
        if !self.has_severity && is_one(&self.roles.severity) {
            return Ok(self.assign_severity(raw, value));
        }
        Ok(false)
    }

    fn assign_body(&mut self, value: FieldValue<'a>) -> Result<bool, ParseFault> {
        self.parsed.body = match value {
            FieldValue::Text(text) => BodyLocation::Part(text),
            FieldValue::Escaped(text) => {
                put_unescaped(&mut self.buffers.body, text)?;
                BodyLocation::Unescaped
            }
            _ => return Ok(false),
        };
        self.has_body = true;
        Ok(true)
    }

    fn assign_time(&mut self, raw: &[u8], value: FieldValue<'_>) -> bool {
        let read = match value {
            FieldValue::Text(_) | FieldValue::Int(_) | FieldValue::Double(_) => {
                self.roles.time_format.read(raw)
            }
            FieldValue::Escaped(_) | FieldValue::Bool(_) | FieldValue::Null => None,
        };
        // An uptime isn't a time, whatever the field's name.
        let read = read.filter(|time| self.times.contains(*time));
        self.parsed.time_unix_nano = read.unwrap_or_default();
        self.parsed.is_bad_timestamp |= read.is_none();
        read.is_some()
    }

    fn assign_severity(&mut self, raw: &'a [u8], value: FieldValue<'_>) -> bool {
        let is_word = matches!(value, FieldValue::Text(_) | FieldValue::Int(_));
        let number = severity::parse_severity(raw);
        self.parsed.is_bad_severity |= number.is_none() || !is_word;
        if !is_word || raw.is_empty() || raw.len() > SEVERITY_BYTES_MAX {
            return false;
        }
        self.parsed.severity = (number.unwrap_or_default(), raw);
        self.has_severity = true;
        true
    }

    /// Writes a name and its value. Returns their bytes, without tag and length.
    #[inline]
    fn write_pair(
        &mut self,
        tag: u8,
        prefix: &[u8],
        name: &[u8],
        value: FieldValue<'_>,
    ) -> Result<usize, ParseFault> {
        self.check_name(prefix, name)?;
        let name_bytes = prefix.len() + name.len();
        let out = &mut self.buffers.attributes;
        let (name_at, content_bytes);
        out.push(tag);
        if let FieldValue::Escaped(text) = value {
            let content = begin_length(out);
            put_name(out, prefix, name);
            out.push(VALUE);
            let inner = begin_length(out);
            put_escaped(out, text)?;
            end_length(out, inner);
            let (content, bytes) = end_length(out, content);
            content_bytes = bytes;
            name_at = content + 1 + varint_len(name_bytes as u64);
        } else {
            let value_bytes = value_len(value);
            content_bytes = field_len(name_bytes) + field_len(value_bytes);
            put_varint(out, content_bytes as u64);
            name_at = put_name(out, prefix, name);
            out.push(VALUE);
            put_varint(out, value_bytes as u64);
            put_value(out, value);
        }
        self.record_name(name_at, name_bytes);
        Ok(content_bytes)
    }

    /// Checks that a name is short enough, and new in its object.
    #[inline]
    fn check_name(&self, prefix: &[u8], name: &[u8]) -> Result<(), ParseFault> {
        if name.len() > NAME_BYTES_MAX {
            return Err(ParseFault::LongName);
        }
        let ParseBuffers { attributes, marks, name_spans, .. } = &*self.buffers;
        let mark = name_mark(prefix, name);
        for (known, (at, length)) in marks.iter().zip(name_spans).skip(self.names_from) {
            if *known == mark
                && let Some(rest) = attributes[*at..at + length].strip_prefix(prefix)
                && rest == name
            {
                return Err(ParseFault::RepeatedName);
            }
        }
        Ok(())
    }

    #[inline]
    fn record_name(&mut self, at: usize, length: usize) {
        let ParseBuffers { attributes, marks, name_spans, .. } = &mut *self.buffers;
        marks.push(name_mark(&[], &attributes[at..at + length]));
        name_spans.push((at, length));
    }
}

/// Distinguishes most names: by length, first, middle and last bytes.
#[inline]
fn name_mark(prefix: &[u8], name: &[u8]) -> u32 {
    let length = prefix.len() + name.len();
    let byte = |at: usize| match at.checked_sub(prefix.len()) {
        None => u32::from(prefix[at]),
        Some(at) => name.get(at).map_or(0, |byte| u32::from(*byte)),
    };
    let last = byte(length.saturating_sub(1));
    length as u32 & 0xff | byte(0) << 8 | byte(length / 2) << 16 | last << 24
}

/// Writes a name. Returns the position of its bytes.
#[inline]
fn put_name(out: &mut Vec<u8>, prefix: &[u8], name: &[u8]) -> usize {
    out.push(KEY);
    put_varint(out, (prefix.len() + name.len()) as u64);
    let at = out.len();
    out.extend_from_slice(prefix);
    out.extend_from_slice(name);
    at
}

/// The bytes of a field with a tag of one byte and a length.
#[inline]
fn field_len(bytes: usize) -> usize {
    1 + varint_len(bytes as u64) + bytes
}

/// The bytes of a value whose length is known.
#[inline]
fn value_len(value: FieldValue<'_>) -> usize {
    match value {
        FieldValue::Text(text) => field_len(text.len()),
        FieldValue::Int(value) => 1 + varint_len(value as u64),
        FieldValue::Double(_) => 9,
        FieldValue::Bool(_) => 2,
        FieldValue::Null | FieldValue::Escaped(_) => 0,
    }
}

#[inline]
fn put_value(out: &mut Vec<u8>, value: FieldValue<'_>) {
    match value {
        FieldValue::Text(text) => {
            out.push(STRING);
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        }
        FieldValue::Int(value) => {
            out.push(INT);
            put_varint(out, value as u64);
        }
        FieldValue::Double(value) => {
            out.push(DOUBLE);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        FieldValue::Bool(value) => out.extend_from_slice(&[BOOL, u8::from(value)]),
        FieldValue::Null | FieldValue::Escaped(_) => {}
    }
}

fn put_escaped(out: &mut Vec<u8>, text: &[u8]) -> Result<(), ParseFault> {
    out.push(STRING);
    let start = begin_length(out);
    put_unescaped(out, text)?;
    end_length(out, start);
    Ok(())
}

fn put_unescaped(out: &mut Vec<u8>, text: &[u8]) -> Result<(), ParseFault> {
    if append_unescaped(text, out) { Ok(()) } else { Err(ParseFault::Malformed) }
}

/// Reserves a byte for a length. Returns the position of the content.
fn begin_length(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Writes the length of the content at `start`, which moves if that takes more than a byte. Returns
/// the content's new position and its length.
fn end_length(out: &mut Vec<u8>, start: usize) -> (usize, usize) {
    let length = out.len() - start;
    let more = varint_len(length as u64) - 1;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(start..start + length, start + more);
    }
    let mut rest = length;
    for byte in &mut out[start - 1..start + more] {
        *byte = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
    }
    out[start - 1 + more] &= 0x7f;
    (start + more, length)
}
