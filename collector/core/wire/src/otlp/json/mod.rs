//! OTLP in JSON: [`print`] writes it for people, [`transcode_request`] reads it from clients.
//!
//! JSON is written as protobuf in one pass, without a tree of the request.
//!
//! The messages' tables drive it: a key is looked up at its message, and each value is written as
//! it is read. The result is checked like any other request by [`super::check`].
//!
//! The mapping is protobuf's JSON with OTLP's changes (opentelemetry-proto, `specification.md`):
//! ids are hex, enums are numbers. Also read: enum names, base64 in either alphabet, 64-bit numbers
//! as numbers or strings, field names in snake case, `null` for an absent field. Unknown keys are
//! skipped. A lone surrogate in a string becomes U+FFFD, because no UTF-8 can hold it. Not read:
//! comments, trailing commas, `null` inside a list.

mod error;
mod out;
mod print;
mod reader;
mod scalar;
mod shape;

pub use error::{JsonError, JsonErrorKind};
pub use print::print_request;

use crate::limits::{JSON_DEPTH, NESTING_DEPTH};
use crate::otlp::descriptor::{FieldKind, MessageDescriptor, request_message};
use crate::protobuf::{FIXED32, FIXED64, LENGTH, VARINT};
use crate::signal::Signal;
use error::JsonFault;
use out::Out;
use reader::JsonReader;
use shape::{FieldShape, Scalar, field_named};

/// Replaces `out`'s content with the protobuf form of a request in JSON. `out` never grows past
/// `limit_bytes`; its capacity is reused.
///
/// # Errors
/// The first part that is not OTLP in JSON, with its offset and path, or [`JsonErrorKind::TooLong`]
/// if the protobuf form is longer than `limit_bytes`.
pub fn transcode_request(
    signal: Signal,
    json: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    write(signal, json, limit_bytes, out, |transcoder| transcoder.write_request(signal))
}

/// Transcodes a list of a request's groups without the enclosing request: `ResourceSpans`,
/// `ResourceLogs` or `ResourceMetrics`. Rotel writes its messages so.
///
/// # Errors
/// Those of [`transcode_request`].
pub fn transcode_groups(
    signal: Signal,
    json: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    write(signal, json, limit_bytes, out, |transcoder| transcoder.write_groups(signal))
}

fn write(
    signal: Signal,
    json: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
    read: impl FnOnce(&mut Transcoder<'_, '_>) -> JsonResult,
) -> Result<(), JsonError> {
    out.clear();
    let result = match std::str::from_utf8(json) {
        Ok(_) => {
            let out = Out::new(out, limit_bytes, json.len());
            read(&mut Transcoder { reader: JsonReader::new(json), out })
        }
        Err(error) => Err(JsonFault::new(error.valid_up_to(), JsonErrorKind::Utf8)),
    };
    result.map_err(|stop| JsonError::new(signal, *stop))
}

struct Transcoder<'a, 'o> {
    reader: JsonReader<'a>,
    out: Out<'o>,
}

type JsonResult = Result<(), Box<JsonFault>>;

impl Transcoder<'_, '_> {
    fn write_request(&mut self, signal: Signal) -> JsonResult {
        self.write_object(request_message(signal), 0)?;
        self.reader.expect_end()
    }

    /// Reads a list as the request's groups, the only field of a request.
    fn write_groups(&mut self, signal: Signal) -> JsonResult {
        for (number, field) in (1..).zip(request_message(signal).fields) {
            let shape = FieldShape::from_field(field.name, field.kind);
            self.write_field(number, &shape, 0).map_err(|stop| stop.in_field(field.name))?;
        }
        self.reader.expect_end()
    }

    /// Reads an object as the fields of a message. `depth` counts nested attribute values.
    fn write_object(&mut self, message: &'static MessageDescriptor, depth: u32) -> JsonResult {
        self.reader.expect(b'{', "an object")?;
        if self.reader.eat(b'}') {
            return Ok(());
        }
        loop {
            let key = self.reader.read_string()?;
            self.reader.expect(b':', "a colon")?;
            match field_named(message, &key) {
                Some((number, name, kind)) => {
                    let shape = FieldShape::from_field(name, kind);
                    self.write_field(number, &shape, depth).map_err(|stop| stop.in_field(name))?;
                }
                None => self.reader.skip_value(JSON_DEPTH)?,
            }
            if !self.reader.has_next_item(b'}')? {
                return Ok(());
            }
        }
    }

