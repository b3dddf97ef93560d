//! Takes what a parser finds: attributes as OTLP's bytes, and fields with a place of their own.
//!
//! A scalar's lengths are known before it is written. An object's or array's aren't: one byte is
//! kept for each, and its content moves if that is too short.

use millrace_wire::protobuf::{FIXED64, LENGTH, VARINT, put_varint, tag, varint_len};

use super::reserved::{PREFIX, Reserved};
use super::severity::{self, SEVERITY_BYTES_MAX};
use super::{FIELDS_MAX, NAME_BYTES_MAX, NESTED_BYTES_MAX, ParseFault, Roles};
use crate::json_text::unescape;

// LogRecord; KeyValueList and ArrayValue, which have the same; KeyValue; AnyValue.
const ATTRIBUTE: u8 = tag(6, LENGTH) as u8;
const MEMBER: u8 = tag(1, LENGTH) as u8;
const KEY: u8 = tag(1, LENGTH) as u8;
const VALUE: u8 = tag(2, LENGTH) as u8;
const STRING: u8 = tag(1, LENGTH) as u8;
const BOOL: u8 = tag(2, VARINT) as u8;
const INT: u8 = tag(3, VARINT) as u8;
const DOUBLE: u8 = tag(4, FIXED64) as u8;
const ARRAY: u8 = tag(5, LENGTH) as u8;
const LIST: u8 = tag(6, LENGTH) as u8;

/// Memory kept for the next record. Longer ones are rare.
const KEPT_BYTES: usize = 64 * 1024;

/// A scalar.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(&'a [u8]),
    /// Text with JSON's escapes in it.
    Escaped(&'a [u8]),
    Int(i64),
    Double(f64),
    Bool(bool),
    Null,
}

/// Where the body is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Body<'a> {
    /// It is the whole text.
    #[default]
    Whole,
    /// It is a part of the text.
    Part(&'a [u8]),
    /// It was unescaped, into [`Buffers::body`].
    Unescaped,
}

/// What was found beside attributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found<'a> {
    pub(crate) body: Body<'a>,
    /// 0 if none was found.
    pub(crate) time_unix_nano: u64,
    /// Number and text. The number is 0 for an unknown text; the text is empty if none was found.
    pub(crate) severity: (u8, &'a [u8]),
    /// What members of objects add in tables to the record's own bytes.
    pub(crate) nested_bytes: u64,
    pub(crate) is_bad_timestamp: bool,
    pub(crate) is_bad_severity: bool,
}

/// Memory used again for each record.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// Attributes of the record.
    pub(crate) attributes: Vec<u8>,
    pub(crate) body: Vec<u8>,
    /// The names of the objects that are open, as marks and as places in `attributes`.
    marks: Vec<u32>,
    places: Vec<(usize, usize)>,
}

impl Buffers {
    /// Frees what only a long record needed.
    pub(crate) fn trim(&mut self) {
        self.attributes.clear();
        self.attributes.shrink_to(KEPT_BYTES);
        self.body.clear();
        self.body.shrink_to(KEPT_BYTES);
    }
}

/// How deep an object or array is, and how long the names around it are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    depth: usize,
    names_bytes: usize,
}

impl Level {
    pub(super) const TOP: Self = Self { depth: 0, names_bytes: 0 };

    pub(super) const fn below(&self, name: &[u8]) -> Self {
        // A prefix, maybe.
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

/// A member whose value is being written: where its content, value and list begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    content: usize,
    value: usize,
    list: usize,
    name_bytes: usize,
}

/// An element, likewise.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenedElement {
    value: usize,
    list: usize,
}

pub(super) struct Sink<'s, 'a> {
    roles: &'s Roles,
    reserved: &'s Reserved,
    buffers: &'s mut Buffers,
    found: Found<'a>,
    has_body: bool,
    has_severity: bool,
    values: usize,
    names_from: usize,
}

impl<'s, 'a> Sink<'s, 'a> {
    pub(super) fn new(roles: &'s Roles, reserved: &'s Reserved, buffers: &'s mut Buffers) -> Self {
        buffers.attributes.clear();
        buffers.body.clear();
        buffers.marks.clear();
        buffers.places.clear();
        Self {
            roles,
            reserved,
            buffers,
            found: Found::default(),
            has_body: false,
            has_severity: false,
            values: 0,
            names_from: 0,
        }
    }

