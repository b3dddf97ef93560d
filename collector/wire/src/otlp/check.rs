//! A full walk over a request: is every byte of it OTLP, how many records are in it, and can they
//! be stored?

use crate::error::{Fault, WireError, WireErrorKind};
use crate::limits::{Limits, RECORD_MEMBERS};
use crate::otlp::common::read_in_order;
use crate::otlp::descriptor::{KEY_VALUE, KEY_VALUE_LIST, Kind, METRIC, Message, request};
use crate::otlp::written::{Checked, ROW_BYTES, repeated_bytes};
use crate::protobuf::{Cursor, FIXED64, LENGTH, VARINT, tag, varint_len};
use crate::signal::Signal;

/// What an attribute or an element of an array that records share counts beside its bytes: it may
/// be written longer than it was sent (a number as text, an element with its mark), but not by
/// more.
const VALUE_BYTES: u64 = 16;

/// Checks every field of `request_bytes`: tags, wire types, lengths, nesting, the number of
/// attributes, the length of ids, and that strings are UTF-8; counts the records, their days and
/// what they are written as.
///
/// Bytes that pass can be read by any protobuf implementation and by the views beside this
/// function, and stored by the columns made of them: nothing is refused there that passes here.
/// The result stays with the request: nothing behind the check counts again.
///
/// # Errors
/// The first fault found, with its offset and path.
pub fn check(signal: Signal, request_bytes: &[u8], limits: &Limits) -> Result<Checked, WireError> {
    walk(signal, request_bytes, limits, Depth::Everything)
}

/// What a request comes to that was checked before, as a part of another or by another process.
/// Looks at what records share, and of the records at no more than their times.
///
/// # Errors
/// The request is malformed on the way, or not within `limits`.
pub fn outline(
    signal: Signal,
    request_bytes: &[u8],
    limits: &Limits,
) -> Result<Checked, WireError> {
    walk(signal, request_bytes, limits, Depth::Times)
}

/// What the records of a request are written as, by the same measure. Looks at what records share,
/// and of the records at no more than their lengths.
///
/// # Errors
/// The request is malformed on the way.
pub fn written_bytes(signal: Signal, request_bytes: &[u8]) -> Result<u64, WireError> {
    // The walk finds each record by the length of the one before, so it waits for memory at each of
    // them. Read in order first, the request is in the cache for this walk and the next reader's.
    read_in_order(request_bytes);
    let found = walk(signal, request_bytes, &Limits::of_readers(), Depth::Lengths)?;
    Ok(found.written_bytes)
}

/// What of a record is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Everything,
    Times,
    Lengths,
}

fn walk(
    signal: Signal,
    request_bytes: &[u8],
    limits: &Limits,
    of_records: Depth,
) -> Result<Checked, WireError> {
    let mut walk = Walk {
        limits: *limits,
        of_records,
        found: Checked::default(),
        around: Surroundings::default(),
        extra_bytes: 0,
        children_bytes: 0,
        times: [0; 2],
    };
    let result = if request_bytes.len() > limits.message_bytes {
        Err(Fault::at(WireErrorKind::TooLong, request_bytes))
    } else {
        walk.message(request(signal), request_bytes, 0)
    };
    match result {
        Ok(_) => Ok(walk.found),
        Err(fault) => Err(WireError::locate(signal, request_bytes, fault)),
    }
}

struct Walk<'a> {
    limits: Limits,
    of_records: Depth,
    found: Checked,
    around: Surroundings<'a>,
    /// By how much what was read of a group or record may be longer once it is written.
    extra_bytes: u64,
    /// Bytes of the groups and records in the message that was read last.
    children_bytes: usize,
    /// The record's time, and the one it has if that is 0.
    times: [u64; 2],
}

/// Where in an attribute's value the walk is.
#[derive(Clone, Copy, Default)]
struct Surroundings<'a> {
    /// The attribute; empty in what is written as text.
    attribute: &'a [u8],
    /// The length of its key, once it was asked for.
    key_bytes: Option<u64>,
    /// Keys of the lists around it, which precede its own in the name of its path.
    names_bytes: u64,
}

