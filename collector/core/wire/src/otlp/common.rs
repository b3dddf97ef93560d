//! Views of what all signals share: repeated fields, attribute values, resources and scopes.

use crate::error::{WireErrorKind, WireFault};
use crate::otlp::walk::walk;
use crate::protobuf::{Cursor, FIXED64, LENGTH, VARINT, field_tag};

/// The occurrences of one length-prefixed field in a message, in order.
///
/// It stores the range of bytes from the first occurrence to the last: walking it again costs a tag
/// and a length per field, and needs no list of positions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeated<'a> {
    bytes: &'a [u8],
    tag: u32,
}

impl<'a> Repeated<'a> {
    /// Returns all occurrences of `field` in `message`, which has not been walked yet.
    #[must_use]
    pub const fn in_message(message: &'a [u8], field: u32) -> Self {
        Self { bytes: message, tag: field_tag(field, LENGTH) }
    }

    /// Adds the occurrence whose tag has just been read while walking `message`, and all that
    /// follow it directly; `before` is the rest of the message before the tag.
    #[inline]
    pub(crate) fn gather(
        &mut self,
        tag: u32,
        message: &'a [u8],
        before: &'a [u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), WireFault> {
        cursor.bytes()?;
        // OTLP's repeated messages have tags of one byte.
        while cursor.take_byte(tag as u8) {
            cursor.bytes()?;
        }
        self.bytes = stretch_between(self.bytes, message, before, cursor.remaining());
        self.tag = tag;
        Ok(())
    }

    /// Whether there is no occurrence. Only meaningful for fields gathered by a view.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the next occurrence's value.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn next_value(&mut self) -> Result<Option<&'a [u8]>, WireFault> {
        // Occurrences are nearly always consecutive, and OTLP's repeated messages have tags of one
        // byte.
        match self.bytes.split_first() {
            None => Ok(None),
            Some((&first, rest)) if u32::from(first) == self.tag => {
                let mut cursor = Cursor::new(rest);
                let value = cursor.bytes()?;
                self.bytes = cursor.remaining();
                Ok(Some(value))
            }
            Some(_) => self.find_next(),
        }
    }

    #[inline(never)]
    fn find_next(&mut self) -> Result<Option<&'a [u8]>, WireFault> {
        let mut cursor = Cursor::new(self.bytes);
        while let Some(tag) = cursor.tag()? {
            if tag == self.tag {
                let value = cursor.bytes()?;
                self.bytes = cursor.remaining();
                return Ok(Some(value));
            }
            cursor.skip(tag)?;
        }
        self.bytes = cursor.remaining();
        Ok(None)
    }

    /// Returns the number of occurrences.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn count_values(mut self) -> Result<usize, WireFault> {
        let mut count = 0;
        while self.next_value()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

impl<'a> Iterator for Repeated<'a> {
    type Item = Result<&'a [u8], WireFault>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_value().transpose()
    }
}

/// Returns the range of `message` from `known`, or from `before` if `known` is empty, up to
/// `after`.
#[inline]
pub(super) fn stretch_between<'a>(
    known: &'a [u8],
    message: &'a [u8],
    before: &'a [u8],
    after: &'a [u8],
) -> &'a [u8] {
    // An occurrence takes at least two bytes, so a known range isn't empty.
    let start = if known.is_empty() {
        message.len() - before.len()
    } else {
        known.as_ptr().addr() - message.as_ptr().addr()
    };
    &message[start..message.len() - after.len()]
}

/// Skips a field that a view doesn't use, and refuses one that it uses if the wire type is wrong:
/// bit n of `known` marks field n as used.
#[cold]
pub(crate) fn skip_other(cursor: &mut Cursor<'_>, tag: u32, known: u32) -> Result<(), WireFault> {
    let field = tag >> 3;
    if field < u32::BITS && known >> field & 1 == 1 {
        return Err(cursor.fault_here(WireErrorKind::WireType));
    }
    cursor.skip(tag)
}

/// Whether an id counts as absent: no bytes, or all of them zero.
#[inline]
#[must_use]
pub fn is_absent_id(id: &[u8]) -> bool {
    id.iter().fold(0, |any, &byte| any | byte) == 0
}

/// A set of attributes: the repeated `KeyValue` field of a record, scope, resource or list.
pub type KeyValues<'a> = Repeated<'a>;

/// An attribute.
#[derive(Clone, Copy, Debug)]
pub struct KeyValue<'a> {
    /// Its key; UTF-8 if the request was checked.
    pub key: &'a [u8],
    /// Its value.
    pub value: AnyValue<'a>,
}

