//! Walks a complete request: it verifies every byte, counts the records, and checks that they can
//! be stored.

mod common_fields;
mod text;

use crate::error::{WireError, WireErrorKind, WireFault};
use crate::limits::{RECORD_MEMBERS, WireLimits};
use crate::otlp::check::text::{check_utf8, escapes_len};
use crate::otlp::common::read_in_order;
use crate::otlp::descriptor::{
    FieldKind, KEY_VALUE, KEY_VALUE_LIST, METRIC, MessageDescriptor, request_message,
};
use crate::otlp::time_range::{effective_time, times_of};
use crate::otlp::written::{ROW_BYTES, RequestOutline, repeated_bytes};
use crate::protobuf::{Cursor, LENGTH, field_tag, varint_len};
use crate::signal::Signal;

/// The extra bytes counted per shared attribute or array element: it may be written longer than it
/// was sent (a number as text, an element with its mark), but not by more.
const VALUE_BYTES: u64 = 16;

/// Checks every field of `request_bytes`: tags, wire types, lengths, nesting, the number of
/// attributes, the length of ids, and that strings are UTF-8; counts the records, their days and
/// their written size.
///
/// Any protobuf implementation and the views in this module can read bytes that pass, and their
/// columns can be stored: no later step refuses them. The result stays with the request, so no
/// later step counts again. Records whose times are not accepted are also checked, and counted as
/// such: [`super::retain_in_range`] removes them.
///
/// # Errors
/// The first fault found, with its offset and path.
pub fn check_request(
    signal: Signal,
    request_bytes: &[u8],
    limits: &WireLimits,
) -> Result<RequestOutline, WireError> {
    walk_request(signal, request_bytes, limits, Depth::Everything)
}

/// Returns the outline of a request that was checked before, as part of another or by another
/// process. Reads what records share, and only the times of the records.
///
/// # Errors
/// If the request is malformed on the way, or exceeds `limits`.
pub fn outline_request(
    signal: Signal,
    request_bytes: &[u8],
    limits: &WireLimits,
) -> Result<RequestOutline, WireError> {
    walk_request(signal, request_bytes, limits, Depth::Times)
}

/// Returns the outline of a request that was made from a checked one and has records with no other
/// times. Reads what records share, and only the lengths of the records; the days are those of the
/// checked request, which are at least those of its records.
///
/// # Errors
/// As [`outline_request`].
pub fn outline_derived_request(
    signal: Signal,
    request_bytes: &[u8],
    limits: &WireLimits,
    checked: &RequestOutline,
) -> Result<RequestOutline, WireError> {
    if checked.days.is_empty() {
        // They were not collected.
        return outline_request(signal, request_bytes, limits);
    }
    let found = walk_request(signal, request_bytes, limits, Depth::Lengths)?;
    Ok(RequestOutline { days: checked.days.clone(), ..found })
}

/// Returns the written size of a request's records, by the same measure. Reads what records share,
/// and only the lengths of the records.
///
/// # Errors
/// If the request is malformed on the way.
pub fn written_bytes(signal: Signal, request_bytes: &[u8]) -> Result<u64, WireError> {
    // The walk finds each record by the length of the one before, so it waits for memory at each of
    // them. Reading the request in order first puts it into the cache for this walk and the next
    // reader.
    read_in_order(request_bytes);
    let found = walk_request(signal, request_bytes, &WireLimits::of_readers(), Depth::Lengths)?;
    Ok(found.written_bytes)
}

/// The parts of a record to read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Everything,
    Times,
    Lengths,
}

fn walk_request(
    signal: Signal,
    request_bytes: &[u8],
    limits: &WireLimits,
    of_records: Depth,
) -> Result<RequestOutline, WireError> {
    let mut walk = RequestWalk {
        limits: *limits,
        of_records,
        outline: RequestOutline::default(),
        around: Surroundings::default(),
        extra_bytes: 0,
        children_bytes: 0,
        times: [0; 2],
    };
    let result = if request_bytes.len() > limits.message_bytes {
        Err(WireFault::new(WireErrorKind::TooLong, request_bytes))
    } else {
        walk.walk_message(request_message(signal), request_bytes, 0)
    };
    match result {
        Ok(_) => Ok(walk.outline),
        Err(fault) => Err(WireError::from_fault(signal, request_bytes, fault)),
    }
}

struct RequestWalk<'a> {
    limits: WireLimits,
    of_records: Depth,
    outline: RequestOutline,
    around: Surroundings<'a>,
    /// The bytes by which the group or record read so far may grow when written.
    extra_bytes: u64,
    /// The bytes of the groups and records in the most recently read message.
    children_bytes: usize,
    /// The record's time, and the one that applies if that is 0.
    times: [u64; 2],
}

/// The position of the walk within an attribute's value.
#[derive(Clone, Copy, Default)]
struct Surroundings<'a> {
    /// The attribute; empty inside values that are written as text.
    attribute: &'a [u8],
    /// The length of its key, once computed.
    key_bytes: Option<u64>,
    /// The length of the keys of the enclosing lists, which precede its own in its path's name.
    names_bytes: u64,
}

