//! Parses logfmt: `name=value` pairs between white space. Quoted values have JSON's escapes.
//!
//! A line with a word without `=` isn't logfmt: otherwise each word of prose would be a field.

use super::ParseFault;
use super::json::{parse_double, parse_integer};
use super::sink::{FieldSink, FieldValue};
use crate::container::json_text::{read_string, skip_space};

/// The digits that a double always preserves.
const DOUBLE_DIGITS_MAX: usize = 15;

/// Passes the pairs to `sink`.
pub(super) fn parse_logfmt<'a>(
    text: &'a [u8],
    sink: &mut FieldSink<'_, 'a>,
) -> Result<(), ParseFault> {
    let mut rest = skip_space(text);
    if rest.is_empty() {
        return Err(ParseFault::Malformed);
    }
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b'=' | b'"' | 0..=b' '));
        let (name, after) = rest.split_at(end.unwrap_or(0));
        let after = after.strip_prefix(b"=").ok_or(ParseFault::Malformed)?;
        if name.is_empty() {
            return Err(ParseFault::Malformed);
        }
        rest = if after.first() == Some(&b'"') {
            let (value, after) = read_string(after).ok_or(ParseFault::Malformed)?;
            let is_plain = value.first_escape.is_none();
            let text = value.text;
            let value = if is_plain { FieldValue::Text(text) } else { FieldValue::Escaped(text) };
            sink.write_field(name, text, value)?;
            after
        } else {
            let end = after.iter().position(|byte| is_space(*byte)).unwrap_or(after.len());
            let (text, after) = after.split_at(end);
            sink.write_field(name, text, parse_value(text))?;
            after
        };
        let trimmed = skip_space(rest);
        if trimmed.len() == rest.len() && !rest.is_empty() {
            return Err(ParseFault::Malformed);
        }
        rest = trimmed;
    }
    Ok(())
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Numbers and booleans only if writing them yields the same text: `007`, `1.10` and `1e5` may be
/// no numbers.
fn parse_value(text: &[u8]) -> FieldValue<'_> {
    match text {
        b"true" => return FieldValue::Bool(true),
        b"false" => return FieldValue::Bool(false),
        _ => {}
    }
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.first().is_some_and(u8::is_ascii_digit) {
        return FieldValue::Text(text);
    }
    let is_number = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let has_zeros_before = |integer: &[u8]| integer.len() > 1 && integer[0] == b'0';
    let number = match digits.iter().position(|byte| *byte == b'.') {
        None if is_number(digits) && !has_zeros_before(digits) && text != b"-0" => {
            parse_integer(text)
        }
        Some(point) => {
            let (integer, fraction) = (&digits[..point], &digits[point + 1..]);
            let is_double = is_number(integer)
                && is_number(fraction)
                && !has_zeros_before(integer)
                && !fraction.ends_with(b"0")
                && digits.len() <= DOUBLE_DIGITS_MAX + 1;
            if is_double { parse_double(text) } else { None }
        }
        None => None,
    };
    number.unwrap_or(FieldValue::Text(text))
}
