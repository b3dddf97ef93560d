//! A request as OTLP in JSON, indented, for people: what [`super::transcode`] reads back.
//!
//! Made for looking at single messages, not for throughput: a message's fields are listed before
//! they are written, 32 bytes of memory for each, one level at a time. Bytes that are no OTLP give
//! the place where they stop being it; nothing is guessed.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::shape::{Scalar, Shape};
use crate::error::{Fault, WireError};
use crate::limits::Limits;
use crate::otlp::check;
use crate::otlp::descriptor::{Field, Kind, Message, request};
use crate::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT};
use crate::signal::Signal;

/// Writes a request as indented JSON. Control characters in strings are escaped, so that the text
/// can be shown on a terminal.
///
/// # Errors
/// The first place where `request_bytes` isn't well-formed OTLP within `limits`.
pub fn print(
    signal: Signal,
    request_bytes: &[u8],
    limits: &Limits,
) -> Result<String, Box<WireError>> {
    check(signal, request_bytes, limits).map_err(Box::new)?;
    let mut printer = Printer { out: String::new(), depth: 0 };
    match printer.message(request(signal), request_bytes) {
        Ok(()) => Ok(printer.out),
        Err(fault) => Err(Box::new(WireError::locate(signal, request_bytes, fault))),
    }
}

struct Printer {
    out: String,
    depth: usize,
}

/// A field's value as it is on the wire.
#[derive(Clone, Copy)]
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Printer {
    fn message(&mut self, message: &Message, bytes: &[u8]) -> Result<(), Fault> {
        let mut found = fields(message, bytes)?;
        // By number, and within one number as they came.
        found.sort_by_key(|(number, _)| *number);
        self.out.push('{');
        self.depth += 1;
        let mut first = true;
        for values in found.chunk_by(|a, b| a.0 == b.0) {
            let Some(field) = values.first().and_then(|(number, _)| message.field(*number)) else {
                continue;
            };
            self.item(&mut first);
            self.key(field.name);
            self.field(field, values)?;
        }
        self.close('}', first);
        Ok(())
    }

    fn field(&mut self, field: &Field, values: &[(u32, Raw<'_>)]) -> Result<(), Fault> {
        let shape = Shape::of(field.name, field.kind);
        if shape.repeated {
            self.out.push('[');
            self.depth += 1;
            let mut first = true;
            for (_, raw) in values {
                match raw {
                    Raw::Bytes(bytes) if shape.packed => {
                        self.packed(&shape, bytes, &mut first)?;
                    }
                    _ => {
                        self.item(&mut first);
                        self.value(&shape, *raw)?;
                    }
                }
            }
            self.close(']', first);
            return Ok(());
        }
        match (shape.kind.message(), values) {
            // A message in pieces is the pieces, one after the other.
            (Some(inner), [_, _, ..]) => {
                let mut whole = Vec::new();
                for (_, raw) in values {
                    if let Raw::Bytes(piece) = raw {
                        whole.extend_from_slice(piece);
                    }
                }
                self.message(inner, &whole)
            }
            (_, [.., (_, last)]) => self.value(&shape, *last),
            (_, []) => Ok(()),
        }
    }

    fn packed(&mut self, shape: &Shape, bytes: &[u8], first: &mut bool) -> Result<(), Fault> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let number = match shape.kind {
                Kind::PackedVarint => cursor.varint()?,
                _ => cursor.fixed64()?,
            };
            self.item(first);
            self.scalar(shape.scalar, number);
        }
        Ok(())
    }

    fn value(&mut self, shape: &Shape, raw: Raw<'_>) -> Result<(), Fault> {
        match (shape.kind.message(), shape.kind, raw) {
            (Some(message), _, Raw::Bytes(bytes)) => return self.message(message, bytes),
            (_, Kind::Text, Raw::Bytes(bytes)) => self.text(&String::from_utf8_lossy(bytes)),
            (_, Kind::Id(_), Raw::Bytes(bytes)) => {
                self.out.push('"');
                for byte in bytes {
                    let _ = write!(self.out, "{byte:02x}");
                }
                self.out.push('"');
            }
            (_, _, Raw::Bytes(bytes)) => {
                let text = STANDARD.encode(bytes);
                self.text(&text);
            }
            (_, _, Raw::Number(number)) => self.scalar(shape.scalar, number),
        }
        Ok(())
    }

    /// A number by its type: those of 64 bits are strings, as protobuf's JSON has them.
    fn scalar(&mut self, scalar: Scalar, bits: u64) {
        let out = &mut self.out;
        let _ = match scalar {
            Scalar::Bool => write!(out, "{}", bits != 0),
            Scalar::Int64 | Scalar::Sfixed64 => write!(out, "\"{}\"", bits as i64),
            Scalar::Uint64 | Scalar::Fixed64 => write!(out, "\"{bits}\""),
            Scalar::Uint32 | Scalar::Fixed32 => write!(out, "{}", bits as u32),
            Scalar::Sint32 => write!(out, "{}", crate::protobuf::unzigzag(bits) as i32),
            Scalar::Enum(_) => write!(out, "{}", bits as i32),
            Scalar::Double => match f64::from_bits(bits) {
                value if value.is_nan() => write!(out, "\"NaN\""),
                f64::INFINITY => write!(out, "\"Infinity\""),
                f64::NEG_INFINITY => write!(out, "\"-Infinity\""),
                value => write!(out, "{value:?}"),
            },
        };
    }

    /// `snake_case` in camel case.
    fn key(&mut self, name: &str) {
        self.out.push('"');
        let mut upper = false;
        for c in name.chars() {
            match c {
                '_' => upper = true,
                c if std::mem::take(&mut upper) => self.out.push(c.to_ascii_uppercase()),
                c => self.out.push(c),
            }
        }
        self.out.push_str("\": ");
    }

    fn text(&mut self, text: &str) {
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '\n' => self.out.push_str("\\n"),
                '\t' => self.out.push_str("\\t"),
                c if c.is_control() || is_reordering(c) => {
                    let _ = write!(self.out, "\\u{:04x}", u32::from(c));
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    /// Begins an item of a list or an object.
    fn item(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.line();
    }

    fn close(&mut self, bracket: char, empty: bool) {
        self.depth -= 1;
        if !empty {
            self.line();
        }
        self.out.push(bracket);
    }

    fn line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }
}

/// Characters that make a terminal show text in another order than it is in.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The fields of a message that OTLP knows, as they came.
fn fields<'a>(message: &Message, bytes: &'a [u8]) -> Result<Vec<(u32, Raw<'a>)>, Fault> {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(bytes);
    while let Some(tag) = cursor.tag()? {
        let known =
            message.field(tag >> 3).is_some_and(|field| !matches!(field.kind, Kind::Unknown));
        if !known {
            cursor.skip(tag)?;
            continue;
        }
        let raw = match tag & 7 {
            VARINT => Raw::Number(cursor.varint()?),
            FIXED64 => Raw::Number(cursor.fixed64()?),
            FIXED32 => Raw::Number(u64::from(cursor.fixed32()?)),
            LENGTH => Raw::Bytes(cursor.bytes()?),
            _ => {
                cursor.skip(tag)?;
                continue;
            }
        };
        found.push((tag >> 3, raw));
    }
    Ok(found)
}
