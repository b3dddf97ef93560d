//! Parses the format of Docker's json-file: an object per line, with the text as a JSON string.
//!
//! Docker splits lines at 16 KiB. Only the last part ends with a line feed.

use memchr::memchr2;

use crate::container::json_text::{RawString, append_unescaped, read_string, skip_space};
use crate::container::time;
use crate::container::{LinePart, OutputStream};
use crate::text::without_cr;

/// Parses a line. Text with escapes is unescaped into `scratch`. None if the line is no such
/// object.
pub(crate) fn parse_line<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<LinePart<'a>> {
    let mut rest = skip_space(line.strip_prefix(b"{")?);
    let (mut log, mut stream, mut time_unix_nano) = (None, None, None);
    loop {
        let (key, after) = read_string(rest)?;
        let value = skip_space(skip_space(after).strip_prefix(b":")?);
        rest = if value.first() == Some(&b'"') {
            let (found, after) = read_string(value)?;
            match key.text {
                b"log" => log = Some(found),
                b"stream" => stream = Some(OutputStream::from_name(found.text)?),
                b"time" => match time::parse_rfc3339(found.text)? {
                    (nanos, []) => time_unix_nano = Some(nanos),
                    _ => return None,
                },
                _ => {}
            }
            after
        } else {
            skip_value(value)?
        };
        match skip_space(rest) {
            [b',', after @ ..] => rest = skip_space(after),
            [b'}', after @ ..] if skip_space(after).is_empty() => break,
            _ => return None,
        }
    }
    let (text, is_last) = unescape_log(log?, scratch)?;
    Some(LinePart {
        stream: stream?,
        time_unix_nano: time_unix_nano?,
        text,
        is_last,
        is_cut: false,
    })
}

/// Returns the text of a line that was cut, without time and stream, which follow the text. None if
/// it isn't such a line.
pub(crate) fn parse_cut<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Option<LinePart<'a>> {
    let text = line.strip_prefix(b"{\"log\":\"")?;
    let text = match memchr2(b'"', b'\\', text) {
        None => text,
        Some(_) => {
            scratch.clear();
            append_unescaped(text, scratch);
            without_cr(scratch.strip_suffix(b"\n").unwrap_or(scratch))
        }
    };
    Some(LinePart {
        stream: OutputStream::Unknown,
        time_unix_nano: 0,
        text,
        is_last: true,
        is_cut: true,
    })
}

fn unescape_log<'a>(raw: RawString<'a>, scratch: &'a mut Vec<u8>) -> Option<(&'a [u8], bool)> {
    let text = match raw.first_escape {
        None => return Some((raw.text, false)),
        // In nearly all lines only the line's end is escaped.
        Some(at) if raw.text[at..] == *b"\\n" => return Some((&raw.text[..at], true)),
        Some(_) => {
            scratch.clear();
            if !append_unescaped(raw.text, scratch) {
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

/// Skips a value that isn't a string, and returns what follows.
fn skip_value(mut text: &[u8]) -> Option<&[u8]> {
    let mut depth = 0_usize;
    loop {
        match text.first()? {
            b'"' => {
                text = read_string(text)?.1;
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
