//! OTLP in JSON: [`print`] writes it for people, [`transcode`] reads it from clients.
//!
//! JSON is written as protobuf in one pass: no tree of the request is built.
//!
//! The messages' tables drive it, so a key is looked up where its value goes, and each value is
//! written as it is read. What comes out is checked like any other request by [`super::check`].
//!
//! The mapping is protobuf's JSON with OTLP's changes (opentelemetry-proto, `specification.md`):
//! ids are hex, enums are numbers. Also read: enum names, base64 in either alphabet, 64-bit
//! numbers as numbers or strings, field names in snake case, `null` for a field not given. Keys
//! that OTLP doesn't know are passed over. A lone surrogate in a string becomes U+FFFD, because no
//! UTF-8 can hold it. Not read: comments, trailing commas, `null` inside a list.

mod error;
mod out;
mod print;
mod reader;
mod scalar;
mod shape;

pub use error::{JsonError, JsonErrorKind};
pub use print::print;

use crate::limits::{JSON_DEPTH, NESTING_DEPTH};
use crate::otlp::descriptor::{Kind, Message, request};
use crate::protobuf::{FIXED32, FIXED64, LENGTH, VARINT};
use crate::signal::Signal;
use error::Stop;
use out::Out;
use reader::Reader;
use shape::{Scalar, Shape, field_named};

/// Replaces `out`'s content with the protobuf form of a request in JSON. `out` never grows past
/// `limit_bytes`; its capacity is kept.
///
/// # Errors
/// The first thing that is not OTLP in JSON, with its offset and path, or
/// [`JsonErrorKind::TooLong`] when the protobuf form is longer than `limit_bytes`.
pub fn transcode(
    signal: Signal,
    json: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    write(signal, json, limit_bytes, out, |transcoder| transcoder.request(signal))
}

/// The same of a request's groups alone, as a list without the request around it: `ResourceSpans`,
/// `ResourceLogs` or `ResourceMetrics`. Rotel writes its messages so.
///
/// # Errors
/// Those of [`transcode`].
pub fn transcode_groups(
    signal: Signal,
    json: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), JsonError> {
    write(signal, json, limit_bytes, out, |transcoder| transcoder.groups(signal))
}

fn write(
    signal: Signal,
    json: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
    read: impl FnOnce(&mut Transcoder<'_, '_>) -> Step,
) -> Result<(), JsonError> {
    out.clear();
    let result = match std::str::from_utf8(json) {
        Ok(_) => {
            let out = Out::new(out, limit_bytes, json.len());
            read(&mut Transcoder { reader: Reader::new(json), out })
        }
        Err(error) => Err(Stop::at(error.valid_up_to(), JsonErrorKind::Utf8)),
    };
    result.map_err(|stop| JsonError::new(signal, *stop))
}

struct Transcoder<'a, 'o> {
    reader: Reader<'a>,
    out: Out<'o>,
}

type Step = Result<(), Box<Stop>>;

impl Transcoder<'_, '_> {
    fn request(&mut self, signal: Signal) -> Step {
        self.object(request(signal), 0)?;
        self.reader.end()
    }

    /// A list as the request's groups, the one field that a request has.
    fn groups(&mut self, signal: Signal) -> Step {
        for (number, field) in (1..).zip(request(signal).fields) {
            let shape = Shape::of(field.name, field.kind);
            self.field(number, &shape, 0).map_err(|stop| stop.inside(field.name))?;
        }
        self.reader.end()
    }

    /// An object as the fields of a message. `depth` counts nested attribute values.
    fn object(&mut self, message: &'static Message, depth: u32) -> Step {
        self.reader.expect(b'{', "an object")?;
        if self.reader.eat(b'}') {
            return Ok(());
        }
        loop {
            let key = self.reader.string()?;
            self.reader.expect(b':', "a colon")?;
            match field_named(message, &key) {
                Some((number, name, kind)) => {
                    let shape = Shape::of(name, kind);
                    self.field(number, &shape, depth).map_err(|stop| stop.inside(name))?;
                }
                None => self.reader.skip_value(JSON_DEPTH)?,
            }
            if !self.reader.goes_on(b'}')? {
                return Ok(());
            }
        }
    }

