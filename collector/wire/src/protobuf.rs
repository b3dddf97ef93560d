//! Reading protobuf's wire format from a slice, field by field, copying nothing; and the few pieces
//! of writing it that several crates need.
//!
//! A [`Cursor`] is the rest of a message. Every read checks its bounds and moves forward, so any
//! input ends in finite time: either at the end of the slice or with a [`Fault`].
//! Groups are refused. Field order, repetition and unknown fields are the caller's to handle;
//! [`Cursor::skip`] skips what it doesn't know.

pub use crate::error::Fault;
use crate::error::WireErrorKind;

/// Wire type of variable-length integers.
pub const VARINT: u32 = 0;
/// Wire type of 8-byte values.
pub const FIXED64: u32 = 1;
/// Wire type of length-prefixed values.
pub const LENGTH: u32 = 2;
/// Wire type of 4-byte values.
pub const FIXED32: u32 = 5;

/// A field's tag: its number and wire type.
#[must_use]
pub const fn tag(field: u32, wire_type: u32) -> u32 {
    field << 3 | wire_type
}

/// What is left of a message.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `message`.
    #[inline]
    #[must_use]
    pub const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Whether the message has been read to its end.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes not read yet.
    #[inline]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The fault `kind` at this place.
    #[cold]
    #[must_use]
    pub fn fault(&self, kind: WireErrorKind) -> Fault {
        Fault::at(kind, self.rest)
    }

    /// The next field's tag, or `None` at the end of the message.
    ///
    /// # Errors
    /// A tag that is cut off, over-long, or has field number 0 or an unknown wire type.
    #[inline]
    pub fn tag(&mut self) -> Result<Option<u32>, Fault> {
        let Some((&first, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        // Field numbers up to 15 take one byte; the lowest valid tag is 8 (field 1, wire type 0).
        if (0x08..0x80).contains(&first) {
            self.rest = rest;
            return Ok(Some(u32::from(first)));
        }
        self.long_tag().map(Some)
    }

    #[inline(never)]
    fn long_tag(&mut self) -> Result<u32, Fault> {
        let start = *self;
        let raw = self.varint()?;
        match u32::try_from(raw) {
            Ok(tag) if tag >= 8 => Ok(tag),
            _ => Err(start.fault(WireErrorKind::InvalidTag)),
        }
    }

    /// A variable-length integer.
    ///
    /// # Errors
    /// It is cut off, or longer than ten bytes or 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Fault> {
        match self.rest {
            [first, rest @ ..] if *first < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*first))
            }
            [first, second, rest @ ..] if *second < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*first & 0x7f) | u64::from(*second) << 7)
            }
            _ => self.long_varint(),
        }
    }

    #[inline]
    fn long_varint(&mut self) -> Result<u64, Fault> {
        // Up to eight bytes at once, without a branch that depends on how many there are.
        if let Some(chunk) = self.rest.first_chunk::<8>() {
            let word = u64::from_le_bytes(*chunk);
            let ends = !word & 0x8080_8080_8080_8080;
            if ends != 0 {
                let bits = ends.trailing_zeros() + 1;
                self.rest = &self.rest[bits as usize / 8..];
                return Ok(join_sevens(word & (u64::MAX >> (u64::BITS - bits))));
            }
        }
        self.odd_varint()
    }

    /// An integer of more than eight bytes, or near the end of the message.
    #[inline(never)]
    fn odd_varint(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for (position, &byte) in self.rest.iter().take(10).enumerate() {
            // The tenth byte carries bit 63 alone.
            if position == 9 && byte > 1 {
                return Err(self.fault(WireErrorKind::OverlongVarint));
            }
            value |= u64::from(byte & 0x7f) << (7 * position);
            if byte < 0x80 {
                self.rest = &self.rest[position + 1..];
                return Ok(value);
            }
        }
        Err(self.fault(WireErrorKind::Truncated))
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn fixed64(&mut self) -> Result<u64, Fault> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(u64::from_le_bytes(*bytes))
            }
            None => Err(self.fault(WireErrorKind::Truncated)),
        }
    }

    /// Eight bytes as a double.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn double(&mut self) -> Result<f64, Fault> {
        self.fixed64().map(f64::from_bits)
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// Fewer are left.
    #[inline]
    pub fn fixed32(&mut self) -> Result<u32, Fault> {
        match self.rest.split_first_chunk() {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(u32::from_le_bytes(*bytes))
            }
            None => Err(self.fault(WireErrorKind::Truncated)),
        }
    }

    /// A length and that many bytes.
    ///
    /// # Errors
    /// The length is not valid or more than what is left.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let start = *self;
        let length = self.varint()?;
        match usize::try_from(length).ok().and_then(|length| self.rest.split_at_checked(length)) {
            Some((bytes, rest)) => {
                self.rest = rest;
                Ok(bytes)
            }
            None => Err(start.fault(WireErrorKind::Truncated)),
        }
    }

    /// Passes over the next byte if it is `byte`.
    #[inline]
    pub(crate) fn take_byte(&mut self, byte: u8) -> bool {
        match self.rest {
            [first, rest @ ..] if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// Passes over the value of a field with tag `tag`.
    ///
    /// # Errors
    /// The value is cut off, or a group, or of an unknown wire type.
    #[inline]
    pub fn skip(&mut self, tag: u32) -> Result<(), Fault> {
        match tag & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.fixed64().map(drop),
            LENGTH => self.bytes().map(drop),
            FIXED32 => self.fixed32().map(drop),
            3 | 4 => Err(self.fault(WireErrorKind::Group)),
            _ => Err(self.fault(WireErrorKind::InvalidTag)),
        }
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

/// Bytes of a group's length: 28 bits, four times the longest request.
const GROUP_LEN_BYTES: usize = 4;

/// Begins a message whose length isn't known yet: room for it, behind the tag. Returns where the
/// content begins.
#[inline]
pub fn begin_group(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; GROUP_LEN_BYTES]);
    out.len()
}

/// Ends the message whose content began at `start`: fills in its length. Protobuf allows integers
/// with leading zeros, and every reader takes them.
#[inline]
pub fn end_group(out: &mut [u8], start: usize) {
    let length = out.len() - start;
    for (place, byte) in out[start - GROUP_LEN_BYTES..start].iter_mut().enumerate() {
        let more = if place + 1 < GROUP_LEN_BYTES { 0x80 } else { 0 };
        *byte = (length >> (7 * place)) as u8 & 0x7f | more;
    }
}

/// Bytes `value` takes as a variable-length integer: 1 to 10.
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    // Seven bits a byte, and zero takes one byte as well.
    ((70 - (value | 1).leading_zeros()) / 7) as usize
}

/// The signed integer behind protobuf's zigzag form (`sint32`, `sint64`).
#[inline]
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
#[path = "../tests/unit/protobuf.rs"]
mod tests;
