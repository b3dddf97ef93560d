//! Formats attribute values as text: for the Map variant, for log bodies, and for values nested
//! deeper than paths.

use millrace_wire::otlp::{AnyValue, KeyValue, Repeated};
use millrace_wire::protobuf::WireFault;

use crate::format::decimal;

/// The deepest nesting that is written; deeper values are written as `null`. The edge refuses such
/// requests at the same depth, so this only protects the stack against other writers to Kafka.
const MAX_DEPTH: u32 = millrace_wire::limits::NESTING_DEPTH;

/// Appends `value` as readers of a text column expect it: text unchanged, anything else as JSON.
pub(crate) fn append_plain(value: AnyValue<'_>, out: &mut Vec<u8>) -> Result<(), WireFault> {
    match value {
        AnyValue::Empty => Ok(()),
        AnyValue::String(text) => {
            out.extend_from_slice(text);
            Ok(())
        }
        AnyValue::Bytes(bytes) => {
            append_base64(bytes, out);
            Ok(())
        }
        AnyValue::Double(number) => {
            decimal::format_double(number, |text| out.extend_from_slice(text));
            Ok(())
        }
        AnyValue::Bool(_) | AnyValue::Int(_) | AnyValue::Array(_) | AnyValue::KeyValueList(_) => {
            append_json(value, out)
        }
    }
}

/// Appends `value` as compact JSON; members stay in the order sent, duplicates included. Numbers
/// that JSON lacks are text: `"NaN"`, `"+Inf"`, `"-Inf"`.
pub(crate) fn append_json(value: AnyValue<'_>, out: &mut Vec<u8>) -> Result<(), WireFault> {
    append_json_at(value, 0, out)
}

fn append_json_at(value: AnyValue<'_>, depth: u32, out: &mut Vec<u8>) -> Result<(), WireFault> {
    match value {
        AnyValue::Empty => out.extend_from_slice(b"null"),
        AnyValue::String(text) => append_quoted(text, out),
        AnyValue::Bool(true) => out.extend_from_slice(b"true"),
        AnyValue::Bool(false) => out.extend_from_slice(b"false"),
        AnyValue::Int(number) => {
            decimal::format_integer(number, |text| out.extend_from_slice(text));
        }
        AnyValue::Double(number) if number.is_finite() => {
            decimal::format_double(number, |text| out.extend_from_slice(text));
        }
        AnyValue::Double(number) => {
            out.push(b'"');
            decimal::format_double(number, |text| out.extend_from_slice(text));
            out.push(b'"');
        }
        AnyValue::Bytes(bytes) => {
            out.push(b'"');
            append_base64(bytes, out);
            out.push(b'"');
        }
        AnyValue::Array(_) | AnyValue::KeyValueList(_) if depth >= MAX_DEPTH => {
            out.extend_from_slice(b"null");
        }
        AnyValue::Array(array) => {
            out.push(b'[');
            append_separated(array.values(), out, |element, out| {
                append_json_at(AnyValue::parse(element)?, depth + 1, out)
            })?;
            out.push(b']');
        }
        AnyValue::KeyValueList(list) => {
            out.push(b'{');
            append_separated(list.values(), out, |member, out| {
                let KeyValue { key, value } = KeyValue::parse(member)?;
                append_quoted(key, out);
                out.push(b':');
                append_json_at(value, depth + 1, out)
            })?;
            out.push(b'}');
        }
    }
    Ok(())
}

fn append_separated<'a>(
    items: Repeated<'a>,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&'a [u8], &mut Vec<u8>) -> Result<(), WireFault>,
) -> Result<(), WireFault> {
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        each(item?, out)?;
    }
    Ok(())
}

/// Appends a JSON string. Bytes that aren't UTF-8 stay unchanged.
fn append_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                crate::format::hex::append_hex(&[byte], out);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Appends standard base64 with padding.
pub(crate) fn append_base64(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * position)) as usize & 63];
            out.push(if position > chunk.len() { b'=' } else { digit });
        }
    }
}

#[cfg(test)]
mod tests;