impl<'a> RequestWalk<'a> {
    /// Walks a message. Returns the number of its attributes, including members of lists in them.
    fn walk_message(
        &mut self,
        message: &MessageDescriptor,
        bytes: &'a [u8],
        depth: u32,
    ) -> Result<u32, WireFault> {
        let mut cursor = Cursor::new(bytes);
        let (mut attributes, mut members, mut children_bytes) = (0, 0, 0);
        let mut data = false;
        while let Some(tag) = self.next_tag(message, &mut cursor, depth, &mut attributes)? {
            let Some(field) = message.field(tag >> 3) else {
                cursor.skip(tag)?;
                continue;
            };
            if !field.kind.carried_by(tag & 7) {
                return Err(cursor.fault_here(WireErrorKind::WireType));
            }
            match field.kind {
                FieldKind::Fixed64 => drop(cursor.fixed64()?),
                FieldKind::Time => self.times[0] = cursor.fixed64()?,
                FieldKind::SecondTime => self.times[1] = cursor.fixed64()?,
                FieldKind::Varint => drop(cursor.varint()?),
                FieldKind::Text => self.walk_text(cursor.bytes()?, depth)?,
                FieldKind::Id(length) => check_id_len(cursor.bytes()?, length)?,
                // Written as base64.
                FieldKind::Bytes => self.extra_bytes += cursor.bytes()?.len() as u64 / 3 + 4,
                FieldKind::Attribute => {
                    let attribute = cursor.bytes()?;
                    attributes += 1 + self.walk_attribute(attribute, depth)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                FieldKind::Nested(inner) => {
                    if depth >= self.limits.nesting_depth {
                        return Err(cursor.fault_here(WireErrorKind::TooDeep));
                    }
                    attributes += self.walk_nested(inner, cursor.bytes()?, depth + 1)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                FieldKind::Record(inner) => {
                    let record = cursor.bytes()?;
                    children_bytes += field_len(record.len());
                    self.walk_record(inner, record)?;
                    if self.of_records == Depth::Lengths {
                        children_bytes += self.skip_records(tag, &mut cursor)?;
                    }
                }
                FieldKind::PackedFixed64 | FieldKind::PackedVarint => {
                    check_packed(&mut cursor, tag, field.kind)?;
                }
                FieldKind::Unknown | FieldKind::Fixed32 => cursor.skip(tag)?,
                FieldKind::Group(inner) => {
                    // This is the only message with several kinds of groups, of which it may have
                    // one.
                    if data && std::ptr::eq(message, &raw const METRIC) {
                        return Err(cursor.fault_here(WireErrorKind::DataTwice));
                    }
                    data = true;
                    let group = cursor.bytes()?;
                    children_bytes += field_len(group.len());
                    self.walk_group(inner, group)?;
                }
                FieldKind::Part(inner) => {
                    members += self.walk_message(inner, cursor.bytes()?, depth)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                FieldKind::Message(inner) => {
                    attributes += self.walk_message(inner, cursor.bytes()?, depth)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                FieldKind::Element => {
                    self.extra_bytes += VALUE_BYTES;
                    if let Some(inner) = field.kind.inner_message() {
                        self.walk_message(inner, cursor.bytes()?, depth)?;
                    }
                }
            }
        }
        self.children_bytes = children_bytes;
        Ok(attributes)
    }

    /// Checks the limits of a message's attributes, and of those of its parts.
    #[inline]
    fn is_within(&self, attributes: u32, members: u32, at: &Cursor<'_>) -> Result<(), WireFault> {
        if attributes > self.limits.attributes || members > RECORD_MEMBERS {
            return Err(at.fault_here(WireErrorKind::TooManyAttributes));
        }
        Ok(())
    }

    /// Walks an attribute that isn't written as most are. Returns the number of members of lists in
    /// it.
    fn walk_attribute(&mut self, attribute: &'a [u8], depth: u32) -> Result<u32, WireFault> {
        self.extra_bytes += VALUE_BYTES;
        let around = self.around;
        self.around = Surroundings { attribute, key_bytes: None, ..around };
        if around.names_bytes > 0 {
            // The name of its path may be new.
            self.outline.written_bytes += around.names_bytes + attribute.len() as u64;
        }
        let members = self.walk_message(&KEY_VALUE, attribute, depth)?;
        self.around = around;
        Ok(members)
    }

    /// Walks a list or an array. Returns the number of members that are paths of their own.
    fn walk_nested(
        &mut self,
        inner: &MessageDescriptor,
        value: &'a [u8],
        depth: u32,
    ) -> Result<u32, WireFault> {
        let is_list = std::ptr::eq(inner, &raw const KEY_VALUE_LIST);
        let is_path = is_list && !self.around.attribute.is_empty();
        let mut inside = Surroundings::default();
        if is_path {
            let Surroundings { attribute, key_bytes, names_bytes } = self.around;
            let key_bytes = key_bytes.unwrap_or_else(|| key_len(attribute));
            self.around.key_bytes = Some(key_bytes);
            inside.names_bytes = names_bytes + key_bytes + 1;
        }
        let around = std::mem::replace(&mut self.around, inside);
        let members = self.walk_message(inner, value, depth)?;
        self.around = around;
        Ok(if is_path { members } else { 0 })
    }

    fn walk_record(
        &mut self,
        inner: &MessageDescriptor,
        record: &'a [u8],
    ) -> Result<(), WireFault> {
        let written_bytes = self.outline.written_bytes;
        self.outline.records += 1;
        self.outline.written_bytes += record.len() as u64 + ROW_BYTES;
        self.times = [0; 2];
        match self.of_records {
            Depth::Everything => {
                let extra_bytes = self.extra_bytes;
                self.walk_message(inner, record, 0)?;
                self.extra_bytes = extra_bytes;
            }
            Depth::Times => self.times = times_of(inner, record)?,
            Depth::Lengths => return Ok(()),
        }
        let time = effective_time(self.times);
        if !self.limits.times.contains(time) {
            self.outline.records -= 1;
            self.outline.written_bytes = written_bytes;
            self.outline.out_of_range += 1;
            return Ok(());
        }
        if !self.outline.days.record_time(time, self.limits.days) {
            return Err(WireFault::new(WireErrorKind::TooManyDays, record));
        }
        Ok(())
    }

    /// Skips consecutive records, of which only the lengths count, in less than half of the
    /// instructions of the walk by the message's table. Returns their bytes in the group.
    fn skip_records(&mut self, tag: u32, cursor: &mut Cursor<'a>) -> Result<usize, WireFault> {
        let start_bytes = cursor.remaining().len();
        let (mut records, mut own_bytes) = (0, 0);
        // Tags of records take one byte.
        while cursor.take_byte(tag as u8) {
            own_bytes += cursor.bytes()?.len();
            records += 1;
        }
        self.outline.records += records;
        self.outline.written_bytes += own_bytes as u64 + records * ROW_BYTES;
        Ok(start_bytes - cursor.remaining().len())
    }

    fn walk_group(&mut self, inner: &MessageDescriptor, group: &'a [u8]) -> Result<(), WireFault> {
        let records = self.outline.records;
        let extra_bytes = std::mem::take(&mut self.extra_bytes);
        self.walk_message(inner, group, 0)?;
        let shared_bytes = group.len().saturating_sub(self.children_bytes) as u64;
        let each = repeated_bytes(shared_bytes + self.extra_bytes);
        let repeated = each.saturating_mul(self.outline.records - records);
        self.extra_bytes = extra_bytes;
        self.outline.written_bytes = self.outline.written_bytes.saturating_add(repeated);
        if self.outline.written_bytes > self.limits.written_bytes {
            return Err(WireFault::new(WireErrorKind::TooMuchWritten, group));
        }
        Ok(())
    }

    #[inline]
    fn walk_text(&mut self, bytes: &[u8], depth: u32) -> Result<(), WireFault> {
        if depth > 0 {
            // The text may be written in JSON.
            self.extra_bytes += escapes_len(bytes);
        }
        check_utf8(bytes)
    }
}

/// Returns the length of a group or record with its tag, which takes one byte.
fn field_len(value_bytes: usize) -> usize {
    1 + varint_len(value_bytes as u64) + value_bytes
}

/// Returns the length of an attribute's key.
fn key_len(attribute: &[u8]) -> u64 {
    const KEY: u32 = field_tag(1, LENGTH);
    let mut cursor = Cursor::new(attribute);
    let mut length = 0;
    while let Ok(Some(tag)) = cursor.tag() {
        let value = if tag == KEY { cursor.bytes() } else { cursor.skip(tag).map(|()| &[][..]) };
        match value {
            Ok(value) if tag == KEY => length = value.len() as u64,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    length
}

#[inline]
fn check_id_len(bytes: &[u8], length: usize) -> Result<(), WireFault> {
    if bytes.len() == length || bytes.is_empty() {
        Ok(())
    } else {
        Err(WireFault::new(WireErrorKind::IdLength, bytes))
    }
}

fn check_packed(cursor: &mut Cursor<'_>, tag: u32, kind: FieldKind) -> Result<(), WireFault> {
    if tag & 7 != LENGTH {
        return cursor.skip(tag);
    }
    let bytes = cursor.bytes()?;
    if matches!(kind, FieldKind::PackedFixed64) {
        return if bytes.len().is_multiple_of(8) {
            Ok(())
        } else {
            Err(WireFault::new(WireErrorKind::PackedLength, bytes))
        };
    }
    let mut items = Cursor::new(bytes);
    while !items.is_empty() {
        items.varint()?;
    }
    Ok(())
}