impl<'a> KeyValue<'a> {
    /// Reads a `KeyValue` message.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline(always)]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        match Self::parse_common(message) {
            Some(attribute) => Ok(attribute),
            None => Self::parse_any(message),
        }
    }

    #[inline(never)]
    fn parse_any(message: &'a [u8]) -> Result<Self, WireFault> {
        const KEY: u32 = field_tag(1, LENGTH);
        const VALUE: u32 = field_tag(2, LENGTH);
        let mut cursor = Cursor::new(message);
        let mut key = &[][..];
        let mut value = AnyValue::Empty;
        while let Some(tag) = cursor.tag()? {
            match tag {
                KEY => key = cursor.bytes()?,
                VALUE => value = AnyValue::parse(cursor.bytes()?)?,
                other => skip_other(&mut cursor, other, 0b110)?,
            }
        }
        Ok(Self { key, value })
    }

    /// Reads an attribute as encoders write nearly all of them: a key and a scalar value, both
    /// shorter than 128 bytes. Returns `None` for all others, valid or not: [`KeyValue::parse`]
    /// reads any.
    ///
    /// For hot loops: the value is known to be a `String`, `Bool`, `Int` or `Double`, and if the
    /// caller uses it directly, it never passes through memory.
    #[inline(always)]
    #[must_use]
    pub fn parse_common(message: &'a [u8]) -> Option<Self> {
        let [0x0a, key_len @ ..0x80, rest @ ..] = message else { return None };
        let (key, rest) = rest.split_at_checked(usize::from(*key_len))?;
        let [0x12, value_len @ ..0x80, value @ ..] = rest else { return None };
        if usize::from(*value_len) != value.len() {
            return None;
        }
        Some(Self { key, value: AnyValue::parse_common(value)? })
    }
}

/// An attribute's value, or a log record's body.
#[derive(Clone, Copy, Debug)]
pub enum AnyValue<'a> {
    /// No value is set.
    Empty,
    /// Text; UTF-8 if the request was checked.
    String(&'a [u8]),
    /// A truth value.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// A double, possibly infinite or not a number.
    Double(f64),
    /// Values in order.
    Array(Array<'a>),
    /// Keys with values.
    KeyValueList(KeyValueList<'a>),
    /// Any bytes.
    Bytes(&'a [u8]),
}

impl<'a> AnyValue<'a> {
    /// Reads an `AnyValue` message. Of several values the last one counts.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline(always)]
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        match Self::parse_common(message) {
            Some(value) => Ok(value),
            None => Self::parse_any(message),
        }
    }

    /// Reads exactly one scalar as encoders write it, which nearly all values are.
    #[inline(always)]
    fn parse_common(message: &'a [u8]) -> Option<Self> {
        match message {
            [0x0a, len @ ..0x80, text @ ..] if usize::from(*len) == text.len() => {
                Some(Self::String(text))
            }
            [0x10, truth @ ..2] => Some(Self::Bool(*truth == 1)),
            [0x18, integer @ ..] => {
                let mut cursor = Cursor::new(integer);
                let value = cursor.varint().ok()?;
                cursor.is_empty().then_some(Self::Int(value as i64))
            }
            [0x21, a, b, c, d, e, f, g, h] => {
                Some(Self::Double(f64::from_le_bytes([*a, *b, *c, *d, *e, *f, *g, *h])))
            }
            _ => None,
        }
    }

    #[inline(never)]
    fn parse_any(message: &'a [u8]) -> Result<Self, WireFault> {
        const STRING: u32 = field_tag(1, LENGTH);
        const BOOL: u32 = field_tag(2, VARINT);
        const INT: u32 = field_tag(3, VARINT);
        const DOUBLE: u32 = field_tag(4, FIXED64);
        const ARRAY: u32 = field_tag(5, LENGTH);
        const LIST: u32 = field_tag(6, LENGTH);
        const BYTES: u32 = field_tag(7, LENGTH);
        let mut cursor = Cursor::new(message);
        let mut value = Self::Empty;
        while let Some(tag) = cursor.tag()? {
            value = match tag {
                STRING => Self::String(cursor.bytes()?),
                BOOL => Self::Bool(cursor.varint()? != 0),
                INT => Self::Int(cursor.varint()? as i64),
                DOUBLE => Self::Double(cursor.double()?),
                ARRAY => Self::Array(Array(cursor.bytes()?)),
                LIST => Self::KeyValueList(KeyValueList(cursor.bytes()?)),
                BYTES => Self::Bytes(cursor.bytes()?),
                other => {
                    skip_other(&mut cursor, other, 0b1111_1110)?;
                    continue;
                }
            };
        }
        Ok(value)
    }
}

/// An `ArrayValue` message.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a>(&'a [u8]);

impl<'a> Array<'a> {
    /// Returns its elements, each an `AnyValue` message.
    #[inline]
    #[must_use]
    pub const fn values(self) -> Repeated<'a> {
        Repeated::in_message(self.0, 1)
    }

    /// Returns the message's bytes.
    #[inline]
    #[must_use]
    pub const fn content(self) -> &'a [u8] {
        self.0
    }
}

/// A `KeyValueList` message.
#[derive(Clone, Copy, Debug)]
pub struct KeyValueList<'a>(&'a [u8]);