    fn write_field(&mut self, number: u32, shape: &FieldShape, depth: u32) -> JsonResult {
        if self.reader.eat_null()? {
            return Ok(());
        }
        if !shape.repeated {
            return self.write_value(number, shape, depth);
        }
        self.reader.expect(b'[', "a list")?;
        if self.reader.eat(b']') {
            return Ok(());
        }
        if shape.packed {
            return self.write_packed(number, shape.scalar);
        }
        loop {
            self.write_value(number, shape, depth)?;
            if !self.reader.has_next_item(b']')? {
                return Ok(());
            }
        }
    }

    /// Reads the numbers of one list behind one tag.
    fn write_packed(&mut self, number: u32, scalar: Scalar) -> JsonResult {
        self.write_tag(number, LENGTH)?;
        let start = self.with_out(|out| out.begin_value())?;
        loop {
            self.write_number(scalar)?;
            if !self.reader.has_next_item(b']')? {
                return self.with_out(|out| out.end_value(start));
            }
        }
    }

    /// Reads one value with its tag.
    fn write_value(&mut self, number: u32, shape: &FieldShape, depth: u32) -> JsonResult {
        match shape.kind {
            FieldKind::Text => {
                self.write_tag(number, LENGTH)?;
                self.write_text()
            }
            FieldKind::Id(length) => {
                let start = self.reader.position();
                let digits = self.reader.read_string()?;
                let mut id = [0; 16];
                let id = scalar::decode_id(&digits, length, &mut id)
                    .map_err(|kind| JsonFault::new(start, kind))?;
                self.write_tag(number, LENGTH)?;
                self.with_out(|out| out.put_bytes(id))
            }
            FieldKind::Bytes => {
                let start = self.reader.position();
                let text = self.reader.read_string()?;
                let bytes =
                    scalar::decode_base64(&text).map_err(|kind| JsonFault::new(start, kind))?;
                self.write_tag(number, LENGTH)?;
                self.with_out(|out| out.put_bytes(&bytes))
            }
            FieldKind::Fixed64
            | FieldKind::Time
            | FieldKind::SecondTime
            | FieldKind::PackedFixed64 => {
                self.write_tag(number, FIXED64)?;
                self.write_number(shape.scalar)
            }
            FieldKind::Fixed32 => {
                self.write_tag(number, FIXED32)?;
                self.write_number(shape.scalar)
            }
            FieldKind::Varint | FieldKind::PackedVarint => {
                self.write_tag(number, VARINT)?;
                self.write_number(shape.scalar)
            }
            FieldKind::Nested(inner) => {
                if depth >= NESTING_DEPTH {
                    return Err(self.reader.fault_here(JsonErrorKind::TooDeep));
                }
                self.write_message(number, inner, depth + 1)
            }
            FieldKind::Message(_)
            | FieldKind::Part(_)
            | FieldKind::Attribute
            | FieldKind::Element
            | FieldKind::Group(_)
            | FieldKind::Record(_) => match shape.kind.inner_message() {
                Some(inner) => self.write_message(number, inner, depth),
                None => self.reader.skip_value(JSON_DEPTH),
            },
            FieldKind::Unknown => self.reader.skip_value(JSON_DEPTH),
        }
    }

    fn write_message(
        &mut self,
        number: u32,
        message: &'static MessageDescriptor,
        depth: u32,
    ) -> JsonResult {
        self.write_tag(number, LENGTH)?;
        let start = self.with_out(|out| out.begin_value())?;
        self.write_object(message, depth)?;
        self.with_out(|out| out.end_value(start))
    }

    fn write_text(&mut self) -> JsonResult {
        let start = self.with_out(|out| out.begin_value())?;
        let Self { reader, out } = self;
        let began = reader.position();
        reader.stream_string(|piece| {
            out.put_raw(piece).map_err(|kind| JsonFault::new(began, kind))
        })?;
        self.with_out(|out| out.end_value(start))
    }

    /// Reads a number, bool or enum, in the form of its field.
    fn write_number(&mut self, scalar: Scalar) -> JsonResult {
        let start = self.reader.position();
        let token = self.reader.read_scalar()?;
        let value = scalar.read(&token).map_err(|kind| JsonFault::new(start, kind))?;
        self.with_out(|out| out.put_scalar(value))
    }

    fn write_tag(&mut self, number: u32, wire_type: u32) -> JsonResult {
        self.with_out(|out| out.put_varint(u64::from(number << 3 | wire_type)))
    }

    /// Writes to the output; an error gets the reader's position.
    fn with_out<T>(
        &mut self,
        write: impl FnOnce(&mut Out<'_>) -> Result<T, JsonErrorKind>,
    ) -> Result<T, Box<JsonFault>> {
        let Self { reader, out } = self;
        write(out).map_err(|kind| reader.fault_here(kind))
    }
}