impl<'a> Walk<'a> {
    /// Walks a message. The number of its attributes, with the members of lists in them.
    fn message(&mut self, message: &Message, bytes: &'a [u8], depth: u32) -> Result<u32, Fault> {
        let mut cursor = Cursor::new(bytes);
        let (mut attributes, mut members, mut children_bytes) = (0, 0, 0);
        let mut data = false;
        while let Some(tag) = cursor.tag()? {
            let Some(field) = message.field(tag >> 3) else {
                cursor.skip(tag)?;
                continue;
            };
            if !field.kind.carried_by(tag & 7) {
                return Err(cursor.fault(WireErrorKind::WireType));
            }
            match field.kind {
                Kind::Fixed64 => drop(cursor.fixed64()?),
                Kind::Time => self.times[0] = cursor.fixed64()?,
                Kind::SecondTime => self.times[1] = cursor.fixed64()?,
                Kind::Varint => drop(cursor.varint()?),
                Kind::Text => self.text(cursor.bytes()?, depth)?,
                Kind::Id(length) => id(cursor.bytes()?, length)?,
                // As base64.
                Kind::Bytes => self.extra_bytes += cursor.bytes()?.len() as u64 / 3 + 4,
                Kind::Attribute => {
                    let attribute = cursor.bytes()?;
                    attributes += 1 + self.attribute(attribute, depth)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                Kind::Nested(inner) => {
                    if depth >= self.limits.nesting_depth {
                        return Err(cursor.fault(WireErrorKind::TooDeep));
                    }
                    attributes += self.nested(inner, cursor.bytes()?, depth + 1)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                Kind::Record(inner) => {
                    let record = cursor.bytes()?;
                    children_bytes += field_len(record.len());
                    self.record(inner, record)?;
                    if self.of_records == Depth::Lengths {
                        children_bytes += self.following(tag, &mut cursor)?;
                    }
                }
                Kind::PackedFixed64 | Kind::PackedVarint => {
                    packed(&mut cursor, tag, field.kind)?;
                }
                Kind::Unknown | Kind::Fixed32 => cursor.skip(tag)?,
                Kind::Group(inner) => {
                    // The one message with several kinds of groups, of which it may have one.
                    if data && std::ptr::eq(message, &raw const METRIC) {
                        return Err(cursor.fault(WireErrorKind::DataTwice));
                    }
                    data = true;
                    let group = cursor.bytes()?;
                    children_bytes += field_len(group.len());
                    self.group(inner, group)?;
                }
                Kind::Part(inner) => {
                    members += self.message(inner, cursor.bytes()?, depth)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                Kind::Message(inner) => {
                    attributes += self.message(inner, cursor.bytes()?, depth)?;
                    self.is_within(attributes, members, &cursor)?;
                }
                Kind::Element => {
                    self.extra_bytes += VALUE_BYTES;
                    if let Some(inner) = field.kind.message() {
                        self.message(inner, cursor.bytes()?, depth)?;
                    }
                }
            }
        }
        self.children_bytes = children_bytes;
        Ok(attributes)
    }

    /// Holds a message's attributes, and those of its parts, to their limits.
    #[inline]
    fn is_within(&self, attributes: u32, members: u32, at: &Cursor<'_>) -> Result<(), Fault> {
        if attributes > self.limits.attributes || members > RECORD_MEMBERS {
            return Err(at.fault(WireErrorKind::TooManyAttributes));
        }
        Ok(())
    }

    /// Walks an attribute. The number of members of lists in it.
    #[inline]
    fn attribute(&mut self, attribute: &'a [u8], depth: u32) -> Result<u32, Fault> {
        self.extra_bytes += VALUE_BYTES;
        if depth == 0 && is_plain(attribute) {
            return Ok(0);
        }
        self.odd_attribute(attribute, depth)
    }

    #[inline(never)]
    fn odd_attribute(&mut self, attribute: &'a [u8], depth: u32) -> Result<u32, Fault> {
        let around = self.around;
        self.around = Surroundings { attribute, key_bytes: None, ..around };
        if around.names_bytes > 0 {
            // Its path's name may be new.
            self.found.written_bytes += around.names_bytes + attribute.len() as u64;
        }
        let members = self.message(&KEY_VALUE, attribute, depth)?;
        self.around = around;
        Ok(members)
    }

    /// Walks a list or an array. The number of members that are paths of their own.
    fn nested(&mut self, inner: &Message, value: &'a [u8], depth: u32) -> Result<u32, Fault> {
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
        let members = self.message(inner, value, depth)?;
        self.around = around;
        Ok(if is_path { members } else { 0 })
    }

    fn record(&mut self, inner: &Message, record: &'a [u8]) -> Result<(), Fault> {
        self.found.records += 1;
        self.found.written_bytes += record.len() as u64 + ROW_BYTES;
        self.times = [0; 2];
        match self.of_records {
            Depth::Everything => {
                let extra_bytes = self.extra_bytes;
                self.message(inner, record, 0)?;
                self.extra_bytes = extra_bytes;
            }
            Depth::Times => self.times_of(inner, record)?,
            Depth::Lengths => return Ok(()),
        }
        let [time, second] = self.times;
        if !self.found.days.note(if time == 0 { second } else { time }, self.limits.days) {
            return Err(Fault::at(WireErrorKind::TooManyDays, record));
        }
        Ok(())
    }

    /// Passes over the records that follow one another, of which only the lengths count: in less
    /// than half of the instructions of the walk by the message's table. Their bytes in the group.
    fn following(&mut self, tag: u32, cursor: &mut Cursor<'a>) -> Result<usize, Fault> {
        let start_bytes = cursor.rest().len();
        let (mut records, mut own_bytes) = (0, 0);
        // Tags of records take one byte.
        while cursor.take_byte(tag as u8) {
            own_bytes += cursor.bytes()?.len();
            records += 1;
        }
        self.found.records += records;
        self.found.written_bytes += own_bytes as u64 + records * ROW_BYTES;
        Ok(start_bytes - cursor.rest().len())
    }

    fn times_of(&mut self, message: &Message, record: &[u8]) -> Result<(), Fault> {
        let mut cursor = Cursor::new(record);
        while let Some(tag) = cursor.tag()? {
            match message.field(tag >> 3).map(|field| field.kind) {
                Some(kind @ (Kind::Time | Kind::SecondTime)) if kind.carried_by(tag & 7) => {
                    self.times[usize::from(matches!(kind, Kind::SecondTime))] = cursor.fixed64()?;
                }
                _ => cursor.skip(tag)?,
            }
        }
        Ok(())
    }

    fn group(&mut self, inner: &Message, group: &'a [u8]) -> Result<(), Fault> {
        let records = self.found.records;
        let extra_bytes = std::mem::take(&mut self.extra_bytes);
        self.message(inner, group, 0)?;
        let shared_bytes = group.len().saturating_sub(self.children_bytes) as u64;
        let each = repeated_bytes(shared_bytes + self.extra_bytes);
        let repeated = each.saturating_mul(self.found.records - records);
        self.extra_bytes = extra_bytes;
        self.found.written_bytes = self.found.written_bytes.saturating_add(repeated);
        if self.found.written_bytes > self.limits.written_bytes {
            return Err(Fault::at(WireErrorKind::TooMuchWritten, group));
        }
        Ok(())
    }

    #[inline]
    fn text(&mut self, bytes: &[u8], depth: u32) -> Result<(), Fault> {
        if depth > 0 {
            // Written in JSON, maybe.
            self.extra_bytes += escapes_len(bytes);
        }
        text(bytes)
    }
}

/// Whether an attribute is a key and a text, number or flag, each once and in this order, as
/// encoders write nearly all of them: found in a third of the time that a walk takes. What isn't is
/// walked, and so is what is malformed, for the place of the fault.
#[inline]
fn is_plain(attribute: &[u8]) -> bool {
    const KEY: u8 = tag(1, LENGTH) as u8;
    const VALUE: u8 = tag(2, LENGTH) as u8;
    const STRING: u8 = tag(1, LENGTH) as u8;
    const BOOL: u8 = tag(2, VARINT) as u8;
    const INT: u8 = tag(3, VARINT) as u8;
    const DOUBLE: u8 = tag(4, FIXED64) as u8;
    let mut cursor = Cursor::new(attribute);
    let (true, Ok(key)) = (cursor.take_byte(KEY), cursor.bytes()) else { return false };
    let (true, Ok(value)) = (cursor.take_byte(VALUE), cursor.bytes()) else { return false };
    let Some((kind, rest)) = value.split_first() else { return false };
    let mut inner = Cursor::new(rest);
    let is_read = match *kind {
        STRING => inner.bytes().and_then(text).is_ok(),
        BOOL | INT => inner.varint().is_ok(),
        DOUBLE => inner.fixed64().is_ok(),
        _ => false,
    };
    is_read && inner.is_empty() && cursor.is_empty() && text(key).is_ok()
}

/// Length of a group or record with its tag, which takes one byte.
fn field_len(value_bytes: usize) -> usize {
    1 + varint_len(value_bytes as u64) + value_bytes
}

/// Length of an attribute's key.
fn key_len(attribute: &[u8]) -> u64 {
    const KEY: u32 = tag(1, LENGTH);
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

/// By how much a text is longer in JSON.
fn escapes_len(text: &[u8]) -> u64 {
    let escapes = text.iter().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    });
    escapes.sum()
}

#[inline]
fn text(bytes: &[u8]) -> Result<(), Fault> {
    /// Below it, looking for ASCII takes 2 ns and the full validation 12 to 30 ns; far above it,
    /// the validation is the faster one.
    const SHORT_BYTES: usize = 32;
    // Nearly all strings are short and ASCII.
    if bytes.len() < SHORT_BYTES && bytes.is_ascii() {
        return Ok(());
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => Ok(()),
        Err(error) => Err(Fault::at(WireErrorKind::Utf8, &bytes[error.valid_up_to()..])),
    }
}

#[inline]
fn id(bytes: &[u8], length: usize) -> Result<(), Fault> {
    if bytes.len() == length || bytes.is_empty() {
        Ok(())
    } else {
        Err(Fault::at(WireErrorKind::IdLength, bytes))
    }
}

fn packed(cursor: &mut Cursor<'_>, tag: u32, kind: Kind) -> Result<(), Fault> {
    if tag & 7 != LENGTH {
        return cursor.skip(tag);
    }
    let bytes = cursor.bytes()?;
    if matches!(kind, Kind::PackedFixed64) {
        return if bytes.len().is_multiple_of(8) {
            Ok(())
        } else {
            Err(Fault::at(WireErrorKind::PackedLength, bytes))
        };
    }
    let mut items = Cursor::new(bytes);
    while !items.is_empty() {
        items.varint()?;
    }
    Ok(())
}
