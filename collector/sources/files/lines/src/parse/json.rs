//! Parses a JSON object: its members are fields; objects and arrays in them are lists and arrays.
//!
//! Each byte is read once. Recursion ends at [`DEPTH_MAX`].

use super::sink::{FieldSink, FieldValue, NestingLevel};
use super::{DEPTH_MAX, ParseFault};
use crate::container::json_text::{RawString, read_string, skip_space};

/// Passes the object's members to `sink`.
pub(super) fn parse_json<'a>(
    text: &'a [u8],
    sink: &mut FieldSink<'_, 'a>,
) -> Result<(), ParseFault> {
    let members = skip_space(text).strip_prefix(b"{").ok_or(ParseFault::Malformed)?;
    let rest = parse_object(members, &NestingLevel::TOP, sink)?;
    if skip_space(rest).is_empty() { Ok(()) } else { Err(ParseFault::Malformed) }
}

/// Parses the members up to `}`. Returns what follows.
fn parse_object<'a>(
    text: &'a [u8],
    level: &NestingLevel,
    sink: &mut FieldSink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    let mut rest = skip_space(text);
    if let [b'}', after @ ..] = rest {
        return Ok(after);
    }
    let names = sink.enter_object();
    loop {
        let (key, after) = read_string(rest).ok_or(ParseFault::Malformed)?;
        let value = skip_space(after).strip_prefix(b":").ok_or(ParseFault::Malformed)?;
        rest = if key.first_escape.is_none() {
            parse_member(key.text, skip_space(value), level, sink)?
        } else {
            parse_escaped_member(key, skip_space(value), level, sink)?
        };
        match skip_space(rest) {
            [b',', after @ ..] => rest = skip_space(after),
            [b'}', after @ ..] => {
                sink.leave_object(names);
                return Ok(after);
            }
            _ => return Err(ParseFault::Malformed),
        }
    }
}

#[cold]
fn parse_escaped_member<'a>(
    key: RawString<'_>,
    value: &'a [u8],
    level: &NestingLevel,
    sink: &mut FieldSink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    let mut name = Vec::new();
    if !crate::container::json_text::append_unescaped(key.text, &mut name) {
        return Err(ParseFault::Malformed);
    }
    parse_member(&name, value, level, sink)
}

#[inline]
fn parse_member<'a>(
    name: &[u8],
    text: &'a [u8],
    level: &NestingLevel,
    sink: &mut FieldSink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    if let Some((b'{' | b'[', inner)) = text.split_first() {
        let is_object = text[0] == b'{';
        let opened = sink.open_member(name, level, is_object)?;
        let below = level.child_level(name);
        let rest = parse_container(inner, is_object, &below, sink)?;
        sink.close_member(opened, level)?;
        return Ok(rest);
    }
    let (value, rest) = parse_scalar(text).ok_or(ParseFault::Malformed)?;
    let raw = match value {
        FieldValue::Text(text) | FieldValue::Escaped(text) => text,
        _ => &text[..text.len() - rest.len()],
    };
    if level.is_top() {
        sink.write_field(name, raw, value)?;
    } else {
        sink.write_member(name, value, level)?;
    }
    Ok(rest)
}

fn parse_container<'a>(
    text: &'a [u8],
    is_object: bool,
    level: &NestingLevel,
    sink: &mut FieldSink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    if level.depth() > DEPTH_MAX {
        return Err(ParseFault::TooDeep);
    }
    if is_object { parse_object(text, level, sink) } else { parse_array(text, level, sink) }
}

/// Parses the elements up to `]`. Returns what follows.
fn parse_array<'a>(
    text: &'a [u8],
    level: &NestingLevel,
    sink: &mut FieldSink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    let mut rest = skip_space(text);
    if let [b']', after @ ..] = rest {
        return Ok(after);
    }
    loop {
        rest = match rest.split_first() {
            Some((first @ (b'{' | b'['), inner)) => {
                let is_object = *first == b'{';
                let opened = sink.open_element(is_object)?;
                let rest = parse_container(inner, is_object, &level.child_level(&[]), sink)?;
                sink.close_element(opened);
                rest
            }
            _ => {
                let (value, rest) = parse_scalar(rest).ok_or(ParseFault::Malformed)?;
                sink.write_element(value)?;
                rest
            }
        };
        match skip_space(rest) {
            [b',', after @ ..] => rest = skip_space(after),
            [b']', after @ ..] => return Ok(after),
            _ => return Err(ParseFault::Malformed),
        }
    }
}

/// Parses a scalar, and returns what follows.
#[inline]
fn parse_scalar(text: &[u8]) -> Option<(FieldValue<'_>, &[u8])> {
    match text {
        [b'"', ..] => {
            let (RawString { text, first_escape }, rest) = read_string(text)?;
            let is_plain = first_escape.is_none();
            Some((if is_plain { FieldValue::Text(text) } else { FieldValue::Escaped(text) }, rest))
        }
        [b't', b'r', b'u', b'e', rest @ ..] => Some((FieldValue::Bool(true), rest)),
        [b'f', b'a', b'l', b's', b'e', rest @ ..] => Some((FieldValue::Bool(false), rest)),
        [b'n', b'u', b'l', b'l', rest @ ..] => Some((FieldValue::Null, rest)),
        _ => parse_number(text),
    }
}

/// Parses a number, and returns what follows. Integers beyond 64 bits and numbers beyond doubles
/// are text: no digit is lost.
fn parse_number(text: &[u8]) -> Option<(FieldValue<'_>, &[u8])> {
    let is_negative = text.first() == Some(&b'-');
    let start = usize::from(is_negative);
    let integer_end = digits_end(text, start);
    // JSON requires at least one digit, and no leading zero.
    if integer_end == start || text[start] == b'0' && integer_end > start + 1 {
        return None;
    }
    let mut end = integer_end;
    if text.get(end) == Some(&b'.') {
        let fraction_end = digits_end(text, end + 1);
        if fraction_end == end + 1 {
            return None;
        }
        end = fraction_end;
    }
    if let Some(b'e' | b'E') = text.get(end) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let exponent_end = digits_end(text, end + 1 + sign);
        if exponent_end == end + 1 + sign {
            return None;
        }
        end = exponent_end;
    }
    let (number, rest) = text.split_at(end);
    let value = if end == integer_end && number != b"-0" {
        parse_integer(number)
    } else {
        parse_double(number)
    };
    Some((value.unwrap_or(FieldValue::Text(number)), rest))
}

fn digits_end(text: &[u8], from: usize) -> usize {
    let digits = text.get(from..).unwrap_or_default();
    from + digits.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Parses digits with an optional sign.
#[inline]
pub(super) fn parse_integer(text: &[u8]) -> Option<FieldValue<'static>> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut value = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        value = value.checked_mul(10)?;
        // Negative values are subtracted from the first digit on: the minimum has no positive
        // counterpart.
        value = if is_negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(FieldValue::Int(value))
}

pub(super) fn parse_double(text: &[u8]) -> Option<FieldValue<'static>> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(FieldValue::Double(value))
}
