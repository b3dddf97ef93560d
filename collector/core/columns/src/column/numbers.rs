//! Arrays of eight-byte numbers: histogram counts and bounds.

use crate::body::BodyWriter;
use crate::column::ColumnBuilder;
use crate::reuse;
use crate::shape::{ColumnShape, Offsets};

/// An `Array(UInt64)` or `Array(Float64)` column.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    ends: Offsets,
    data: Vec<u8>,
}

impl Numbers {
    /// Adds a number, as its 64 bits, to the current row.
    #[inline]
    pub(crate) fn add_number(&mut self, bits: u64) {
        self.data.extend_from_slice(&bits.to_le_bytes());
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        let numbers = (self.data.len() / size_of::<u64>()) as u64;
        self.ends.push(numbers - self.ends.total());
    }
}

impl ColumnBuilder for Numbers {
    fn len(&self) -> usize {
        self.ends.row_count()
    }

    fn clear(&mut self) {
        self.ends.clear();
        reuse::clear(&mut self.data);
    }

    fn truncate(&mut self, len: usize) {
        if len < self.ends.row_count() {
            self.ends.truncate(len);
        }
        self.data.truncate(self.ends.total() as usize * size_of::<u64>());
    }

    fn data_bytes(&self) -> usize {
        self.ends.data_bytes() + self.data.len()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.data.capacity()
    }

    fn write_prefix(&self, _body: &mut BodyWriter) {}

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        debug_assert!(shape.is_plain(), "points have their own numbers");
        self.ends.write(shape, body);
        body.put_raw(&self.data);
    }
}
