//! Decodes plain files: finds line ends, and converts text to UTF-8. No state, no allocation.
//!
//! Offsets are bytes of the file. UTF-16 has units of two bytes from the file's start: a single
//! byte at the end waits for its other half. A byte order mark at the file's start decides the
//! order of bytes and is no text.
//!
//! Limits: Latin-1 is ISO 8859-1, so bytes 0x80 to 0x9f are control characters, not the quotes and
//! dashes of Windows-1252. A byte order mark makes no UTF-8 file UTF-16.

use memchr::{memchr, memchr_iter};

/// The encoding of a plain file. Container formats are always UTF-8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-8.
    #[default]
    Utf8,
    /// UTF-16, little-endian unless a byte order mark states otherwise.
    Utf16Le,
    /// UTF-16, big-endian unless a byte order mark states otherwise.
    Utf16Be,
    /// ISO 8859-1: each byte is the character with its number.
    Latin1,
}

/// Byte order marks: U+FEFF in little-endian and in big-endian order.
const MARK_LE: [u8; 2] = [0xff, 0xfe];
const MARK_BE: [u8; 2] = [0xfe, 0xff];

/// Marks half of a surrogate pair, or of a unit. It is never UTF-8, so U+FFFD replaces it and the
/// record is counted, as for any such byte.
const NO_TEXT: u8 = 0xff;

impl TextEncoding {
    /// Returns the encoding of a file that begins with `head`: a byte order mark decides the order.
    #[must_use]
    pub fn of_file(self, head: &[u8]) -> Self {
        match (self, head.first_chunk()) {
            (Self::Utf16Le | Self::Utf16Be, Some(&MARK_LE)) => Self::Utf16Le,
            (Self::Utf16Le | Self::Utf16Be, Some(&MARK_BE)) => Self::Utf16Be,
            (own, _) => own,
        }
    }

    /// Whether a line begins at `offset`. `before` holds the bytes up to there, at least two if so
    /// many exist.
    #[must_use]
    pub fn begins_line(self, offset: u64, before: &[u8]) -> bool {
        if offset == 0 || !self.is_wide() {
            return offset == 0 || before.last() == Some(&b'\n');
        }
        let is_mark = |unit: &[u8]| unit == MARK_LE || unit == MARK_BE;
        offset.is_multiple_of(2)
            && before
                .last_chunk::<2>()
                .is_some_and(|unit| self.line_feed(unit).is_some() || offset == 2 && is_mark(unit))
    }

    const fn is_wide(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be)
    }

    /// The size of a unit, which is a character or half of one.
    pub(crate) const fn unit_bytes(self) -> usize {
        if self.is_wide() { 2 } else { 1 }
    }

    /// The number of bytes before the text of a line that begins at `offset`: a byte order mark, or
    /// half of a unit if the offset was recorded with another encoding.
    pub(crate) fn lead_bytes(self, offset: u64, line: &[u8]) -> usize {
        let is_marked =
            || offset == 0 && (line.starts_with(&MARK_LE) || line.starts_with(&MARK_BE));
        match self.is_wide() {
            true if offset % 2 == 1 => line.len().min(1),
            true if is_marked() => 2,
            _ => 0,
        }
    }

    /// Finds the first line feed in complete units.
    pub(crate) fn line_feed(self, units: &[u8]) -> Option<usize> {
        match self {
            Self::Utf8 | Self::Latin1 => memchr(b'\n', units),
            Self::Utf16Le => memchr_iter(b'\n', units)
                .find(|at| at.is_multiple_of(2) && units.get(at + 1) == Some(&0)),
            Self::Utf16Be => memchr_iter(b'\n', units)
                .map(|at| at.wrapping_sub(1))
                .find(|at| at.is_multiple_of(2) && units.get(*at) == Some(&0)),
        }
    }

    /// Strips a CR at the end of a line.
    pub(crate) fn without_cr(self, text: &[u8]) -> &[u8] {
        let end: &[u8] = match self {
            Self::Utf8 | Self::Latin1 => b"\r",
            Self::Utf16Le => b"\r\0",
            Self::Utf16Be => b"\0\r",
        };
        let is_aligned = text.len().is_multiple_of(self.unit_bytes());
        text.strip_suffix(end).filter(|_| is_aligned).unwrap_or(text)
    }

    /// Cuts `text` (not UTF-8) to at most `limit` bytes after a complete character, and returns
    /// whether anything was cut.
    pub(crate) fn cut_text(self, text: &[u8], limit: usize) -> (&[u8], bool) {
        if text.len() <= limit {
            return (text, false);
        }
        let text = &text[..limit - limit % self.unit_bytes()];
        let high = match (self, text) {
            (Self::Utf16Le, [.., high]) | (Self::Utf16Be, [.., high, _]) => *high,
            _ => 0,
        };
        // The first half of a surrogate pair.
        let is_half = matches!(high, 0xd8..0xdc);
        (&text[..text.len() - if is_half { 2 } else { 0 }], true)
    }

    /// Appends `text` to `out` as UTF-8, with a byte that isn't UTF-8 for each half of a pair.
    pub(crate) fn decode(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Utf8 => out.extend_from_slice(text),
            Self::Latin1 => text.iter().for_each(|byte| push_char(out, char::from(*byte))),
            Self::Utf16Le => decode_units(text, u16::from_le_bytes, out),
            Self::Utf16Be => decode_units(text, u16::from_be_bytes, out),
        }
    }
}

fn decode_units(text: &[u8], unit: impl Fn([u8; 2]) -> u16, out: &mut Vec<u8>) {
    let (units, half) = text.as_chunks::<2>();
    for character in char::decode_utf16(units.iter().map(|bytes| unit(*bytes))) {
        match character {
            Ok(character) => push_char(out, character),
            Err(_) => out.push(NO_TEXT),
        }
    }
    if !half.is_empty() {
        out.push(NO_TEXT);
    }
}

fn push_char(out: &mut Vec<u8>, character: char) {
    if character.is_ascii() {
        out.push(character as u8);
    } else {
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
}
