//! Reads protobuf's wire format from a slice, field by field, without copies; and the few writing
//! functions that several crates require.
//!
//! A [`Cursor`] is the rest of a message. Every read checks its bounds and moves forward, so any
//! input ends in finite time: either at the end of the slice or with a [`WireFault`]. Groups are
//! refused. The caller handles field order, repetition and unknown fields; [`Cursor::skip`] skips
//! those it doesn't know.

use crate::error::WireErrorKind;
pub use crate::error::WireFault;

/// Wire type of variable-length integers.
pub const VARINT: u32 = 0;
/// Wire type of 8-byte values.
pub const FIXED64: u32 = 1;
/// Wire type of length-prefixed values.
pub const LENGTH: u32 = 2;
/// Wire type of 4-byte values.
pub const FIXED32: u32 = 5;

/// Returns a field's tag from its number and wire type.
#[must_use]
pub const fn field_tag(field: u32, wire_type: u32) -> u32 {
    field << 3 | wire_type
}

/// The unread rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    remaining: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Returns a cursor at the start of `message`.
    #[inline]
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self { remaining: message }
    }

    /// Whether the message has been read to its end.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.remaining.is_empty()
    }

    /// Returns the unread bytes.
    #[inline]
    #[must_use]
    pub const fn remaining(&self) -> &'a [u8] {
        self.remaining
    }

    /// Returns the fault `kind` at this position.
    #[cold]
    #[must_use]
    pub fn fault_here(&self, kind: WireErrorKind) -> WireFault {
        WireFault::new(kind, self.remaining)
    }

    /// Reads the next field's tag; `None` at the end of the message.
    ///
    /// # Errors
    /// If the tag is truncated, over-long, or has field number 0 or an unknown wire type.
    #[inline]
    pub fn tag(&mut self) -> Result<Option<u32>, WireFault> {
        let Some((&first, rest)) = self.remaining.split_first() else {
            return Ok(None);
        };
        // Field numbers up to 15 take one byte; the lowest valid tag is 8 (field 1, wire type 0).
        if (0x08..0x80).contains(&first) {
            self.remaining = rest;
            return Ok(Some(u32::from(first)));
        }
        self.long_tag().map(Some)
    }

    #[inline(never)]
    fn long_tag(&mut self) -> Result<u32, WireFault> {
        let start = *self;
        let raw = self.varint()?;
        match u32::try_from(raw) {
            Ok(tag) if tag >= 8 => Ok(tag),
            _ => Err(start.fault_here(WireErrorKind::InvalidTag)),
        }
    }

    /// Reads a variable-length integer.
    ///
    /// # Errors
    /// If it is truncated, or longer than ten bytes or 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, WireFault> {
        match self.remaining {
            [first, rest @ ..] if *first < 0x80 => {
                self.remaining = rest;
                Ok(u64::from(*first))
            }
            [first, second, rest @ ..] if *second < 0x80 => {
                self.remaining = rest;
                Ok(u64::from(*first & 0x7f) | u64::from(*second) << 7)
            }
            _ => self.long_varint(),
        }
    }

    #[inline]
    fn long_varint(&mut self) -> Result<u64, WireFault> {
        // Reads up to eight bytes at once, without a branch that depends on their number.
        if let Some(chunk) = self.remaining.first_chunk::<8>() {
            let word = u64::from_le_bytes(*chunk);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let bits = ends.trailing_zeros() + 1;
                self.remaining = &self.remaining[bits as usize / 8..];
                return Ok(join_sevens(word & (u64::MAX >> (u64::BITS - bits))));
            }
        }
        self.odd_varint()
    }

    /// Reads an integer of more than eight bytes, or near the end of the message.
    #[inline(never)]
    fn odd_varint(&mut self) -> Result<u64, WireFault> {
        let mut value = 0_u64;
        for (position, &byte) in self.remaining.iter().take(10).enumerate() {
            // The tenth byte carries only bit 63.
            if position == 9 && byte > 1 {
                return Err(self.fault_here(WireErrorKind::OverlongVarint));
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                self.remaining = &self.remaining[position + 1..];
                return Ok(value);
            }
        }
        Err(self.fault_here(WireErrorKind::Truncated))
    }

    /// Reads eight bytes, little-endian.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn fixed64(&mut self) -> Result<u64, WireFault> {
        match self.remaining.split_first_chunk() {
            Some((bytes, rest)) => {
                self.remaining = rest;
                Ok(u64::from_le_bytes(*bytes))
            }
            None => Err(self.fault_here(WireErrorKind::Truncated)),
        }
    }

    /// Reads eight bytes as a double.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn double(&mut self) -> Result<f64, WireFault> {
        self.fixed64().map(f64::from_bits)
    }

    /// Reads four bytes, little-endian.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline]
    pub fn fixed32(&mut self) -> Result<u32, WireFault> {
        match self.remaining.split_first_chunk() {
            Some((bytes, rest)) => {
                self.remaining = rest;
                Ok(u32::from_le_bytes(*bytes))
            }
            None => Err(self.fault_here(WireErrorKind::Truncated)),
        }
    }

    /// Reads a length and that many bytes.
    ///
    /// # Errors
    /// If the length is invalid or exceeds the rest.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], WireFault> {
        let start = *self;
        let length = self.varint()?;
        match usize::try_from(length)
            .ok()
            .and_then(|length| self.remaining.split_at_checked(length))
        {
            Some((bytes, rest)) => {
                self.remaining = rest;
                Ok(bytes)
            }
            None => Err(start.fault_here(WireErrorKind::Truncated)),
        }
    }

    /// Skips the next byte if it is `byte`.
    #[inline]
    pub(crate) fn take_byte(&mut self, byte: u8) -> bool {
        match self.remaining {
            [first, rest @ ..] if *first == byte => {
                self.remaining = rest;
                true
            }
            _ => false,
        }
    }

    /// Skips the value of a field with tag `tag`.
    ///
    /// # Errors
    /// If the value is truncated, a group, or of an unknown wire type.
    #[inline]
    pub fn skip(&mut self, tag: u32) -> Result<(), WireFault> {
        match tag & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed64().map(drop),
            LENGTH => self.bytes().map(drop),
            FIXED32 => self.fixed32().map(drop),
            3 | 4 => Err(self.fault_here(WireErrorKind::Group)),
            _ => Err(self.fault_here(WireErrorKind::InvalidTag)),
        }
    }
}

