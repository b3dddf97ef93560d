//! Attribute values as text: for the Map variant, for log bodies, and for values nested deeper than
//! paths go.

use millrace_wire::otlp::{AnyValue, KeyValue, Repeated};
use millrace_wire::protobuf::Fault;

/// Deepest nesting written out; what is deeper is written as `null`. The edge refuses such
/// requests at the same depth, so this only guards the stack against what others wrote to Kafka.
const MAX_DEPTH: u32 = millrace_wire::limits::NESTING_DEPTH;

/// Appends `value` as a reader expects it in a text column: text as it is, anything else as in
/// JSON.
pub(crate) fn plain(value: AnyValue<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    match value {
        AnyValue::Empty => Ok(()),
        AnyValue::String(text) => {
            out.extend_from_slice(text);
            Ok(())
        }
        AnyValue::Bytes(bytes) => {
            base64(bytes, out);
            Ok(())
        }
        AnyValue::Double(number) => {
            double(number, out);
            Ok(())
        }
        AnyValue::Bool(_) | AnyValue::Int(_) | AnyValue::Array(_) | AnyValue::KeyValueList(_) => {
            json(value, out)
        }
    }
}

/// Appends `value` as compact JSON; members stay in the order they were sent, repeated ones
/// included. Numbers that JSON doesn't have are text: `"NaN"`, `"+Inf"`, `"-Inf"`.
pub(crate) fn json(value: AnyValue<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    json_at(value, 0, out)
}

fn json_at(value: AnyValue<'_>, depth: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
    match value {
        AnyValue::Empty => out.extend_from_slice(b"null"),
        AnyValue::String(text) => quoted(text, out),
        AnyValue::Bool(true) => out.extend_from_slice(b"true"),
        AnyValue::Bool(false) => out.extend_from_slice(b"false"),
        AnyValue::Int(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        AnyValue::Double(number) if number.is_finite() => double(number, out),
        AnyValue::Double(number) => {
            out.push(b'"');
            double(number, out);
            out.push(b'"');
        }
        AnyValue::Bytes(bytes) => {
            out.push(b'"');
            base64(bytes, out);
            out.push(b'"');
        }
        AnyValue::Array(_) | AnyValue::KeyValueList(_) if depth >= MAX_DEPTH => {
            out.extend_from_slice(b"null");
        }
        AnyValue::Array(array) => {
            out.push(b'[');
            separated(array.values(), out, |element, out| {
                json_at(AnyValue::parse(element)?, depth + 1, out)
            })?;
            out.push(b']');
        }
        AnyValue::KeyValueList(list) => {
            out.push(b'{');
            separated(list.values(), out, |member, out| {
                let KeyValue { key, value } = KeyValue::parse(member)?;
                quoted(key, out);
                out.push(b':');
                json_at(value, depth + 1, out)
            })?;
            out.push(b'}');
        }
    }
    Ok(())
}

fn separated<'a>(
    items: Repeated<'a>,
    out: &mut Vec<u8>,
    mut each: impl FnMut(&'a [u8], &mut Vec<u8>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        each(item?, out)?;
    }
    Ok(())
}

/// Appends a JSON string. Bytes that aren't UTF-8 are kept as they are.
fn quoted(text: &[u8], out: &mut Vec<u8>) {
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
                crate::hex::append(&[byte], out);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Appends a double in its shortest form that reads back the same, with an exponent below 1e-6 and
/// from 1e21 on, as JavaScript and Go's JSON write it.
fn double(number: f64, out: &mut Vec<u8>) {
    if !number.is_finite() {
        let name: &[u8] = if number.is_nan() {
            b"NaN"
        } else if number > 0.0 {
            b"+Inf"
        } else {
            b"-Inf"
        };
        out.extend_from_slice(name);
        return;
    }
    // As short as the standard library's and as near, found in a quarter of the time. Of two that
    // are equally near this takes the even one, like Go and JavaScript.
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(number);
    match text.split_once('e') {
        None => out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes()),
        Some((mantissa, exponent)) => double_by_exponent(mantissa, exponent, out),
    }
}

/// Lays out `mantissa * 10^exponent`: as a plain number from 1e-6 on and below 1e21. Rare.
fn double_by_exponent(mantissa: &str, exponent: &str, out: &mut Vec<u8>) {
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let power: i32 = exponent.parse().unwrap_or(0);
    out.extend_from_slice(sign.as_bytes());
    match power {
        // Below zero, down to 1e-6: zeros before the digits.
        -6..0 => {
            out.extend_from_slice(b"0.");
            out.extend((power + 1..0).map(|_| b'0'));
            out.extend(digits);
        }
        // Whole numbers (17 digits at most, and 1e16 at least): zeros after the digits.
        0..=20 => {
            let start = out.len();
            out.extend(digits);
            out.resize(start + power as usize + 1, b'0');
        }
        _ => {
            out.extend_from_slice(mantissa.as_bytes());
            out.push(b'e');
            if power > 0 && !exponent.starts_with('+') {
                out.push(b'+');
            }
            out.extend_from_slice(exponent.as_bytes());
        }
    }
}

/// Appends standard base64 with padding.
pub(crate) fn base64(bytes: &[u8], out: &mut Vec<u8>) {
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
#[path = "../tests/unit/text.rs"]
mod tests;
