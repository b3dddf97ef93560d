//! Encodes parts of OTLP messages: attributes, exemplars, and unescaped texts.

use millrace_wire::protobuf::{
    FIXED64, LENGTH, VARINT, field_tag, put_bytes, put_varint, varint_len,
};

use crate::parse::line::{Label, LineText, SampleExemplar};

pub(crate) const RESOURCE_ATTRIBUTE: u8 = field_tag(1, LENGTH) as u8;
pub(crate) const NUMBER_ATTRIBUTE: u8 = field_tag(7, LENGTH) as u8;
pub(crate) const HISTOGRAM_ATTRIBUTE: u8 = field_tag(9, LENGTH) as u8;
pub(crate) const EXPONENTIAL_ATTRIBUTE: u8 = field_tag(1, LENGTH) as u8;
pub(crate) const SUMMARY_ATTRIBUTE: u8 = field_tag(7, LENGTH) as u8;
const KEY: u8 = field_tag(1, LENGTH) as u8;
const VALUE: u8 = field_tag(2, LENGTH) as u8;
const STRING: u8 = field_tag(1, LENGTH) as u8;
const INTEGER: u8 = field_tag(3, VARINT) as u8;
const EXEMPLAR_TIME: u8 = field_tag(2, FIXED64) as u8;
const EXEMPLAR_VALUE: u8 = field_tag(3, FIXED64) as u8;
const SPAN_ID: u8 = field_tag(4, LENGTH) as u8;
const TRACE_ID: u8 = field_tag(5, LENGTH) as u8;
const FILTERED_ATTRIBUTE: u8 = field_tag(7, LENGTH) as u8;

/// The longest key and value with which all lengths around them take one byte.
const SHORT: usize = 60;

#[inline]
pub(crate) fn put_fixed64(out: &mut Vec<u8>, tag: u8, bits: u64) {
    let mut field = [tag; 9];
    field[1..].copy_from_slice(&bits.to_le_bytes());
    out.extend_from_slice(&field);
}

/// Writes an attribute with a text value.
#[inline]
pub(crate) fn put_attribute(out: &mut Vec<u8>, tag: u8, key: &[u8], value: &[u8]) {
    if key.len() <= SHORT && value.len() <= SHORT {
        let (key_bytes, value_bytes) = (key.len() as u8, value.len() as u8);
        out.extend_from_slice(&[tag, 6 + key_bytes + value_bytes, KEY, key_bytes]);
        out.extend_from_slice(key);
        out.extend_from_slice(&[VALUE, 2 + value_bytes, STRING, value_bytes]);
        out.extend_from_slice(value);
        return;
    }
    let field = |length: usize| 1 + varint_len(length as u64) + length;
    out.push(tag);
    put_varint(out, (field(key.len()) + field(field(value.len()))) as u64);
    put_bytes(out, KEY, key);
    out.push(VALUE);
    put_varint(out, field(value.len()) as u64);
    put_bytes(out, STRING, value);
}

/// Writes an attribute with an integer value.
pub(crate) fn put_integer(out: &mut Vec<u8>, tag: u8, key: &[u8], value: u64) {
    let mut inner = vec![INTEGER];
    put_varint(&mut inner, value);
    let mut pair = Vec::new();
    put_bytes(&mut pair, KEY, key);
    put_bytes(&mut pair, VALUE, &inner);
    put_bytes(out, tag, &pair);
}

/// Appends a text with its escapes `\\`, `\"` and `\n` resolved. Other backslashes stay.
pub(crate) fn append_unescaped(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let (byte, consumed) = match rest.get(at + 1) {
            Some(b'n') => (b'\n', 2),
            Some(byte @ (b'\\' | b'"')) => (*byte, 2),
            _ => (b'\\', 1),
        };
        out.push(byte);
        rest = &rest[at + consumed..];
    }
    out.extend_from_slice(rest);
}

/// Returns a text with its escapes resolved; an escaped text is written to `buffer`.
#[inline]
pub(crate) fn unescaped_text<'a>(
    text: LineText,
    line: &'a [u8],
    buffer: &'a mut Vec<u8>,
) -> &'a [u8] {
    if !text.is_escaped {
        return text.span.slice_of(line);
    }
    buffer.clear();
    append_unescaped(text.span.slice_of(line), buffer);
    buffer
}

/// Writes the content of an exemplar's message. Valid labels `trace_id` and `span_id` become its
/// ids; all others become attributes.
pub(crate) fn put_exemplar(
    out: &mut Vec<u8>,
    line: &[u8],
    exemplar: &SampleExemplar,
    labels: &[Label],
    time_unix_nano: u64,
) {
    let time = exemplar.time.and_then(|time| u64::try_from(time).ok());
    put_exemplar_value(out, time.unwrap_or(time_unix_nano), exemplar.value);
    let (mut one, mut other) = (Vec::new(), Vec::new());
    for label in labels {
        let name = unescaped_text(label.name, line, &mut one);
        let value = unescaped_text(label.value, line, &mut other);
        put_exemplar_label(out, name, value);
    }
}

pub(crate) fn put_exemplar_value(out: &mut Vec<u8>, time_unix_nano: u64, value: f64) {
    put_fixed64(out, EXEMPLAR_TIME, time_unix_nano);
    put_fixed64(out, EXEMPLAR_VALUE, value.to_bits());
}

/// Writes an exemplar's label as an id, if it is a valid one, or as an attribute.
pub(crate) fn put_exemplar_label(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    match name {
        b"trace_id" if put_id::<16>(out, TRACE_ID, value) => {}
        b"span_id" if put_id::<8>(out, SPAN_ID, value) => {}
        _ => put_attribute(out, FILTERED_ATTRIBUTE, name, value),
    }
}

/// Writes an id of `BYTES` bytes. Returns `false` if the text isn't one in hexadecimal.
fn put_id<const BYTES: usize>(out: &mut Vec<u8>, tag: u8, text: &[u8]) -> bool {
    if text.len() != 2 * BYTES {
        return false;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut id = [0; BYTES];
    for (byte, pair) in id.iter_mut().zip(text.chunks_exact(2)) {
        match (digit(pair[0]), digit(pair[1])) {
            (Some(high), Some(low)) => *byte = (high << 4 | low) as u8,
            _ => return false,
        }
    }
    put_bytes(out, tag, &id);
    true
}
