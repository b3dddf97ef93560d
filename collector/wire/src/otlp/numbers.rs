//! Repeated numbers, as histograms have them.

use crate::error::{Fault, WireErrorKind};
use crate::otlp::common::stretch;
use crate::protobuf::{Cursor, LENGTH};

/// Repeated numbers, packed or not: the stretch of a message that holds them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Numbers<'a> {
    bytes: &'a [u8],
    field: u32,
}

impl<'a> Numbers<'a> {
    /// Adds the occurrence whose tag has just been read while walking `message`.
    #[inline]
    pub(super) fn gather(
        &mut self,
        tag: u32,
        message: &'a [u8],
        before: &'a [u8],
        cursor: &mut Cursor<'a>,
    ) -> Result<(), Fault> {
        cursor.skip(tag)?;
        self.bytes = stretch(self.bytes, message, before, cursor.rest());
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
    /// The bytes are malformed.
    #[inline]
    pub fn fixed64(self, mut each: impl FnMut(u64)) -> Result<(), Fault> {
        let mut cursor = Cursor::new(self.bytes);
        while let Some(tag) = cursor.tag()? {
            if tag >> 3 != self.field {
                cursor.skip(tag)?;
            } else if tag & 7 == LENGTH {
                let (items, rest) = packed(&mut cursor)?;
                items.iter().for_each(|item| each(u64::from_le_bytes(*item)));
                if !rest.is_empty() {
                    return Err(Fault::at(WireErrorKind::PackedLength, rest));
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
    /// The bytes are malformed.
    #[inline]
    pub fn varints(self, mut each: impl FnMut(u64)) -> Result<(), Fault> {
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

fn packed<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [[u8; 8]], &'a [u8]), Fault> {
    cursor.bytes().map(<[u8]>::as_chunks)
}
