//! The format of Docker's json-file: an object per line, with the text as a JSON string.
//!
//! Docker splits lines at 16 KiB. Only the last part ends with a line feed.

use memchr::memchr2;

use crate::container::{Part, Stream};
use crate::json_text::{Raw, space, string, unescape};
use crate::text::without_cr;
use crate::time;

/// Reads a line. Text with escapes goes unescaped to `scratch`. None if the line is no such object.
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

/// The text of a line that was cut. Time and stream stood behind it. None if it isn't such a line.
pub(crate) fn parse_cut<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<Part<'a>> {
    let text = line.strip_prefix(b"{\"log\":\"")?;
    let text = match memchr2(b'"', b'\\', text) {
        None => text,
        Some(_) => {
            scratch.clear();
            unescape(text, scratch);
            without_cr(scratch.strip_suffix(b"\n").unwrap_or(scratch))
        }
    };
    Some(Part { stream: Stream::Unknown, time_unix_nano: 0, text, is_last: true, is_cut: true })
}

fn unescaped<'a>(raw: Raw<'a>, scratch: &'a mut Vec<u8>) -> Option<(&'a [u8], bool)> {
    let text = match raw.first_escape {
        None => return Some((raw.text, false)),
        // Nearly all: only the line's end is escaped.
        Some(at) if raw.text[at..] == *b"\\n" => return Some((&raw.text[..at], true)),
        Some(_) => {
            scratch.clear();
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

/// What follows a value that isn't a string.
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
