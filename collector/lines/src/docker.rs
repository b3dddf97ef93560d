//! The format of Docker's json-file: an object per line, with the text as a JSON string.
//!
//! Docker splits long lines at 16 KiB; the parts but the last have no line feed at their end.

use memchr::memchr2;

use crate::container::{Part, Stream};
use crate::text::{REPLACEMENT, without_cr};
use crate::time;

/// A JSON string as it stands, without its quotes.
#[derive(Clone, Copy, Default)]
struct Raw<'a> {
    text: &'a [u8],
    first_escape: Option<usize>,
}

/// Reads a line. Text with escapes is unescaped into `scratch`. None if it isn't such an object.
pub(crate) fn parse<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<Part<'a>> {
    let mut rest = space(line.strip_prefix(b"{")?);
    let (mut log, mut stream, mut time_unix_nano) = (None, None, None);
    loop {
        let (key, after) = string(rest)?;
        let value = space(space(after).strip_prefix(b":")?);
        rest = if value.first() == Some(&b'"') {
            let (found, after) = string(value)?;
            match key.text {
                b"log" => log = Some(found),
                b"stream" => stream = Some(Stream::named(found.text)?),
                b"time" => match time::parse(found.text)? {
                    (nanos, []) => time_unix_nano = Some(nanos),
                    _ => return None,
                },
                _ => {}
            }
            after
        } else {
            skip(value)?
        };
        match space(rest) {
            [b',', after @ ..] => rest = space(after),
            [b'}', after @ ..] if space(after).is_empty() => break,
            _ => return None,
        }
    }
    let (text, is_last) = unescaped(log?, scratch)?;
    Some(Part { stream: stream?, time_unix_nano: time_unix_nano?, text, is_last, is_cut: false })
}

/// The text of a line that was cut: as far as it goes, without time and stream, which are behind
/// it. None if it isn't such a line.
pub(crate) fn parse_cut<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<Part<'a>> {
    let text = line.strip_prefix(b"{\"log\":\"")?;
    let text = match memchr2(b'"', b'\\', text) {
        None => text,
        Some(_) => {
            unescape(text, scratch);
            without_cr(scratch.strip_suffix(b"\n").unwrap_or(scratch))
        }
    };
    Some(Part { stream: Stream::Unknown, time_unix_nano: 0, text, is_last: true, is_cut: true })
}

fn unescaped<'a>(raw: Raw<'a>, scratch: &'a mut Vec<u8>) -> Option<(&'a [u8], bool)> {
    let text = match raw.first_escape {
        None => return Some((raw.text, false)),
        // Nearly all: nothing but the line's end is escaped.
        Some(at) if raw.text[at..] == *b"\\n" => return Some((&raw.text[..at], true)),
        Some(_) => {
            if !unescape(raw.text, scratch) {
                return None;
            }
            &scratch[..]
        }
    };
    Some(match text.strip_suffix(b"\n") {
        Some(text) => (without_cr(text), true),
        None => (text, false),
    })
}

/// Replaces `scratch` by the text that is meant. False at an escape that JSON doesn't know or that
/// is cut off, or at the string's end; what is before it is in `scratch` then.
fn unescape(text: &[u8], scratch: &mut Vec<u8>) -> bool {
    scratch.clear();
    let mut rest = text;
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        scratch.extend_from_slice(&rest[..at]);
        let [b'\\', escape, after @ ..] = &rest[at..] else { return false };
        rest = after;
        let byte = match escape {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            b'"' | b'\\' | b'/' => *escape,
            b'u' => match code(after) {
                Some((character, after)) => {
                    rest = after;
                    put(scratch, character);
                    continue;
                }
                None => return false,
            },
            _ => return false,
        };
        scratch.push(byte);
    }
    scratch.extend_from_slice(rest);
    true
}

fn put(out: &mut Vec<u8>, character: Option<char>) {
    match character {
        Some(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend_from_slice(REPLACEMENT),
    }
}

/// The character behind `\u`, with a second `\u` if it takes two; None in it for half a character.
fn code(text: &[u8]) -> Option<(Option<char>, &[u8])> {
    let (first, rest) = four_digits(text)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some((char::from_u32(first), rest));
    }
    let second = rest.strip_prefix(b"\\u").and_then(four_digits);
    Some(match second {
        Some((second @ 0xdc00..0xe000, rest)) => {
            (char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)), rest)
        }
        _ => (None, rest),
    })
}

fn four_digits(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_first_chunk::<4>()?;
    let mut value = 0;
    for digit in digits {
        value = value << 4 | char::from(*digit).to_digit(16)?;
    }
    Some((value, rest))
}

/// A string and what is behind it.
fn string(text: &[u8]) -> Option<(Raw<'_>, &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut at = 0;
    let mut first_escape = None;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some((Raw { text: &text[..at], first_escape }, &text[at + 1..]));
        }
        first_escape = first_escape.or(Some(at));
        at += 2;
    }
}

/// What is behind a value that isn't a string.
fn skip(mut text: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    loop {
        match text.first()? {
            b'"' => {
                text = string(text)?.1;
                continue;
            }
            b',' | b'}' if depth == 0 => return Some(text),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            _ => {}
        }
        text = &text[1..];
    }
}

fn space(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}
