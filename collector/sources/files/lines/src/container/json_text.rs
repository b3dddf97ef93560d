//! Reads JSON strings: finds their end, and unescapes them.
//!
//! Unescaped control characters are accepted, although JSON forbids them: refusing them helps no
//! user. U+FFFD replaces half of a surrogate pair.

use memchr::memchr2;

use crate::text::REPLACEMENT;

/// A string's content between its quotes, not unescaped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawString<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) first_escape: Option<usize>,
}

/// Appends the unescaped text. Returns false at an unknown or incomplete escape, or a quote, after
/// appending the text before it.
pub(crate) fn append_unescaped(text: &[u8], out: &mut Vec<u8>) -> bool {
    let mut rest = text;
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        out.extend_from_slice(&rest[..at]);
        let [b'\\', escape, after @ ..] = &rest[at..] else { return false };
        rest = after;
        let byte = match escape {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'b' => 8,
            b'f' => 12,
            b'"' | b'\\' | b'/' => *escape,
            b'u' => match read_unicode_escape(after) {
                Some((character, after)) => {
                    rest = after;
                    push_char(out, character);
                    continue;
                }
                None => return false,
            },
            _ => return false,
        };
        out.push(byte);
    }
    out.extend_from_slice(rest);
    true
}

fn push_char(out: &mut Vec<u8>, character: Option<char>) {
    match character {
        Some(character) => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        None => out.extend_from_slice(REPLACEMENT),
    }
}

/// Reads the escape after `\u`, or a pair of escapes. The character is None for half of a surrogate
/// pair.
fn read_unicode_escape(text: &[u8]) -> Option<(Option<char>, &[u8])> {
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

/// Reads a string, and returns what follows.
#[inline]
pub(crate) fn read_string(text: &[u8]) -> Option<(RawString<'_>, &[u8])> {
    let text = text.strip_prefix(b"\"")?;
    let mut at = 0;
    let mut first_escape = None;
    loop {
        at = find_special(text, at)?;
        if text[at] == b'"' {
            return Some((RawString { text: &text[..at], first_escape }, &text[at + 1..]));
        }
        first_escape = first_escape.or(Some(at));
        at += 2;
    }
}

/// Finds the next quote or backslash. Most strings are short, and `memchr` is slow to begin, so the
/// first bytes are scanned eight at a time.
#[inline]
fn find_special(text: &[u8], from: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    const QUOTES: u64 = ONES * b'"' as u64;
    const BACKSLASHES: u64 = ONES * b'\\' as u64;
    const SHORT_BYTES: usize = 32;
    let mut at = from;
    while at < from + SHORT_BYTES {
        let Some(chunk) = text.get(at..).and_then(<[u8]>::first_chunk::<8>) else { break };
        let word = u64::from_le_bytes(*chunk);
        let (quote, backslash) = (word ^ QUOTES, word ^ BACKSLASHES);
        // The lowest mark is at the first zero byte.
        let zeros = quote.wrapping_sub(ONES) & !quote | backslash.wrapping_sub(ONES) & !backslash;
        let marks = zeros & HIGHS;
        if marks != 0 {
            return Some(at + marks.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    Some(at + memchr2(b'"', b'\\', text.get(at..)?)?)
}

/// Skips leading white space.
#[inline]
pub(crate) fn skip_space(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = text {
        text = rest;
    }
    text
}
