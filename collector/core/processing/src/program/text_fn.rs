//! Functions from text to text.

use sha2::{Digest, Sha256, Sha512};

/// A function from text to text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFn {
    Lower,
    Upper,
    Snake,
    Camel,
    Sha256,
    Sha512,
}

impl TextFn {
    /// Returns the function with a converter's name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ToLowerCase" => Self::Lower,
            "ToUpperCase" => Self::Upper,
            "ToSnakeCase" => Self::Snake,
            "ToCamelCase" => Self::Camel,
            "SHA256" => Self::Sha256,
            "SHA512" => Self::Sha512,
            _ => return None,
        })
    }

    /// Adds the function's result for `text` to `out`.
    pub(crate) fn apply(self, text: &str, out: &mut Vec<u8>) {
        match self {
            Self::Lower => put_chars(text.chars().map(to_lower), out),
            Self::Upper => put_chars(text.chars().map(to_upper), out),
            Self::Snake => to_snake(text.trim(), out),
            Self::Camel => to_camel(text.trim(), out),
            Self::Sha256 => put_hex(&Sha256::digest(text), out),
            Self::Sha512 => put_hex(&Sha512::digest(text), out),
        }
    }
}

/// Adds bytes in hexadecimal.
pub(crate) fn put_hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for byte in bytes {
        out.push(DIGITS[usize::from(byte >> 4)]);
        out.push(DIGITS[usize::from(byte & 15)]);
    }
}

fn put_chars(characters: impl Iterator<Item = char>, out: &mut Vec<u8>) {
    for character in characters {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Returns a character's lower case as Go does: always one character.
fn to_lower(character: char) -> char {
    let mut lower = character.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(single), None) => single,
        // The only one whose lower case has more characters.
        _ => 'i',
    }
}

/// Returns a character's upper case as Go does: always one character.
fn to_upper(character: char) -> char {
    let mut upper = character.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(single), None) => single,
        _ => match character {
            // Greek letters with a subscript iota have a capital form of one character.
            '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => {
                char::from_u32(character as u32 + 8).unwrap_or(character)
            }
            '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => {
                char::from_u32(character as u32 + 9).unwrap_or(character)
            }
            _ => character,
        },
    }
}

/// Writes `fooBar`, `FooBar` and `foo-bar` as `foo_bar`. Only ASCII letters have a case here.
fn to_snake(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    for (position, &byte) in bytes.iter().enumerate() {
        let lower = byte.to_ascii_lowercase();
        let Some(&next) = bytes.get(position + 1) else {
            out.push(delimited(lower));
            break;
        };
        let is_upper = byte.is_ascii_uppercase();
        let is_lower = byte.is_ascii_lowercase();
        let is_digit = byte.is_ascii_digit();
        let is_boundary = (is_upper && (next.is_ascii_lowercase() || next.is_ascii_digit()))
            || (is_lower && (next.is_ascii_uppercase() || next.is_ascii_digit()))
            || (is_digit && next.is_ascii_alphabetic());
        if !is_boundary {
            out.push(delimited(lower));
            continue;
        }
        // The last capital of an acronym begins the next word: `JSONData` is `json_data`.
        let follows_upper = position > 0 && bytes[position - 1].is_ascii_uppercase();
        if is_upper && next.is_ascii_lowercase() && follows_upper {
            out.push(b'_');
        }
        out.push(lower);
        if is_lower || is_digit || next.is_ascii_digit() {
            out.push(b'_');
        }
    }
}

const fn delimited(byte: u8) -> u8 {
    if is_delimiter(byte) { b'_' } else { byte }
}

const fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b' ' | b'_' | b'-' | b'.')
}

/// Writes `foo_bar` as `FooBar`. Characters that are neither ASCII letters nor digits go.
fn to_camel(text: &str, out: &mut Vec<u8>) {
    let mut begins_word = true;
    let mut follows_upper = false;
    for byte in text.bytes() {
        let is_upper = byte.is_ascii_uppercase();
        let is_capital = begins_word || !(follows_upper && is_upper);
        let written = match (begins_word, is_capital) {
            (true, _) => byte.to_ascii_uppercase(),
            (false, true) => byte,
            (false, false) => byte.to_ascii_lowercase(),
        };
        follows_upper = is_upper;
        if byte.is_ascii_alphabetic() {
            out.push(written);
            begins_word = false;
        } else if byte.is_ascii_digit() {
            out.push(written);
            begins_word = true;
        } else {
            begins_word = is_delimiter(byte);
        }
    }
}
