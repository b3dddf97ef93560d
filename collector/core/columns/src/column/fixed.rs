//! Values of a fixed width, little-endian.

use crate::body::BodyWriter;
use crate::column::ColumnBuilder;
use crate::reuse;
use crate::shape::ColumnShape;

/// Values of `WIDTH` bytes each.
#[derive(Debug, Default)]
pub(crate) struct Fixed<const WIDTH: usize> {
    data: Vec<u8>,
}

impl<const WIDTH: usize> Fixed<WIDTH> {
    #[inline]
    pub(crate) fn push(&mut self, value: [u8; WIDTH]) {
        self.data.extend_from_slice(&value);
    }
}

impl<const WIDTH: usize> ColumnBuilder for Fixed<WIDTH> {
    fn len(&self) -> usize {
        self.data.len() / WIDTH
    }

    fn clear(&mut self) {
        reuse::clear(&mut self.data);
    }

    fn truncate(&mut self, len: usize) {
        self.data.truncate(len * WIDTH);
    }

    fn data_bytes(&self) -> usize {
        self.data.len()
    }

    fn memory_bytes(&self) -> usize {
        self.data.capacity()
    }

    fn write_prefix(&self, _body: &mut BodyWriter) {}

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        write_fixed::<WIDTH>(&self.data, shape, body);
    }
}

/// Writes the values in `data`, spread over rows by `shape`.
pub(crate) fn write_fixed<const WIDTH: usize>(
    data: &[u8],
    shape: ColumnShape<'_>,
    body: &mut BodyWriter,
) {
    if shape.is_plain() {
        body.put_raw(data);
        return;
    }
    let (values, _) = data.as_chunks::<WIDTH>();
    for (index, value) in values.iter().enumerate() {
        body.put_repeated(value, shape.rows_sharing(index));
    }
}