impl<'a> KeyValueList<'a> {
    /// Returns its members, each a `KeyValue` message.
    #[inline]
    #[must_use]
    pub const fn values(self) -> KeyValues<'a> {
        Repeated::in_message(self.0, 1)
    }

    /// Returns the message's bytes.
    #[inline]
    #[must_use]
    pub const fn content(self) -> &'a [u8] {
        self.0
    }
}

/// Returns the resource groups of a request: values of its one repeated field (`resource_spans`,
/// `resource_logs`, `resource_metrics`).
#[must_use]
pub const fn resource_groups(request: &[u8]) -> Repeated<'_> {
    Repeated::in_message(request, 1)
}

/// A `ResourceSpans`, `ResourceLogs` or `ResourceMetrics` message: the three have the same
/// structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResourceGroup<'a> {
    /// The resource messages: encoders write one; several count as merged.
    pub resource: Resource<'a>,
    /// The scope groups.
    pub scopes: Repeated<'a>,
    /// The resource's schema URL.
    pub schema_url: &'a [u8],
}

impl<'a> ResourceGroup<'a> {
    /// Reads the message without parsing its scope groups.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        let mut group = Self::default();
        walk! { message => group { 1 repeated resource, 2 repeated scopes, 3 bytes schema_url } }
        Ok(group)
    }
}

/// A resource: the occurrences of its field in a resource group.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resource<'a>(Repeated<'a>);

impl<'a> Resource<'a> {
    #[inline]
    fn gather(
        &mut self,
        tag: u32,
        message: &'a [u8],
        before: &'a [u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), WireFault> {
        self.0.gather(tag, message, before, cursor)
    }

    /// Calls `each` with every attribute in order.
    ///
    /// # Errors
    /// If the bytes are malformed, or `each` returned an error.
    pub fn for_each_attribute<E: From<WireFault>>(
        self,
        mut each: impl FnMut(KeyValue<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        for resource in self.0 {
            for attribute in Repeated::in_message(resource?, 1) {
                each(KeyValue::parse(attribute?)?)?;
            }
        }
        Ok(())
    }
}

/// The bytes that processors read from memory at once, on x86-64 and most others: reading one of
/// them loads all.
const CACHE_LINE_BYTES: usize = 64;

/// Reads `bytes` once in order, so that a later reader that jumps finds them in the cache: memory
/// read in order arrives many times faster than when each position depends on the one before.
#[inline]
pub(super) fn read_in_order(bytes: &[u8]) {
    let lines = bytes.iter().step_by(CACHE_LINE_BYTES);
    std::hint::black_box(lines.fold(0, |all, byte| all | byte));
}

/// The bytes of a scope group to read in order before its records are counted: 256 KiB, which a
/// core's own cache holds. Few groups are longer.
const READ_AHEAD_BYTES: usize = 256 * 1024;

/// A `ScopeSpans`, `ScopeLogs` or `ScopeMetrics` message: the three have the same structure.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScopeGroup<'a> {
    /// The instrumentation scope.
    pub scope: Scope<'a>,
    /// The spans, log records or metrics.
    pub records: Repeated<'a>,
    /// The schema URL of the scope's records.
    pub schema_url: &'a [u8],
}

impl<'a> ScopeGroup<'a> {
    /// Reads the message without parsing its records.
    ///
    /// # Errors
    /// If the bytes are malformed.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireFault> {
        read_in_order(&message[..message.len().min(READ_AHEAD_BYTES)]);
        let mut group = Self::default();
        walk! { message => group { 1 repeated scope, 2 repeated records, 3 bytes schema_url } }
        Ok(group)
    }
}

/// An instrumentation scope.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scope<'a> {
    /// The name of the library or module.
    pub name: &'a [u8],
    /// Its version.
    pub version: &'a [u8],
    /// The number of attributes that its SDK dropped.
    pub dropped_attributes_count: u32,
    messages: Repeated<'a>,
}

impl<'a> Scope<'a> {
    /// Adds consecutive scope messages.
    fn gather(
        &mut self,
        tag: u32,
        message: &'a [u8],
        before: &'a [u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), WireFault> {
        let mut found = Repeated::default();
        found.gather(tag, message, before, cursor)?;
        for scope in found {
            self.merge(scope?)?;
        }
        self.messages.tag = tag;
        self.messages.bytes =
            stretch_between(self.messages.bytes, message, before, cursor.remaining());
        Ok(())
    }

    fn merge(&mut self, message: &'a [u8]) -> Result<(), WireFault> {
        walk! { message => self {
            1 bytes name,
            2 bytes version,
            3 skip_message,
            4 uint32 dropped_attributes_count,
        } }
        Ok(())
    }

    /// Calls `each` with every attribute in order.
    ///
    /// # Errors
    /// If the bytes are malformed, or `each` returned an error.
    pub fn for_each_attribute<E: From<WireFault>>(
        self,
        mut each: impl FnMut(KeyValue<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        for scope in self.messages {
            for attribute in Repeated::in_message(scope?, 3) {
                each(KeyValue::parse(attribute?)?)?;
            }
        }
        Ok(())
    }
}
