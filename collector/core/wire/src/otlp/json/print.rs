//! Writes a request as OTLP in JSON, indented, for people; [`super::transcode_request`] reads it
//! back.
//!
//! It is made for single messages, not for throughput: it lists a message's fields before it writes
//! them, 32 bytes of memory each, one level at a time. Bytes that are no OTLP give the position of
//! the fault; nothing is guessed.

use std::fmt::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::shape::{FieldShape, Scalar};
use crate::error::{WireError, WireFault};
use crate::limits::WireLimits;
use crate::otlp::check_request;
use crate::otlp::descriptor::{FieldDescriptor, FieldKind, MessageDescriptor, request_message};
use crate::protobuf::{Cursor, FIXED32, FIXED64, LENGTH, VARINT};
use crate::signal::Signal;

/// Writes a request as indented JSON. Escapes control characters in strings, so that a terminal can
/// show the text.
///
/// # Errors
/// The first position at which `request_bytes` isn't well-formed OTLP within `limits`.
pub fn print_request(
    signal: Signal,
    request_bytes: &[u8],
    limits: &WireLimits,
) -> Result<String, Box<WireError>> {
    check_request(signal, request_bytes, limits).map_err(Box::new)?;
    let mut printer = Printer { out: String::new(), depth: 0 };
    match printer.print_message(request_message(signal), request_bytes) {
        Ok(()) => Ok(printer.out),
        Err(fault) => Err(Box::new(WireError::from_fault(signal, request_bytes, fault))),
    }
}

struct Printer {
    out: String,
    depth: usize,
}

/// A field's value as on the wire.
#[derive(Clone, Copy)]
enum Raw<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl Printer {
    fn print_message(
        &mut self,
        message: &MessageDescriptor,
        bytes: &[u8],
    ) -> Result<(), WireFault> {
        let mut found = collect_fields(message, bytes)?;
        // By number; equal numbers stay in their order.
        found.sort_by_key(|(number, _)| *number);
        self.out.push('{');
        self.depth += 1;
        let mut first = true;
        for values in found.chunk_by(|a, b| a.0 == b.0) {
            let Some(field) = values.first().and_then(|(number, _)| message.field(*number)) else {
                continue;
            };
            self.begin_item(&mut first);
            self.print_key(field.name);
            self.print_field(field, values)?;
        }
        self.close_bracket('}', first);
        Ok(())
    }

    fn print_field(
        &mut self,
        field: &FieldDescriptor,
        values: &[(u32, Raw<'_>)],
    ) -> Result<(), WireFault> {
        let shape = FieldShape::from_field(field.name, field.kind);
        if shape.repeated {
            self.out.push('[');
            self.depth += 1;
            let mut first = true;
            for (_, raw) in values {
                match raw {
                    Raw::Bytes(bytes) if shape.packed => {
                        self.print_packed(&shape, bytes, &mut first)?;
                    }
                    _ => {
                        self.begin_item(&mut first);
                        self.print_value(&shape, *raw)?;
                    }
                }
            }
            self.close_bracket(']', first);
            return Ok(());
        }
        match (shape.kind.inner_message(), values) {
            // A message in pieces is their concatenation.
            (Some(inner), [_, _, ..]) => {
                let mut joined = Vec::new();
                for (_, raw) in values {
                    if let Raw::Bytes(piece) = raw {
                        joined.extend_from_slice(piece);
                    }
                }
                self.print_message(inner, &joined)
            }
            (_, [.., (_, last)]) => self.print_value(&shape, *last),
            (_, []) => Ok(()),
        }
    }

    fn print_packed(
        &mut self,
        shape: &FieldShape,
        bytes: &[u8],
        first: &mut bool,
    ) -> Result<(), WireFault> {
        let mut cursor = Cursor::new(bytes);
        while !cursor.is_empty() {
            let number = match shape.kind {
                FieldKind::PackedVarint => cursor.varint()?,
                _ => cursor.fixed64()?,
            };
            self.begin_item(first);
            self.print_scalar(shape.scalar, number);
        }
        Ok(())
    }

    fn print_value(&mut self, shape: &FieldShape, raw: Raw<'_>) -> Result<(), WireFault> {
        match (shape.kind.inner_message(), shape.kind, raw) {
            (Some(message), _, Raw::Bytes(bytes)) => return self.print_message(message, bytes),
            (_, FieldKind::Text, Raw::Bytes(bytes)) => {
                self.print_text(&String::from_utf8_lossy(bytes))
            }
            (_, FieldKind::Id(_), Raw::Bytes(bytes)) => {
                self.out.push('"');
                for byte in bytes {
                    let _ = write!(self.out, "{byte:02x}");
                }
                self.out.push('"');
            }
            (_, _, Raw::Bytes(bytes)) => {
                let text = STANDARD.encode(bytes);
                self.print_text(&text);
            }
            (_, _, Raw::Number(number)) => self.print_scalar(shape.scalar, number),
        }
        Ok(())
    }

    /// Writes a number by its type: those of 64 bits are strings, as in protobuf's JSON.
    fn print_scalar(&mut self, scalar: Scalar, bits: u64) {
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

    /// Writes a `snake_case` name in camel case.
    fn print_key(&mut self, name: &str) {
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

    fn print_text(&mut self, text: &str) {
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
    fn begin_item(&mut self, first: &mut bool) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.break_line();
    }

    fn close_bracket(&mut self, bracket: char, empty: bool) {
        self.depth -= 1;
        if !empty {
            self.break_line();
        }
        self.out.push(bracket);
    }

    fn break_line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.depth {
            self.out.push_str("  ");
        }
    }
}

/// Whether a character makes a terminal show text in another order.
fn is_reordering(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the known fields of a message, in their order.
fn collect_fields<'a>(
    message: &MessageDescriptor,
    bytes: &'a [u8],
) -> Result<Vec<(u32, Raw<'a>)>, WireFault> {
    let mut found = Vec::new();
    let mut cursor = Cursor::new(bytes);
    while let Some(tag) = cursor.tag()? {
        let known =
            message.field(tag >> 3).is_some_and(|field| !matches!(field.kind, FieldKind::Unknown));
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