/// The position of a field in its message.
///
/// For loops that note positions instead of reading values: they take half of the instructions of
/// a [`Cursor`], whose rest they would have to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpan {
    /// The field's tag.
    pub tag: u32,
    /// The start of its value: of the content, if that is length-prefixed.
    pub value_start: usize,
    /// The end of the field.
    pub end: usize,
}

impl FieldSpan {
    /// Finds the field that begins at `start`, which is before the end of the message.
    ///
    /// # Errors
    /// As [`Cursor::tag`] and [`Cursor::skip`].
    #[inline(always)]
    pub fn read(message: &[u8], start: usize) -> Result<Self, WireFault> {
        match Self::read_common(message, start) {
            Some(span) => Ok(span),
            None => Self::read_any(message, start),
        }
    }

    /// Finds a field as nearly all are: a tag of one byte with a length of one or two, eight bytes
    /// or a varint of one.
    #[inline(always)]
    fn read_common(message: &[u8], start: usize) -> Option<Self> {
        let (&tag, value) = message.get(start..)?.split_first()?;
        if !(0x08..0x80).contains(&tag) {
            return None;
        }
        // Branches, as a jump by the wire type would be less predictable.
        let wire_type = u32::from(tag) & 7;
        let (length_bytes, value_bytes) = if wire_type == LENGTH {
            match value {
                [length @ ..0x80, ..] => (1, usize::from(*length)),
                [low, high @ ..0x80, ..] => (2, usize::from(*low & 0x7f) | usize::from(*high) << 7),
                _ => return None,
            }
        } else if wire_type == FIXED64 {
            (0, 8)
        } else if wire_type == VARINT && matches!(value, [..0x80, ..]) {
            (0, 1)
        } else {
            return None;
        };
        if value.len() < length_bytes + value_bytes {
            return None;
        }
        let value_start = start + 1 + length_bytes;
        Some(Self { tag: u32::from(tag), value_start, end: value_start + value_bytes })
    }

    /// Finds any field, also a malformed one.
    #[inline(never)]
    fn read_any(message: &[u8], start: usize) -> Result<Self, WireFault> {
        let mut cursor = Cursor::new(message.get(start..).unwrap_or_default());
        let Some(tag) = cursor.tag()? else {
            return Err(cursor.fault_here(WireErrorKind::Truncated));
        };
        let after_tag = message.len() - cursor.remaining().len();
        let content = if tag & 7 == LENGTH { Some(cursor.bytes()?) } else { None };
        if content.is_none() {
            cursor.skip(tag)?;
        }
        let end = message.len() - cursor.remaining().len();
        let value_start = content.map_or(after_tag, |content| end - content.len());
        Ok(Self { tag, value_start, end })
    }
}

/// Joins the low seven bits of each byte: pairs of bytes, then pairs of pairs, then the halves.
#[inline]
const fn join_sevens(word: u64) -> u64 {
    let word = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = (word & 0x0000_3fff_0000_3fff) | (word & 0x3fff_0000_3fff_0000) >> 2;
    (word & 0x0000_0000_0fff_ffff) | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// Appends `value` as a variable-length integer.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a length-prefixed field, whose tag takes one byte.
#[inline]
pub fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The bytes of a group's length: 28 bits, four times the longest request.
const GROUP_LEN_BYTES: usize = 4;

/// Begins a message of unknown length: reserves bytes for the length behind the tag. Returns the
/// start of the content.
#[inline]
pub fn begin_group(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; GROUP_LEN_BYTES]);
    out.len()
}

/// Ends the message whose content began at `start`: fills in its length. Protobuf allows integers
/// with leading zeros, and every reader accepts them.
#[inline]
pub fn end_group(out: &mut [u8], start: usize) {
    let length = out.len() - start;
    for (index, byte) in out[start - GROUP_LEN_BYTES..start].iter_mut().enumerate() {
        let more = if index + 1 < GROUP_LEN_BYTES { 0x80 } else { 0 };
        *byte = (length >> (7 * index)) as u8 & 0x7f | more;
    }
}

/// Returns the length of `value` as a variable-length integer: 1 to 10 bytes.
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    // Seven bits per byte, and zero also takes one byte.
    ((70 - (value | 1).leading_zeros()) / 7) as usize
}

/// Decodes a signed integer from protobuf's zigzag form (`sint32`, `sint64`).
#[inline]
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests;
