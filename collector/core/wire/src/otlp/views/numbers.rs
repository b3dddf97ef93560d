//! Repeated numbers, as in histograms.

use crate::error::{WireErrorKind, WireFault};
use crate::otlp::common::stretch_between;
use crate::protobuf::{Cursor, LENGTH};

/// Repeated numbers, packed or not: the range of a message that holds them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers<'a> {
    bytes: &'a [u8],
    field: u32,
}

impl<'a> Numbers<'a> {
    /// Adds the occurrence whose tag has just been read while walking `message`.
    #[inline]
    pub(in crate::otlp) fn gather(
        &mut self,
        tag: u32,
        message: &'a [u8],
        before: &'a [u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), WireFault> {
        cursor.skip(tag)?;
        self.bytes = stretch_between(self.bytes, message, before, cursor.remaining());
        self.field = tag >> 3;
        Ok(())
    }

    /// Whether the field doesn't occur.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Calls `each` with every number of a `fixed64` or `double` field, as its 64 bits.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn for_each_fixed64(self, mut each: impl FnMut(u64)) -> Result<(), WireFault> {
        let mut cursor = Cursor::new(self.bytes);
        while let Some(tag) = cursor.tag()? {
            if tag >> 3 != self.field {
                cursor.skip(tag)?;
            } else if tag & 7 == LENGTH {
                let (items, rest) = read_packed(&mut cursor)?;
                items.iter().for_each(|item| each(u64::from_le_bytes(*item)));
                if !rest.is_empty() {
                    return Err(WireFault::new(WireErrorKind::PackedLength, rest));
                }
            } else {
                each(cursor.fixed64()?);
            }
        }
        Ok(())
    }

    /// Calls `each` with every number of a varint field.
    ///
    /// # Errors
    /// If the bytes are malformed.
    #[inline]
    pub fn for_each_varint(self, mut each: impl FnMut(u64)) -> Result<(), WireFault> {
        let mut cursor = Cursor::new(self.bytes);
        while let Some(tag) = cursor.tag()? {
            if tag >> 3 != self.field {
                cursor.skip(tag)?;
            } else if tag & 7 == LENGTH {
                let mut items = Cursor::new(cursor.bytes()?);
                while !items.is_empty() {
                    each(items.varint()?);
                }
            } else {
                each(cursor.varint()?);
            }
        }
        Ok(())
    }
}

fn read_packed<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [[u8; 8]], &'a [u8]), WireFault> {
    cursor.bytes().map(<[u8]>::as_chunks)
}
