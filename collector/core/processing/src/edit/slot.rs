//! An attribute as bytes: where its key and its value are.

use millrace_wire::protobuf::{Cursor, LENGTH, WireFault, field_tag};

use crate::edit::memory::Ref;

/// An attribute of a message, or a member of a map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) key: Ref,
    /// Its `AnyValue` message.
    pub(crate) value: Ref,
    /// The attribute with its tag as it was received; empty if it is new or changed.
    pub(crate) raw: Ref,
}

impl Slot {
    /// Returns a new attribute.
    pub(crate) const fn new(key: Ref, value: Ref) -> Self {
        Self { key, value, raw: Ref::EMPTY }
    }

    /// Reads a `KeyValue` message, which is at `range`.
    #[inline]
    pub(crate) fn parse(message: &[u8], range: Ref, raw: Ref) -> Result<Self, WireFault> {
        match Self::parse_common(message, range, raw) {
            Some(slot) => Ok(slot),
            None => Self::parse_any(message, range, raw),
        }
    }

    /// Reads a key shorter than 128 bytes and then a value shorter than 16 KiB, as encoders write
    /// nearly all of them. Not a `Result`, which would pass through memory.
    #[inline(always)]
    pub(super) fn parse_common(message: &[u8], range: Ref, raw: Ref) -> Option<Self> {
        let [0x0a, key_len @ ..0x80, rest @ ..] = message else { return None };
        let key_len = usize::from(*key_len);
        let value_len = match rest.get(key_len..)? {
            [0x12, low @ ..0x80, value @ ..] if value.len() == usize::from(*low) => value.len(),
            [0x12, low @ 0x80..=0xff, high @ ..0x80, value @ ..]
                if value.len() == usize::from(*low & 0x7f) | usize::from(*high) << 7 =>
            {
                value.len()
            }
            _ => return None,
        };
        let value = range.part(message.len() - value_len, value_len);
        Some(Self { key: range.part(2, key_len), value, raw })
    }

    /// Reads the attribute that begins at `start` of a message, if it is as most are: a key and
    /// then a value, together shorter than 128 bytes with their tags.
    #[inline(always)]
    pub(super) fn read_short(bytes: &[u8], message: Ref, start: usize, tag: u8) -> Option<Self> {
        /// The tags and lengths of key and value.
        const HEADERS_LEN: usize = 4;
        let [found, len @ ..0x80, 0x0a, key_len, rest @ ..] = bytes.get(start..)? else {
            return None;
        };
        let (len, key_len) = (usize::from(*len), usize::from(*key_len));
        let [0x12, value_len, value @ ..] = rest.get(key_len..)? else { return None };
        let value_len = usize::from(*value_len);
        // Longer lengths would exceed the attribute's own.
        if *found != tag || len != HEADERS_LEN + key_len + value_len || value.len() < value_len {
            return None;
        }
        let key_start = start + HEADERS_LEN;
        Some(Self {
            key: message.part(key_start, key_len),
            value: message.part(key_start + key_len + 2, value_len),
            raw: message.part(start, len + 2),
        })
    }

    #[inline(never)]
    pub(super) fn parse_any(message: &[u8], range: Ref, raw: Ref) -> Result<Self, WireFault> {
        const KEY: u32 = field_tag(1, LENGTH);
        const VALUE: u32 = field_tag(2, LENGTH);
        let mut slot = Self { key: Ref::EMPTY, value: Ref::EMPTY, raw };
        let mut cursor = Cursor::new(message);
        while let Some(tag) = cursor.tag()? {
            match tag {
                KEY => slot.key = range.locate(message, cursor.bytes()?),
                VALUE => slot.value = range.locate(message, cursor.bytes()?),
                other => cursor.skip(other)?,
            }
        }
        Ok(slot)
    }

    /// Replaces the value.
    #[inline]
    pub(crate) fn set(&mut self, value: Ref) {
        self.value = value;
        self.raw = Ref::EMPTY;
    }
}
