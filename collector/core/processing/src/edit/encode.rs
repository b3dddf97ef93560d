//! Reading and writing of attribute values, lists and maps as protobuf.

use millrace_wire::otlp::AnyValue;
use millrace_wire::protobuf::{Cursor, LENGTH, WireFault, field_tag, varint_len};

use crate::edit::memory::{Memory, Ref};
use crate::edit::slot::Slot;
use crate::error::RuleFailure;
use crate::value::Value;

/// The tag of members of lists and maps, and of a `KeyValue`'s key.
pub(crate) const FIRST: u8 = field_tag(1, LENGTH) as u8;
/// The tag of a `KeyValue`'s value.
pub(crate) const SECOND: u8 = field_tag(2, LENGTH) as u8;
const BOOL: u8 = 0x10;
const INT: u8 = 0x18;
const DOUBLE: u8 = 0x21;
pub(crate) const LIST: u8 = field_tag(5, LENGTH) as u8;
const MAP: u8 = field_tag(6, LENGTH) as u8;
const BYTES: u8 = field_tag(7, LENGTH) as u8;

/// The most bytes of a value that are copied next to its key. A longer one becomes a separate
/// segment, which costs as much as copying this many.
const COPIED_BYTES: usize = 64;

/// Returns the length of a length-prefixed field with a tag of one byte.
#[inline]
pub(crate) const fn field_len(value_bytes: usize) -> usize {
    1 + varint_len(value_bytes as u64) + value_bytes
}

/// Reads an `AnyValue` message.
#[inline]
pub(crate) fn parse_any(memory: &Memory<'_>, any: Ref) -> Result<Value, WireFault> {
    let bytes = memory.get(any);
    Ok(match AnyValue::parse(bytes)? {
        AnyValue::Empty => Value::Nil,
        AnyValue::String(text) => Value::Str(any.locate(bytes, text)),
        AnyValue::Bool(truth) => Value::Bool(truth),
        AnyValue::Int(integer) => Value::Int(integer),
        AnyValue::Double(double) => Value::Double(double),
        AnyValue::Array(list) => Value::List(any.locate(bytes, list.content())),
        AnyValue::KeyValueList(map) => Value::Map(any.locate(bytes, map.content())),
        AnyValue::Bytes(content) => Value::Bytes(any.locate(bytes, content)),
    })
}

/// Writes a value as an `AnyValue` message.
///
/// # Errors
/// If attributes can't hold the value: times, durations, ids and lists of messages; or without
/// space.
pub(crate) fn store_any(memory: &mut Memory<'_>, value: Value) -> Result<Ref, RuleFailure> {
    let mark = memory.mark();
    match value {
        Value::Nil => return Ok(Ref::EMPTY),
        Value::Str(text) => put_field(memory, FIRST, text)?,
        Value::Bytes(bytes) => put_field(memory, BYTES, bytes)?,
        Value::List(list) => put_field(memory, LIST, list)?,
        Value::Map(map) => put_field(memory, MAP, map)?,
        Value::Bool(truth) => {
            memory.reserve(2)?;
            memory.put(&[BOOL, u8::from(truth)]);
        }
        Value::Int(integer) => {
            memory.reserve(11)?;
            memory.put_byte(INT);
            memory.put_varint(integer.cast_unsigned());
        }
        Value::Double(double) => {
            memory.reserve(9)?;
            memory.put_byte(DOUBLE);
            memory.put(&double.to_le_bytes());
        }
        Value::TraceId(_)
        | Value::SpanId(_)
        | Value::Time(_)
        | Value::Duration(_)
        | Value::Messages(_) => return Err(RuleFailure::Unstorable { found: value.type_name() }),
    }
    Ok(memory.since(mark))
}

/// Writes a length-prefixed field.
pub(crate) fn put_field(memory: &mut Memory<'_>, tag: u8, value: Ref) -> Result<(), RuleFailure> {
    memory.reserve(field_len(value.len()))?;
    memory.put_byte(tag);
    memory.put_varint(value.len() as u64);
    memory.put_ref(value);
    Ok(())
}

/// Writes a member of a list.
pub(crate) fn put_element(memory: &mut Memory<'_>, any: Ref) -> Result<(), RuleFailure> {
    put_field(memory, FIRST, any)
}

/// Returns the length of a field of a `KeyValue`. An empty one is omitted, as senders do: a record
/// that is written again without a change of its values never grows.
const fn member_field_len(value_bytes: usize) -> usize {
    if value_bytes == 0 { 0 } else { field_len(value_bytes) }
}

/// Returns the length of a `KeyValue` message.
pub(crate) const fn key_value_len(slot: &Slot) -> usize {
    member_field_len(slot.key.len()) + member_field_len(slot.value.len())
}

