//! Writes protobuf: it inserts a length when its message is complete, and never grows the buffer
//! past its limit.

use super::error::JsonErrorKind;
use super::scalar::ScalarValue;
use crate::protobuf::{put_varint, varint_len};

/// More than any scalar takes: a varint of ten bytes.
const SCALAR_BYTES: usize = 10;

/// The output.
pub(super) struct Out<'o> {
    bytes: &'o mut Vec<u8>,
    limit_bytes: usize,
}

impl<'o> Out<'o> {
    /// Returns an output into `bytes`, which is empty. Most requests are shorter in protobuf than
    /// in JSON.
    pub(super) fn new(bytes: &'o mut Vec<u8>, limit_bytes: usize, expected_bytes: usize) -> Self {
        bytes.reserve_exact(expected_bytes.min(limit_bytes));
        Self { bytes, limit_bytes }
    }

    /// Begins a length-prefixed value that [`Self::close`] ends.
    pub(super) fn begin_value(&mut self) -> Result<usize, JsonErrorKind> {
        self.put_raw(&[0])?;
        Ok(self.bytes.len())
    }

    /// Ends the value that began at `start`. One byte is reserved for its length; a longer length
    /// moves the value, which costs less than reserving more in the many short ones.
    pub(super) fn end_value(&mut self, start: usize) -> Result<(), JsonErrorKind> {
        let mut length = (self.bytes.len() - start) as u64;
        let more = varint_len(length) - 1;
        if more > 0 {
            let end = self.bytes.len();
            self.put_raw(&[0; 9][..more])?;
            self.bytes.copy_within(start..end, start + more);
        }
        let mut at = start - 1;
        while length >= 0x80 {
            self.bytes[at] = length as u8 | 0x80;
            length >>= 7;
            at += 1;
        }
        self.bytes[at] = length as u8;
        Ok(())
    }

    /// Writes a length and bytes.
    pub(super) fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), JsonErrorKind> {
        self.put_varint(bytes.len() as u64)?;
        self.put_raw(bytes)
    }

    pub(super) fn put_varint(&mut self, value: u64) -> Result<(), JsonErrorKind> {
        self.reserve_bytes(varint_len(value))?;
        put_varint(self.bytes, value);
        Ok(())
    }

    pub(super) fn put_scalar(&mut self, value: ScalarValue) -> Result<(), JsonErrorKind> {
        match value {
            ScalarValue::Varint(value) => self.put_varint(value),
            ScalarValue::Fixed64(value) => self.put_raw(&value.to_le_bytes()),
            ScalarValue::Fixed32(value) => self.put_raw(&value.to_le_bytes()),
        }
    }

    pub(super) fn put_raw(&mut self, bytes: &[u8]) -> Result<(), JsonErrorKind> {
        self.reserve_bytes(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    #[inline]
    fn reserve_bytes(&mut self, more: usize) -> Result<(), JsonErrorKind> {
        if more <= self.bytes.capacity() - self.bytes.len()
            && self.bytes.len() + more <= self.limit_bytes
        {
            return Ok(());
        }
        self.grow_buffer(more)
    }

    #[cold]
    fn grow_buffer(&mut self, more: usize) -> Result<(), JsonErrorKind> {
        let needed = self.bytes.len() + more;
        if needed > self.limit_bytes {
            return Err(JsonErrorKind::TooLong { limit_bytes: self.limit_bytes });
        }
        let doubled = (self.bytes.capacity() * 2).max(needed + SCALAR_BYTES);
        let capacity = doubled.min(self.limit_bytes);
        self.bytes.reserve_exact(capacity - self.bytes.len());
        Ok(())
    }
}