    fn field(&mut self, number: u32, shape: &Shape, depth: u32) -> Step {
        if self.reader.eat_null()? {
            return Ok(());
        }
        if !shape.repeated {
            return self.value(number, shape, depth);
        }
        self.reader.expect(b'[', "a list")?;
        if self.reader.eat(b']') {
            return Ok(());
        }
        if shape.packed {
            return self.packed(number, shape.scalar);
        }
        loop {
            self.value(number, shape, depth)?;
            if !self.reader.goes_on(b']')? {
                return Ok(());
            }
        }
    }

    /// Numbers of one list behind one tag.
    fn packed(&mut self, number: u32, scalar: Scalar) -> Step {
        self.tag(number, LENGTH)?;
        let start = self.placed(|out| out.open())?;
        loop {
            self.number(scalar)?;
            if !self.reader.goes_on(b']')? {
                return self.placed(|out| out.close(start));
            }
        }
    }

    /// One value with its tag.
    fn value(&mut self, number: u32, shape: &Shape, depth: u32) -> Step {
        match shape.kind {
            Kind::Text => {
                self.tag(number, LENGTH)?;
                self.text()
            }
            Kind::Id(length) => {
                let start = self.reader.position();
                let digits = self.reader.string()?;
                let mut id = [0; 16];
                let id =
                    scalar::id(&digits, length, &mut id).map_err(|kind| Stop::at(start, kind))?;
                self.tag(number, LENGTH)?;
                self.placed(|out| out.bytes(id))
            }
            Kind::Bytes => {
                let start = self.reader.position();
                let text = self.reader.string()?;
                let bytes = scalar::base64(&text).map_err(|kind| Stop::at(start, kind))?;
                self.tag(number, LENGTH)?;
                self.placed(|out| out.bytes(&bytes))
            }
            Kind::Fixed64 | Kind::Time | Kind::SecondTime | Kind::PackedFixed64 => {
                self.tag(number, FIXED64)?;
                self.number(shape.scalar)
            }
            Kind::Fixed32 => {
                self.tag(number, FIXED32)?;
                self.number(shape.scalar)
            }
            Kind::Varint | Kind::PackedVarint => {
                self.tag(number, VARINT)?;
                self.number(shape.scalar)
            }
            Kind::Nested(inner) => {
                if depth >= NESTING_DEPTH {
                    return Err(self.reader.stop(JsonErrorKind::TooDeep));
                }
                self.message(number, inner, depth + 1)
            }
            Kind::Message(_)
            | Kind::Part(_)
            | Kind::Attribute
            | Kind::Element
            | Kind::Group(_)
            | Kind::Record(_) => match shape.kind.message() {
                Some(inner) => self.message(number, inner, depth),
                None => self.reader.skip_value(JSON_DEPTH),
            },
            Kind::Unknown => self.reader.skip_value(JSON_DEPTH),
        }
    }

    fn message(&mut self, number: u32, message: &'static Message, depth: u32) -> Step {
        self.tag(number, LENGTH)?;
        let start = self.placed(|out| out.open())?;
        self.object(message, depth)?;
        self.placed(|out| out.close(start))
    }

    fn text(&mut self) -> Step {
        let start = self.placed(|out| out.open())?;
        let Self { reader, out } = self;
        let began = reader.position();
        reader.text(|piece| out.raw(piece).map_err(|kind| Stop::at(began, kind)))?;
        self.placed(|out| out.close(start))
    }

    /// A number, bool or enum, in the form its field has.
    fn number(&mut self, scalar: Scalar) -> Step {
        let start = self.reader.position();
        let token = self.reader.scalar()?;
        let value = scalar.read(&token).map_err(|kind| Stop::at(start, kind))?;
        self.placed(|out| out.scalar(value))
    }

    fn tag(&mut self, number: u32, wire_type: u32) -> Step {
        self.placed(|out| out.varint(u64::from(number << 3 | wire_type)))
    }

    /// Does something to the output; what fails there is placed where the reader is.
    fn placed<T>(
        &mut self,
        write: impl FnOnce(&mut Out<'_>) -> Result<T, JsonErrorKind>,
    ) -> Result<T, Box<Stop>> {
        let Self { reader, out } = self;
        write(out).map_err(|kind| reader.stop(kind))
    }
}