/// Writes an attribute with its tag. A long value isn't copied but returned: the caller adds it.
pub(crate) fn put_attribute(memory: &mut Memory<'_>, tag: u8, slot: &Slot) -> Ref {
    let length = key_value_len(slot);
    let (key_len, value_len) = (slot.key.len(), slot.value.len());
    if length < 0x80 && key_len > 0 && (1..=COPIED_BYTES).contains(&value_len) {
        // All lengths take one byte.
        memory.put(&[tag, length as u8, FIRST, key_len as u8]);
        memory.put_ref(slot.key);
        memory.put(&[SECOND, value_len as u8]);
        memory.put_ref(slot.value);
        return Ref::EMPTY;
    }
    memory.put_byte(tag);
    memory.put_varint(length as u64);
    if !slot.key.is_empty() {
        memory.put_byte(FIRST);
        memory.put_varint(slot.key.len() as u64);
        memory.put_ref(slot.key);
    }
    if slot.value.is_empty() {
        return Ref::EMPTY;
    }
    memory.put_byte(SECOND);
    memory.put_varint(slot.value.len() as u64);
    if slot.value.len() > COPIED_BYTES {
        return slot.value;
    }
    memory.put_ref(slot.value);
    Ref::EMPTY
}

/// Writes a member of a map.
pub(crate) fn put_member(memory: &mut Memory<'_>, slot: &Slot) -> Result<(), RuleFailure> {
    memory.reserve(field_len(key_value_len(slot)))?;
    let value = put_attribute(memory, FIRST, slot);
    memory.put_ref(value);
    Ok(())
}

/// Writes slots as the content of a map.
pub(crate) fn store_map(memory: &mut Memory<'_>, slots: &[Slot]) -> Result<Ref, RuleFailure> {
    let mark = memory.mark();
    for slot in slots {
        put_member(memory, slot)?;
    }
    Ok(memory.since(mark))
}

/// Adds the members of a map to `slots`.
pub(crate) fn load_map(
    memory: &Memory<'_>,
    map: Ref,
    slots: &mut Vec<Slot>,
) -> Result<(), WireFault> {
    let mut members = Members::new(memory, map);
    while let Some(member) = members.next_member()? {
        slots.push(Slot::parse(memory.get(member), member, Ref::EMPTY)?);
    }
    Ok(())
}

/// Returns the value of the first member of a map with a key.
pub(crate) fn find_member(
    memory: &Memory<'_>,
    map: Ref,
    key: Ref,
) -> Result<Option<Ref>, WireFault> {
    let key_bytes = memory.get(key);
    let mut members = Members::new(memory, map);
    while let Some(member) = members.next_member()? {
        let slot = Slot::parse(memory.get(member), member, Ref::EMPTY)?;
        if memory.get(slot.key) == key_bytes {
            return Ok(Some(slot.value));
        }
    }
    Ok(None)
}

/// The members of a list or map, of which each may be replaced before the next one is read.
pub(crate) struct MemberReader {
    container: Ref,
    at: usize,
}

impl MemberReader {
    pub(crate) const fn new(container: Ref) -> Self {
        Self { container, at: 0 }
    }

    /// Returns the next member's message.
    pub(crate) fn next_member(&mut self, memory: &Memory<'_>) -> Result<Option<Ref>, WireFault> {
        let bytes = memory.get(self.container);
        let cursor = Cursor::new(&bytes[self.at..]);
        let mut members = Members { all: self.container, bytes, cursor };
        let member = members.next_member()?;
        self.at = bytes.len() - members.cursor.remaining().len();
        Ok(member)
    }
}

/// The members of a list or map, one after the other.
pub(crate) struct Members<'m> {
    all: Ref,
    bytes: &'m [u8],
    cursor: Cursor<'m>,
}

impl<'m> Members<'m> {
    pub(crate) fn new(memory: &'m Memory<'_>, container: Ref) -> Self {
        let bytes = memory.get(container);
        Self { all: container, bytes, cursor: Cursor::new(bytes) }
    }

    /// Returns the next member's message: an `AnyValue` of a list, a `KeyValue` of a map.
    pub(crate) fn next_member(&mut self) -> Result<Option<Ref>, WireFault> {
        while let Some(tag) = self.cursor.tag()? {
            if tag == u32::from(FIRST) {
                let member = self.cursor.bytes()?;
                return Ok(Some(self.all.locate(self.bytes, member)));
            }
            self.cursor.skip(tag)?;
        }
        Ok(None)
    }

    /// Returns the number of members that follow.
    pub(crate) fn count(mut self) -> Result<usize, WireFault> {
        let mut count = 0;
        while self.next_member()?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}
