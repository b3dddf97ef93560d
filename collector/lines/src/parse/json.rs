//! A JSON object: its members are fields; objects and arrays in them are lists and arrays.
//!
//! Each byte is read once. Recursion ends at [`DEPTH_MAX`].

use super::sink::{Level, Sink, Value};
use super::{DEPTH_MAX, ParseFault};
use crate::json_text::{Raw, space, string};

/// Gives the object's members to `sink`.
pub(super) fn parse<'a>(text: &'a [u8], sink: &mut Sink<'_, 'a>) -> Result<(), ParseFault> {
    let members = space(text).strip_prefix(b"{").ok_or(ParseFault::Malformed)?;
    let rest = object(members, &Level::TOP, sink)?;
    if space(rest).is_empty() { Ok(()) } else { Err(ParseFault::Malformed) }
}

/// The members up to `}`. Returns what follows.
fn object<'a>(
    text: &'a [u8],
    level: &Level,
    sink: &mut Sink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    let mut rest = space(text);
    if let [b'}', after @ ..] = rest {
        return Ok(after);
    }
    let names = sink.enter();
    loop {
        let (key, after) = string(rest).ok_or(ParseFault::Malformed)?;
        let value = space(after).strip_prefix(b":").ok_or(ParseFault::Malformed)?;
        rest = if key.first_escape.is_none() {
            member(key.text, space(value), level, sink)?
        } else {
            escaped_member(key, space(value), level, sink)?
        };
        match space(rest) {
            [b',', after @ ..] => rest = space(after),
            [b'}', after @ ..] => {
                sink.leave(names);
                return Ok(after);
            }
            _ => return Err(ParseFault::Malformed),
        }
    }
}

#[cold]
fn escaped_member<'a>(
    key: Raw<'_>,
    value: &'a [u8],
    level: &Level,
    sink: &mut Sink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    let mut name = Vec::new();
    if !crate::json_text::unescape(key.text, &mut name) {
        return Err(ParseFault::Malformed);
    }
    member(&name, value, level, sink)
}

#[inline]
fn member<'a>(
    name: &[u8],
    text: &'a [u8],
    level: &Level,
    sink: &mut Sink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    if let Some((b'{' | b'[', inner)) = text.split_first() {
        let is_object = text[0] == b'{';
        let opened = sink.open_member(name, level, is_object)?;
        let below = level.below(name);
        let rest = container(inner, is_object, &below, sink)?;
        sink.close_member(opened, level)?;
        return Ok(rest);
    }
    let (value, rest) = scalar(text).ok_or(ParseFault::Malformed)?;
    let raw = match value {
        Value::Text(text) | Value::Escaped(text) => text,
        _ => &text[..text.len() - rest.len()],
    };
    if level.is_top() {
        sink.field(name, raw, value)?;
    } else {
        sink.member(name, value, level)?;
    }
    Ok(rest)
}

fn container<'a>(
    text: &'a [u8],
    is_object: bool,
    level: &Level,
    sink: &mut Sink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    if level.depth() > DEPTH_MAX {
        return Err(ParseFault::TooDeep);
    }
    if is_object { object(text, level, sink) } else { array(text, level, sink) }
}

/// The elements up to `]`. Returns what follows.
fn array<'a>(
    text: &'a [u8],
    level: &Level,
    sink: &mut Sink<'_, 'a>,
) -> Result<&'a [u8], ParseFault> {
    let mut rest = space(text);
    if let [b']', after @ ..] = rest {
        return Ok(after);
    }
    loop {
        rest = match rest.split_first() {
            Some((first @ (b'{' | b'['), inner)) => {
                let is_object = *first == b'{';
                let opened = sink.open_element(is_object)?;
                let rest = container(inner, is_object, &level.below(&[]), sink)?;
                sink.close_element(opened);
                rest
            }
            _ => {
                let (value, rest) = scalar(rest).ok_or(ParseFault::Malformed)?;
                sink.element(value)?;
                rest
            }
        };
        match space(rest) {
            [b',', after @ ..] => rest = space(after),
            [b']', after @ ..] => return Ok(after),
            _ => return Err(ParseFault::Malformed),
        }
    }
}

/// A scalar, and what follows.
#[inline]
fn scalar(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    match text {
        [b'"', ..] => {
            let (Raw { text, first_escape }, rest) = string(text)?;
            let is_plain = first_escape.is_none();
            Some((if is_plain { Value::Text(text) } else { Value::Escaped(text) }, rest))
        }
        [b't', b'r', b'u', b'e', rest @ ..] => Some((Value::Bool(true), rest)),
        [b'f', b'a', b'l', b's', b'e', rest @ ..] => Some((Value::Bool(false), rest)),
        [b'n', b'u', b'l', b'l', rest @ ..] => Some((Value::Null, rest)),
        _ => number(text),
    }
}

/// A number, and what follows. Integers beyond 64 bits and numbers beyond doubles are text: no
/// digit is lost.
fn number(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let is_negative = text.first() == Some(&b'-');
    let start = usize::from(is_negative);
    let whole_end = digits_end(text, start);
    // One digit at least; no zero before others.
    if whole_end == start || text[start] == b'0' && whole_end > start + 1 {
        return None;
    }
    let mut end = whole_end;
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
    let value = if end == whole_end && number != b"-0" { integer(number) } else { double(number) };
    Some((value.unwrap_or(Value::Text(number)), rest))
}

fn digits_end(text: &[u8], from: usize) -> usize {
    let digits = text.get(from..).unwrap_or_default();
    from + digits.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Digits, with a sign or none.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<Value<'static>> {
    let (is_negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut value = 0_i64;
    for digit in digits {
        let digit = i64::from(digit.wrapping_sub(b'0'));
        value = value.checked_mul(10)?;
        // Below zero from the first digit on: the least has no positive counterpart.
        value = if is_negative { value.checked_sub(digit)? } else { value.checked_add(digit)? };
    }
    Some(Value::Int(value))
}

pub(super) fn double(text: &[u8]) -> Option<Value<'static>> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(Value::Double(value))
}