    pub(super) fn found(self) -> Found<'a> {
        self.found
    }

    /// A field of the record, with its value as it stands in the text.
    #[inline]
    pub(super) fn field(
        &mut self,
        name: &[u8],
        raw: &'a [u8],
        value: Value<'a>,
    ) -> Result<(), ParseFault> {
        self.count()?;
        if self.takes(name, raw, value)? {
            return Ok(());
        }
        let prefix = self.reserved.prefix(name, false);
        self.put(ATTRIBUTE, prefix, name, value)?;
        Ok(())
    }

    /// A member of an object within the record.
    pub(super) fn member(
        &mut self,
        name: &[u8],
        value: Value<'_>,
        level: &Level,
    ) -> Result<(), ParseFault> {
        self.count()?;
        let content_bytes = self.put(MEMBER, &[], name, value)?;
        self.count_nested(content_bytes, level)
    }

    /// An element of an array.
    pub(super) fn element(&mut self, value: Value<'_>) -> Result<(), ParseFault> {
        self.count()?;
        let out = &mut self.buffers.attributes;
        out.push(MEMBER);
        if let Value::Escaped(text) = value {
            let start = begin(out);
            put_escaped(out, text)?;
            end(out, start);
        } else {
            put_varint(out, value_len(value) as u64);
            put_value(out, value);
        }
        Ok(())
    }

    /// Begins an object's names. Returns what [`Self::leave`] takes.
    pub(super) fn enter(&mut self) -> usize {
        std::mem::replace(&mut self.names_from, self.buffers.marks.len())
    }

    pub(super) fn leave(&mut self, names_from: usize) {
        self.buffers.marks.truncate(self.names_from);
        self.buffers.places.truncate(self.names_from);
        self.names_from = names_from;
    }

    /// Begins a field or member that is an object or an array.
    pub(super) fn open_member(
        &mut self,
        name: &[u8],
        level: &Level,
        is_object: bool,
    ) -> Result<Opened, ParseFault> {
        self.count()?;
        let (tag, prefix) = match level.is_top() {
            true => (ATTRIBUTE, self.reserved.prefix(name, is_object)),
            false => (MEMBER, &[][..]),
        };
        self.check_name(prefix, name)?;
        let name_bytes = prefix.len() + name.len();
        let out = &mut self.buffers.attributes;
        out.push(tag);
        let content = begin(out);
        out.push(KEY);
        put_varint(out, name_bytes as u64);
        out.extend_from_slice(prefix);
        out.extend_from_slice(name);
        out.push(VALUE);
        let value = begin(out);
        out.push(if is_object { LIST } else { ARRAY });
        let list = begin(out);
        Ok(Opened { content, value, list, name_bytes })
    }

    pub(super) fn close_member(&mut self, opened: Opened, level: &Level) -> Result<(), ParseFault> {
        let Opened { content, value, list, name_bytes } = opened;
        let out = &mut self.buffers.attributes;
        end(out, list);
        end(out, value);
        let (content, content_bytes) = end(out, content);
        let name_at = content + 1 + varint_len(name_bytes as u64);
        self.note_name(name_at, name_bytes);
        if level.is_top() { Ok(()) } else { self.count_nested(content_bytes, level) }
    }

    /// Begins an element that is an object or an array.
    pub(super) fn open_element(&mut self, is_object: bool) -> Result<OpenedElement, ParseFault> {
        self.count()?;
        let out = &mut self.buffers.attributes;
        out.push(MEMBER);
        let value = begin(out);
        out.push(if is_object { LIST } else { ARRAY });
        Ok(OpenedElement { value, list: begin(out) })
    }

    pub(super) fn close_element(&mut self, opened: OpenedElement) {
        end(&mut self.buffers.attributes, opened.list);
        end(&mut self.buffers.attributes, opened.value);
    }

    #[inline]
    fn count(&mut self) -> Result<(), ParseFault> {
        self.values += 1;
        if self.values > FIELDS_MAX { Err(ParseFault::TooManyFields) } else { Ok(()) }
    }

    fn count_nested(&mut self, content_bytes: usize, level: &Level) -> Result<(), ParseFault> {
        self.found.nested_bytes += (level.names_bytes + content_bytes) as u64;
        let is_within = self.found.nested_bytes <= NESTED_BYTES_MAX;
        if is_within { Ok(()) } else { Err(ParseFault::TooLarge) }
    }

    /// Whether the field has a place of its own.
    #[inline]
    fn takes(&mut self, name: &[u8], raw: &'a [u8], value: Value<'a>) -> Result<bool, ParseFault> {
        let is_one = |names: &[String]| names.iter().any(|one| one.as_bytes() == name);
        if !self.has_body && is_one(&self.roles.body) {
            return self.takes_body(value);
        }
        if self.found.time_unix_nano == 0 && is_one(&self.roles.timestamp) {
            return Ok(self.takes_time(raw, value));
        }
        if !self.has_severity && is_one(&self.roles.severity) {
            return Ok(self.takes_severity(raw, value));
        }
        Ok(false)
    }

    fn takes_body(&mut self, value: Value<'a>) -> Result<bool, ParseFault> {
        self.found.body = match value {
            Value::Text(text) => Body::Part(text),
            Value::Escaped(text) => {
                put_unescaped(&mut self.buffers.body, text)?;
                Body::Unescaped
            }
            _ => return Ok(false),
        };
        self.has_body = true;
        Ok(true)
    }

    fn takes_time(&mut self, raw: &[u8], value: Value<'_>) -> bool {
        let read = match value {
            Value::Text(_) | Value::Int(_) | Value::Double(_) => self.roles.time_format.read(raw),
            Value::Escaped(_) | Value::Bool(_) | Value::Null => None,
        };
        self.found.time_unix_nano = read.unwrap_or_default();
        self.found.is_bad_timestamp |= read.is_none();
        read.is_some()
    }

    fn takes_severity(&mut self, raw: &'a [u8], value: Value<'_>) -> bool {
        let is_word = matches!(value, Value::Text(_) | Value::Int(_));
        let number = severity::number(raw);
        self.found.is_bad_severity |= number.is_none() || !is_word;
        if !is_word || raw.is_empty() || raw.len() > SEVERITY_BYTES_MAX {
            return false;
        }
        self.found.severity = (number.unwrap_or_default(), raw);
        self.has_severity = true;
        true
    }

    /// Writes a name and its value. Returns their bytes, without tag and length.
    #[inline]
    fn put(
        &mut self,
        tag: u8,
        prefix: &[u8],
        name: &[u8],
        value: Value<'_>,
    ) -> Result<usize, ParseFault> {
        self.check_name(prefix, name)?;
        let name_bytes = prefix.len() + name.len();
        let out = &mut self.buffers.attributes;
        let (name_at, content_bytes);
        out.push(tag);
        if let Value::Escaped(text) = value {
            let content = begin(out);
            put_name(out, prefix, name);
            out.push(VALUE);
            let inner = begin(out);
            put_escaped(out, text)?;
            end(out, inner);
            let (content, bytes) = end(out, content);
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
        self.note_name(name_at, name_bytes);
        Ok(content_bytes)
    }

    /// Whether a name may be written: short enough, and new in its object.
    #[inline]
    fn check_name(&self, prefix: &[u8], name: &[u8]) -> Result<(), ParseFault> {
        if name.len() > NAME_BYTES_MAX {
            return Err(ParseFault::LongName);
        }
        let Buffers { attributes, marks, places, .. } = &*self.buffers;
        let mark = mark(prefix, name);
        for (known, (at, length)) in marks.iter().zip(places).skip(self.names_from) {
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
    fn note_name(&mut self, at: usize, length: usize) {
        let Buffers { attributes, marks, places, .. } = &mut *self.buffers;
        marks.push(mark(&[], &attributes[at..at + length]));
        places.push((at, length));
    }
}

/// Distinguishes most names: by length, first, middle and last bytes.
#[inline]
fn mark(prefix: &[u8], name: &[u8]) -> u32 {
    let length = prefix.len() + name.len();
    let byte = |at: usize| match at.checked_sub(prefix.len()) {
        None => u32::from(prefix[at]),
        Some(at) => name.get(at).map_or(0, |byte| u32::from(*byte)),
    };
    let last = byte(length.saturating_sub(1));
    length as u32 & 0xff | byte(0) << 8 | byte(length / 2) << 16 | last << 24
}

/// Writes a name. Returns where its bytes are.
#[inline]
fn put_name(out: &mut Vec<u8>, prefix: &[u8], name: &[u8]) -> usize {
    out.push(KEY);
    put_varint(out, (prefix.len() + name.len()) as u64);
    let at = out.len();
    out.extend_from_slice(prefix);
    out.extend_from_slice(name);
    at
}

/// Bytes of a field with a tag of one byte and a length.
#[inline]
fn field_len(bytes: usize) -> usize {
    1 + varint_len(bytes as u64) + bytes
}

/// Bytes of a value whose length is known.
#[inline]
fn value_len(value: Value<'_>) -> usize {
    match value {
        Value::Text(text) => field_len(text.len()),
        Value::Int(value) => 1 + varint_len(value as u64),
        Value::Double(_) => 9,
        Value::Bool(_) => 2,
        Value::Null | Value::Escaped(_) => 0,
    }
}

#[inline]
fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Text(text) => {
            out.push(STRING);
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text);
        }
        Value::Int(value) => {
            out.push(INT);
            put_varint(out, value as u64);
        }
        Value::Double(value) => {
            out.push(DOUBLE);
            out.extend_from_slice(&value.to_bits().to_le_bytes());
        }
        Value::Bool(value) => out.extend_from_slice(&[BOOL, u8::from(value)]),
        Value::Null | Value::Escaped(_) => {}
    }
}

fn put_escaped(out: &mut Vec<u8>, text: &[u8]) -> Result<(), ParseFault> {
    out.push(STRING);
    let start = begin(out);
    put_unescaped(out, text)?;
    end(out, start);
    Ok(())
}

fn put_unescaped(out: &mut Vec<u8>, text: &[u8]) -> Result<(), ParseFault> {
    if unescape(text, out) { Ok(()) } else { Err(ParseFault::Malformed) }
}

/// Keeps a byte for a length. Returns where the content begins.
fn begin(out: &mut Vec<u8>) -> usize {
    out.push(0);
    out.len()
}

/// Writes the length of the content at `start`, which moves if that takes more than a byte. Returns
/// where the content begins then, and its length.
fn end(out: &mut Vec<u8>, start: usize) -> (usize, usize) {
    let length = out.len() - start;
    let more = varint_len(length as u64) - 1;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(start..start + length, start + more);
    }
    let mut rest = length;
    for place in &mut out[start - 1..start + more] {
        *place = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
    }
    out[start - 1 + more] &= 0x7f;
    (start + more, length)
}
