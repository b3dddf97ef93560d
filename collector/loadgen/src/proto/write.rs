//! Protobuf's encoding, appended to a buffer. Only fields up to number 15: their tags are one byte,
//! and OTLP's messages have no more.

use crate::content::{AttributeList, SentValue};

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const FIXED32: u8 = 5;

const fn field_tag(field: u8, wire: u8) -> u8 {
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
    out.push(field_tag(field, VARINT));
    put_number(out, value);
}

/// Appends a `sint32` in zigzag encoding.
pub(super) fn put_signed(out: &mut Vec<u8>, field: u8, value: i32) {
    put_varint(out, field, u64::from(((value << 1) ^ (value >> 31)) as u32));
}

#[inline]
pub(super) fn put_bytes(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field_tag(field, BYTES));
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a text, unless it is empty, as in proto3.
#[inline]
pub(super) fn put_text(out: &mut Vec<u8>, field: u8, text: &str) {
    if !text.is_empty() {
        put_bytes(out, field, text.as_bytes());
    }
}

#[inline]
pub(super) fn put_fixed64(out: &mut Vec<u8>, field: u8, value: u64) {
    out.push(field_tag(field, FIXED64));
    out.extend_from_slice(&value.to_le_bytes());
}

pub(super) fn put_double(out: &mut Vec<u8>, field: u8, value: f64) {
    put_fixed64(out, field, value.to_bits());
}

pub(super) fn put_fixed32(out: &mut Vec<u8>, field: u8, value: u32) {
    out.push(field_tag(field, FIXED32));
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a packed field of eight-byte numbers.
pub(super) fn put_packed64(out: &mut Vec<u8>, field: u8, values: impl IntoIterator<Item = u64>) {
    put_message(out, field, |out| {
        values.into_iter().for_each(|value| out.extend_from_slice(&value.to_le_bytes()));
    });
}

/// Appends a packed field of varints.
pub(super) fn put_packed(out: &mut Vec<u8>, field: u8, values: &[u64]) {
    put_message(out, field, |out| values.iter().for_each(|value| put_number(out, *value)));
}

/// Appends a nested message. Its length is known after it is written; one byte is reserved for it,
/// and a longer one moves the message up.
#[inline]
pub(super) fn put_message(out: &mut Vec<u8>, field: u8, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(field_tag(field, BYTES));
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

/// Appends an `AnyValue` as the field of a message.
#[inline]
pub(super) fn put_value(out: &mut Vec<u8>, field: u8, value: &SentValue<'_>) {
    put_message(out, field, |out| match value {
        SentValue::Text(text) => put_bytes(out, 1, text.as_bytes()),
        SentValue::Bool(yes) => put_varint(out, 2, u64::from(*yes)),
        SentValue::Int(number) => put_varint(out, 3, *number as u64),
        SentValue::Double(number) => put_double(out, 4, *number),
        SentValue::List(items) => {
            put_message(out, 5, |out| items.iter().for_each(|item| put_value(out, 1, item)));
        }
        SentValue::Pairs(pairs) => put_message(out, 6, |out| {
            pairs.iter().for_each(|(key, value)| put_attribute(out, 1, key, value));
        }),
        SentValue::Bytes(bytes) => put_bytes(out, 7, bytes),
    });
}

/// Appends a `KeyValue` as the field of a message.
#[inline]
pub(super) fn put_attribute(out: &mut Vec<u8>, field: u8, key: &str, value: &SentValue<'_>) {
    put_message(out, field, |out| {
        put_bytes(out, 1, key.as_bytes());
        put_value(out, 2, value);
    });
}

#[inline]
pub(super) fn put_attributes(out: &mut Vec<u8>, field: u8, attributes: &impl AttributeList) {
    attributes.for_each(&mut |key, value| put_attribute(out, field, key, &value));
}

/// Appends a trace's id, unless it is 0.
pub(super) fn put_trace_id(out: &mut Vec<u8>, field: u8, id: u128) {
    if id != 0 {
        put_bytes(out, field, &id.to_be_bytes());
    }
}

/// Appends a span's id, unless it is 0.
pub(super) fn put_span_id(out: &mut Vec<u8>, field: u8, id: u64) {
    if id != 0 {
        put_bytes(out, field, &id.to_be_bytes());
    }
}
