//! The credentials of HTTP: `Bearer`, `Basic`, and JSON web tokens.

use std::ops::Range;

use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use base64::{Engine, alphabet};

/// Decodes base64 that was cut anywhere.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, NO_PAD.with_decode_allow_trailing_bits(true));

/// The longest gap between a scheme's name and its credentials: `\": \"` has 6 characters.
const GAP_BYTES_MAX: usize = 6;

/// The shortest bearer token.
const BEARER_BYTES_MIN: usize = 8;

/// A token without a digit is a word unless it is this long and is in mixed case.
const WORD_BYTES_MAX: usize = 20;

/// The shortest credentials: `YTpi` is `a:b`.
const BASIC_BYTES_MIN: usize = 4;

/// How many characters are decoded to find the colon after a user's name: 192 bytes.
const BASIC_DECODED_CHARACTERS: usize = 256;

/// The shortest header and payload of a JSON web token: `{"alg":"x"}` has 15 characters in base64,
/// `{"a":1}` has 10.
const JWT_PART_BYTES_MIN: usize = 10;

/// The parts of an encrypted token; a signed one has three.
const JWT_PARTS_MAX: usize = 5;

/// The length of the run of bytes of a class.
pub(in crate::redact) fn run_length(
    text: &[u8],
    start: usize,
    is_member: impl Fn(u8) -> bool,
) -> usize {
    let bytes = text.get(start..).unwrap_or_default().iter();
    let length = bytes.take_while(|byte| is_member(**byte)).count();
    crate::redact::steps::count(length + 1);
    length
}

/// The URL-safe alphabet of base64.
pub(in crate::redact) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// The start of the credentials after a scheme's name: after spaces, quotes, a colon, an equals
/// sign, or `%20`. Absent if they follow without any of them.
fn credentials_start(text: &[u8], scheme_end: usize) -> Option<usize> {
    if text[scheme_end..].starts_with(b"%20") {
        return Some(scheme_end + 3);
    }
    let gap = run_length(text, scheme_end, |byte| {
        matches!(byte, b' ' | b'\t' | b':' | b'=' | b'"' | b'\'' | b'\\')
    });
    (1..=GAP_BYTES_MAX).contains(&gap).then_some(scheme_end + gap)
}

/// Whether the scheme's name at `start` is a separate word.
fn is_word_start(text: &[u8], start: usize) -> bool {
    start == 0 || !(text[start - 1].is_ascii_alphanumeric() || text[start - 1] == b'_')
}

/// The token after `Bearer`. English sentences continue with a word there, so a token has a digit,
/// or is long and in mixed case.
pub(in crate::redact) fn bearer_token(text: &[u8], scheme: Range<usize>) -> Option<Range<usize>> {
    if !is_word_start(text, scheme.start) {
        return None;
    }
    let start = credentials_start(text, scheme.end)?;
    let length = run_length(text, start, |byte| {
        is_token(byte) || matches!(byte, b'.' | b'~' | b'+' | b'/' | b'=')
    });
    let run = &text[start..start + length];
    let token = &run[..run.iter().rposition(|&byte| byte != b'.').map_or(0, |last| last + 1)];
    let has = |is_member: fn(&u8) -> bool| token.iter().any(is_member);
    let is_mixed = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let is_token = token.len() >= BEARER_BYTES_MIN
        && (has(u8::is_ascii_digit) || (token.len() >= WORD_BYTES_MAX && is_mixed));
    is_token.then_some(start..start + token.len())
}

/// The credentials after `Basic`: base64 that begins with printable characters and a colon.
pub(in crate::redact) fn basic_credentials(
    text: &[u8],
    scheme: Range<usize>,
) -> Option<Range<usize>> {
    if !is_word_start(text, scheme.start) {
        return None;
    }
    let start = credentials_start(text, scheme.end)?;
    let length = run_length(text, start, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
    });
    if length < BASIC_BYTES_MIN {
        return None;
    }
    let decoded_length = length.min(BASIC_DECODED_CHARACTERS);
    // One character alone has no complete byte.
    let decoded_length = decoded_length - usize::from(decoded_length % 4 == 1);
    let mut characters = [0; BASIC_DECODED_CHARACTERS];
    let characters = &mut characters[..decoded_length];
    for (character, byte) in characters.iter_mut().zip(&text[start..]) {
        *character = match byte {
            b'-' => b'+',
            b'_' => b'/',
            other => *other,
        };
    }
    let mut decoded = [0; BASIC_DECODED_CHARACTERS / 4 * 3];
    let count = BASE64.decode_slice(characters, &mut decoded).ok()?;
    let colon = decoded[..count].iter().position(|&byte| byte == b':')?;
    if decoded[..colon].iter().any(u8::is_ascii_control) {
        return None;
    }
    let padding = run_length(text, start + length, |byte| byte == b'=').min(2);
    Some(start..start + length + padding)
}

/// The JSON web token that begins with `eyJ` at `start`: two parts at least, with a dot between
/// them. A token that was cut after its payload counts too.
pub(in crate::redact) fn jwt_end(text: &[u8], start: usize) -> Option<usize> {
    if start > 0 && is_token(text[start - 1]) {
        return None;
    }
    let header = run_length(text, start, is_token);
    if header < JWT_PART_BYTES_MIN || text.get(start + header) != Some(&b'.') {
        return None;
    }
    let payload = run_length(text, start + header + 1, is_token);
    if payload < JWT_PART_BYTES_MIN {
        return None;
    }
    let mut end = start + header + 1 + payload;
    for _ in 2..JWT_PARTS_MAX {
        if text.get(end) != Some(&b'.') {
            break;
        }
        let part = run_length(text, end + 1, is_token);
        if part == 0 {
            break;
        }
        end += 1 + part;
    }
    Some(end)
}
