//! Arrays of eight-byte numbers: histogram counts and bounds.

use crate::body::BodyWriter;
use crate::column::Column;
use crate::reuse;
use crate::shape::{Offsets, Shape};

/// An `Array(UInt64)` or `Array(Float64)` column.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    ends: Offsets,
    data: Vec<u8>,
}

impl Numbers {
    /// Adds a number, as its 64 bits, to the row being filled.
    #[inline]
    pub(crate) fn add(&mut self, bits: u64) {
        self.data.extend_from_slice(&bits.to_le_bytes());
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end(&mut self) {
        let numbers = (self.data.len() / size_of::<u64>()) as u64;
        self.ends.push(numbers - self.ends.total());
    }
}

impl Column for Numbers {
    fn len(&self) -> usize {
        self.ends.rows()
    }

    fn clear(&mut self) {
        self.ends.clear();
        reuse::clear(&mut self.data);
    }

    fn truncate(&mut self, len: usize) {
        if len < self.ends.rows() {
            self.ends.truncate(len);
        }
        self.data.truncate(self.ends.total() as usize * size_of::<u64>());
    }

    fn bytes(&self) -> usize {
        self.ends.bytes() + self.data.len()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.data.capacity()
    }

    fn write_prefix(&self, _body: &mut BodyWriter) {}

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        debug_assert!(shape.is_plain(), "points have their own numbers");
        self.ends.write(shape, body);
        body.put(&self.data);
    }
}
