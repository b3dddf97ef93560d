//! A full walk over a request: is every byte of it OTLP, and how many records are in it?

use crate::error::{Fault, WireError, WireErrorKind};
use crate::limits::Limits;
use crate::otlp::descriptor::{KEY_VALUE, Kind, METRIC, Message, request};
use crate::protobuf::{Cursor, LENGTH};
use crate::signal::Signal;

/// What a check found in a well-formed request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Spans, log records or metric points.
    pub records: u64,
}

/// Checks every field of `request_bytes`: tags, wire types, lengths, nesting, the number of
/// attributes, the length of ids, and that strings are UTF-8; counts the records.
///
/// Bytes that pass can be read by any protobuf implementation and by the views beside this
/// function.
///
/// # Errors
/// The first fault found, with its offset and path.
pub fn check(signal: Signal, request_bytes: &[u8], limits: &Limits) -> Result<Checked, WireError> {
    let mut walk = Walk { limits: *limits, records: 0 };
    let result = if request_bytes.len() > limits.message_bytes {
        Err(Fault::at(WireErrorKind::TooLong, request_bytes))
    } else {
        walk.message(request(signal), request_bytes, 0)
    };
    match result {
        Ok(()) => Ok(Checked { records: walk.records }),
        Err(fault) => Err(WireError::locate(signal, request_bytes, fault)),
    }
}

struct Walk {
    limits: Limits,
    records: u64,
}

impl Walk {
    fn message(&mut self, message: &Message, bytes: &[u8], depth: u32) -> Result<(), Fault> {
        let mut cursor = Cursor::new(bytes);
        let mut attributes = 0;
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
                Kind::Varint => drop(cursor.varint()?),
                Kind::Text => text(cursor.bytes()?)?,
                Kind::Id(length) => id(cursor.bytes()?, length)?,
                Kind::Attribute => {
                    attributes += 1;
                    if attributes > self.limits.attributes {
                        return Err(cursor.fault(WireErrorKind::TooManyAttributes));
                    }
                    self.message(&KEY_VALUE, cursor.bytes()?, depth)?;
                }
                Kind::Nested(inner) => {
                    if depth >= self.limits.nesting_depth {
                        return Err(cursor.fault(WireErrorKind::TooDeep));
                    }
                    self.message(inner, cursor.bytes()?, depth + 1)?;
                }
                Kind::Record(inner) => {
                    self.records += 1;
                    self.message(inner, cursor.bytes()?, depth)?;
                }
                Kind::PackedFixed64 | Kind::PackedVarint => {
                    packed(&mut cursor, tag, field.kind)?;
                }
                Kind::Unknown | Kind::Fixed32 | Kind::Bytes => cursor.skip(tag)?,
                Kind::Group(inner) => {
                    // The one message with several kinds of groups, of which it may have one.
                    if data && std::ptr::eq(message, &raw const METRIC) {
                        return Err(cursor.fault(WireErrorKind::DataTwice));
                    }
                    data = true;
                    self.message(inner, cursor.bytes()?, depth)?;
                }
                Kind::Message(_) | Kind::Element => {
                    if let Some(inner) = field.kind.message() {
                        self.message(inner, cursor.bytes()?, depth)?;
                    }
                }
            }
        }
        Ok(())
    }
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
