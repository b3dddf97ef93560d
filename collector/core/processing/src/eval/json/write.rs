//! Writes values as text: scalars as they are, lists and maps as JSON.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::edit::encode::{Members, load_map, parse_any};
use crate::edit::memory::{Memory, Ref};
use crate::error::RuleFailure;
use crate::eval::converters::time::put_rfc3339;
use crate::program::text_fn::put_hex;
use crate::value::Value;

/// The deepest values that are written: far above what requests have.
const DEPTH: u32 = 64;

/// The Collector's two forms of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::eval) struct Style {
    /// Whether `<`, `>` and `&` are escaped.
    escapes_html: bool,
    /// Whether exponents are written without leading zeros.
    trims_exponents: bool,
    /// Whether `\b` and `\f` are written so.
    has_short_escapes: bool,
    /// Whether bytes are written as base64 also outside of JSON.
    is_base64: bool,
}

impl Style {
    /// The form of `String`, `Concat` and other functions.
    pub(in crate::eval) const FUNCTIONS: Self = Self {
        escapes_html: true,
        trims_exponents: false,
        has_short_escapes: false,
        is_base64: false,
    };
    /// The form of `body.string`.
    pub(in crate::eval) const ATTRIBUTES: Self = Self {
        escapes_html: false,
        trims_exponents: true,
        has_short_escapes: true,
        is_base64: true,
    };
}

/// Writes a value as text.
pub(in crate::eval) fn put_text(
    memory: &Memory<'_>,
    value: Value,
    style: Style,
    out: &mut Vec<u8>,
) -> Result<(), RuleFailure> {
    match value {
        Value::Str(text) => out.extend_from_slice(memory.get(text)),
        Value::Bytes(bytes) if style.is_base64 => {
            out.extend_from_slice(STANDARD.encode(memory.get(bytes)).as_bytes());
        }
        Value::Bytes(bytes) => put_hex(memory.get(bytes), out),
        Value::Double(number) if style.is_base64 && !number.is_finite() => {
            let name: &[u8] = match number {
                f64::INFINITY => b"Infinity",
                f64::NEG_INFINITY => b"-Infinity",
                _ => b"NaN",
            };
            out.extend_from_slice(name);
        }
        Value::Time(time) => {
            out.push(b'"');
            put_rfc3339(time, out);
            out.push(b'"');
        }
        Value::TraceId(id) => put_numbers(&id, out),
        Value::SpanId(id) => put_numbers(&id, out),
        Value::Duration(nanos) => put_json(memory, Value::Int(nanos), style, DEPTH, out)?,
        Value::Messages(_) => {
            return Err(RuleFailure::Type { expected: "string", found: value.type_name() });
        }
        other => put_json(memory, other, style, DEPTH, out)?,
    }
    Ok(())
}

/// Writes bytes as a list of numbers.
fn put_numbers(bytes: &[u8], out: &mut Vec<u8>) {
    let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
    out.extend_from_slice(format!("[{}]", numbers.join(",")).as_bytes());
}

fn put_json(
    memory: &Memory<'_>,
    value: Value,
    style: Style,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), RuleFailure> {
    if depth == 0 {
        return Err(RuleFailure::TooDeep);
    }
    if out.len() > memory.free_bytes() {
        return Err(RuleFailure::TooLong);
    }
    match value {
        Value::Bool(truth) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
        Value::Int(number) => drop(write!(out, "{number}")),
        Value::Double(number) => put_double(number, style, out)?,
        Value::Str(text) => put_string(memory.get(text), style, out),
        // As Go writes bytes that are nil.
        Value::Bytes(bytes) if bytes.is_empty() => out.extend_from_slice(b"null"),
        Value::Bytes(bytes) => {
            put_string(STANDARD.encode(memory.get(bytes)).as_bytes(), style, out);
        }
        Value::List(list) => {
            out.push(b'[');
            let mut members = Members::new(memory, list);
            let mut is_first = true;
            while let Some(any) = members.next_member()? {
                if !std::mem::take(&mut is_first) {
                    out.push(b',');
                }
                put_json(memory, parse_any(memory, any)?, style, depth - 1, out)?;
            }
            out.push(b']');
        }
        Value::Map(map) => put_object(memory, map, style, depth, out)?,
        _ => out.extend_from_slice(b"null"),
    }
    Ok(())
}

/// Writes a map with its keys in order.
fn put_object(
    memory: &Memory<'_>,
    map: Ref,
    style: Style,
    depth: u32,
    out: &mut Vec<u8>,
) -> Result<(), RuleFailure> {
    let mut slots = Vec::new();
    load_map(memory, map, &mut slots)?;
    slots.sort_by(|one, other| memory.get(one.key).cmp(memory.get(other.key)));
    out.push(b'{');
    let mut is_first = true;
    for (position, slot) in slots.iter().enumerate() {
        // Of several members with one key the last one counts.
        let next = slots.get(position + 1);
        if next.is_some_and(|next| memory.get(next.key) == memory.get(slot.key)) {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        put_string(memory.get(slot.key), style, out);
        out.push(b':');
        put_json(memory, parse_any(memory, slot.value)?, style, depth - 1, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// Writes a double with the least digits that distinguish it.
fn put_double(number: f64, style: Style, out: &mut Vec<u8>) -> Result<(), RuleFailure> {
    if !number.is_finite() {
        return Err(RuleFailure::Text("a finite number"));
    }
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        drop(write!(out, "{number}"));
        return Ok(());
    }
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = match exponent.strip_prefix('-') {
        Some(exponent) => ('-', exponent),
        None => ('+', exponent),
    };
    let zero = if exponent.len() == 1 && !style.trims_exponents { "0" } else { "" };
    drop(write!(out, "{digits}e{sign}{zero}{exponent}"));
    Ok(())
}

fn put_string(text: &[u8], style: Style, out: &mut Vec<u8>) {
    out.push(b'"');
    for (position, &byte) in text.iter().enumerate() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 if style.has_short_escapes => out.extend_from_slice(b"\\b"),
            0x0c if style.has_short_escapes => out.extend_from_slice(b"\\f"),
            0..0x20 => drop(write!(out, "\\u{byte:04x}")),
            b'<' | b'>' | b'&' if style.escapes_html => drop(write!(out, "\\u{byte:04x}")),
            // The separators of lines and paragraphs, U+2028 and U+2029.
            0xe2 if matches!(text[position..], [_, 0x80, 0xa8 | 0xa9, ..]) => {
                drop(write!(out, "\\u20{:02x}", text[position + 2] - 0x80));
            }
            0x80 | 0xa8 | 0xa9 if is_in_separator(text, position) => {}
            other => out.push(other),
        }
    }
    out.push(b'"');
}

fn is_in_separator(text: &[u8], position: usize) -> bool {
    let begins = |start: usize| matches!(text[start..], [0xe2, 0x80, 0xa8 | 0xa9, ..]);
    (position >= 1 && begins(position - 1)) || (position >= 2 && begins(position - 2))
}
