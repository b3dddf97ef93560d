//! Attribute values as text: for the Map variant, for log bodies, and for values nested deeper than
//! paths go.

use std::io::Write;

use millrace_wire::otlp::{AnyValue, KeyValue, Repeated};
use millrace_wire::protobuf::Fault;

/// Deepest nesting written out; what lies deeper is written as `null`. The edge refuses such
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
    // The same digits as the standard library's, found in a quarter of the time; layouts with an
    // exponent differ between the three, and are rare.
    let mut buffer = zmij::Buffer::new();
    let digits = buffer.format_finite(number);
    if digits.contains('e') {
        double_by_exponent(number, out);
    } else {
        out.extend_from_slice(digits.strip_suffix(".0").unwrap_or(digits).as_bytes());
    }
}

fn double_by_exponent(number: f64, out: &mut Vec<u8>) {
    let magnitude = number.abs();
    // Writing to a vector can't fail.
    if (1e-6..1e21).contains(&magnitude) {
        let _ = write!(out, "{number}");
        return;
    }
    // Rust leaves out the plus sign of the exponent.
    let start = out.len();
    let _ = write!(out, "{number:e}");
    if magnitude >= 1.0
        && let Some(e) = out[start..].iter().position(|&byte| byte == b'e')
    {
        out.insert(start + e + 1, b'+');
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any double reads back as it was; without an exponent it is as long as the standard
        /// library writes it (of two as short and as near, the two may choose differently).
        #[test]
        fn any_double_reads_back(bits in any::<u64>(), scale in 0_i32..40) {
            for number in [f64::from_bits(bits), (bits as f64 / 7.0) * 10_f64.powi(-scale)] {
                let mut out = Vec::new();
                double(number, &mut out);
                let text = String::from_utf8(out).unwrap();
                if number.is_finite() {
                    prop_assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
                    if !text.contains('e') {
                        prop_assert_eq!(text.len(), format!("{number}").len(), "{}", text);
                    }
                }
            }
        }
    }

    /// Doubles are written as Go's encoder writes them, which the Collector's exporter uses.
    #[test]
    fn doubles_are_short_and_take_exponents_like_gos() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (2.0, "2"),
            (1.5, "1.5"),
            (-0.1, "-0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (-1.25e300, "-1.25e+300"),
            (1e-6, "0.000001"),
            (1e-7, "1e-7"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            let mut out = Vec::new();
            double(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
    }

    /// The vectors of RFC 4648.
    #[test]
    fn base64_is_standard_with_padding() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            let mut out = Vec::new();
            base64(bytes.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        let mut out = Vec::new();
        base64(&[0xfb, 0xff], &mut out);
        assert_eq!(out, b"+/8=");
    }

    /// What JSON demands to be escaped is, and nothing else.
    #[test]
    fn json_strings_escape_what_they_must() {
        let mut out = Vec::new();
        quoted("a\"\\\n\u{1}<ü>".as_bytes(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), "\"a\\\"\\\\\\n\\u0001<ü>\"");
    }
}
