//! Protobuf's encoding, appended to a buffer. Fields up to number 15 only: their heads are one
//! byte, and OTLP's messages have no more.

use crate::content::{Attributes, Value};

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const FIXED32: u8 = 5;

const fn tag(field: u8, wire: u8) -> u8 {
    (field << 3) | wire
}

#[inline]
fn put_number(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const fn varint_len(value: u64) -> usize {
    // 7 bits a byte; `| 1` gives zero its one byte.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[inline]
pub(super) fn put_varint(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(tag(field, VARINT));
    put_number(out, value);
}

/// A `sint32`: zigzag.
pub(super) fn put_signed(out: &mut Vec<u8>, field: u8, value: i32) {
    put_varint(out, field, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(tag(field, BYTES));
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A text; none at all when it is empty, as proto3 has it.
#[inline]
pub(super) fn put_text(out: &mut Vec<u8>, field: u8, text: &str) {
    if !text.is_empty() {
        put_bytes(out, field, text.as_bytes());
    }
}

#[inline]
pub(super) fn put_fixed64(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(tag(field, FIXED64));
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put_double(out: &mut Vec<u8>, field: u8, value: f64) {
    put_fixed64(out, field, value.to_bits());
}

pub(super) fn put_fixed32(out: &mut Vec<u8>, field: u8, value: u32) {
    out.push(tag(field, FIXED32));
    out.extend_from_slice(&value.to_le_bytes());
}

/// A packed field of eight-byte numbers.
pub(super) fn put_packed64(out: &mut Vec<u8>, field: u8, values: impl IntoIterator<Item = u64>) {
    put_message(out, field, |out| {
        values.into_iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    });
}

/// A packed field of varints.
pub(super) fn put_packed(out: &mut Vec<u8>, field: u8, values: &[u64]) {
    put_message(out, field, |out| values.iter().for_each(|value| put_number(out, *value)));
}

/// A message within a message. Its length is known when it is written; one byte is kept for it, and
/// what is longer moves up.
#[inline]
pub(super) fn put_message(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag(field, BYTES));
    let at = out.len();
    out.push(0);
    write(out);
    let len = out.len() - at - 1;
    let more = varint_len(len as u64) - 1;
    if more > 0 {
        out.resize(out.len() + more, 0);
        out.copy_within(at + 1..at + 1 + len, at + 1 + more);
    }
    let mut left = len as u64;
    for byte in &mut out[at..at + more] {
        *byte = (left as u8) | 0x80;
        left >>= 7;
    }
    out[at + more] = left as u8;
}

/// An `AnyValue` as the field of a message.
#[inline]
pub(super) fn put_value(out: &mut Vec<u8>, field: u8, value: &Value<'_>) {
    put_message(out, field, |out| match value {
        Value::Text(text) => put_bytes(out, 1, text.as_bytes()),
        Value::Bool(yes) => put_varint(out, 2, u64::from(*yes)),
        Value::Int(number) => put_varint(out, 3, *number as u64),
        Value::Double(number) => put_double(out, 4, *number),
        Value::List(items) => {
            put_message(out, 5, |out| items.iter().for_each(|item| put_value(out, 1, item)));
        }
        Value::Pairs(pairs) => put_message(out, 6, |out| {
            pairs.iter().for_each(|(key, value)| put_attribute(out, 1, key, value));
        }),
        Value::Bytes(bytes) => put_bytes(out, 7, bytes),
    });
}

/// A `KeyValue` as the field of a message.
#[inline]
pub(super) fn put_attribute(out: &mut Vec<u8>, field: u8, key: &str, value: &Value<'_>) {
    put_message(out, field, |out| {
        put_bytes(out, 1, key.as_bytes());
        put_value(out, 2, value);
    });
}

#[inline]
pub(super) fn put_attributes(out: &mut Vec<u8>, field: u8, attributes: &impl Attributes) {
    attributes.each(&mut |key, value| put_attribute(out, field, key, &value));
}

/// A trace's id; none when it is 0.
pub(super) fn put_trace_id(out: &mut Vec<u8>, field: u8, id: u128) {
    if id != 0 {
        put_bytes(out, field, &id.to_be_bytes());
    }
}

/// A span's id; none when it is 0.
pub(super) fn put_span_id(out: &mut Vec<u8>, field: u8, id: u64) {
    if id != 0 {
        put_bytes(out, field, &id.to_be_bytes());
    }
}
