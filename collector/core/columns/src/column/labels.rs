//! `LowCardinality(String)` with a fixed dictionary: enumerations written as text.

use crate::body::BodyWriter;
use crate::column::dictionary::{HAS_ADDITIONAL_KEYS, KEYS_VERSION};
use crate::column::{ColumnBuilder, fixed};
use crate::reuse;
use crate::shape::ColumnShape;

/// A column whose values are among at most 256 known texts.
#[derive(Debug)]
pub(crate) struct LabelColumn {
    keys: &'static [&'static str],
    indexes: Vec<u8>,
}

impl LabelColumn {
    /// `keys` are in the order of the enumeration's numbers; the last one is for all other numbers.
    pub(crate) const fn new(keys: &'static [&'static str]) -> Self {
        assert!(!keys.is_empty() && keys.len() <= 256);
        Self { keys, indexes: Vec::new() }
    }

    #[inline]
    pub(crate) fn push(&mut self, number: i32) {
        let other = self.keys.len() - 1;
        let index = usize::try_from(number).map_or(other, |number| number.min(other));
        self.indexes.push(index as u8);
    }
}

impl ColumnBuilder for LabelColumn {
    fn len(&self) -> usize {
        self.indexes.len()
    }

    fn clear(&mut self) {
        reuse::clear(&mut self.indexes);
    }

    fn truncate(&mut self, len: usize) {
        self.indexes.truncate(len);
    }

    fn data_bytes(&self) -> usize {
        self.indexes.len()
    }

    fn memory_bytes(&self) -> usize {
        self.indexes.capacity()
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        body.put_u64(KEYS_VERSION);
    }

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        let rows = shape.start_row(self.indexes.len() as u32);
        if rows == 0 {
            return;
        }
        body.put_u64(HAS_ADDITIONAL_KEYS);
        body.put_u64(self.keys.len() as u64);
        self.keys.iter().for_each(|key| body.put_string(key.as_bytes()));
        body.put_u64(rows as u64);
        fixed::write_fixed::<1>(&self.indexes, shape, body);
    }
}
