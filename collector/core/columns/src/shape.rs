//! How the values of a column relate to the rows of its block.

use crate::body::BodyWriter;
use crate::reuse;

/// Rows that share a value, by the block's row at which each group starts.
///
/// Resource and scope columns store one value per group, which is spread over its rows only when
/// the block is written.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    starts: Vec<u32>,
}

impl Groups {
    pub(crate) fn clear(&mut self) {
        reuse::clear(&mut self.starts);
    }

    /// Starts a group at row `row`.
    pub(crate) fn begin_group(&mut self, row: u32) {
        self.starts.push(row);
    }

    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.starts.truncate(len);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u32>()
    }

    /// Returns the shape of this level's columns in a block of `rows` rows.
    pub(crate) fn shape_for(&self, rows: u32) -> ColumnShape<'_> {
        ColumnShape::Grouped { starts: &self.starts, rows }
    }
}

/// How a column's values map to rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ColumnShape<'a> {
    /// One value per row.
    Rows,
    /// One value per group of rows.
    Grouped {
        /// The row at which each group starts.
        starts: &'a [u32],
        /// Rows in the block.
        rows: u32,
    },
    /// An array per row: where each row's values end.
    Nested {
        /// One end per row.
        ends: &'a Offsets,
    },
}

impl ColumnShape<'_> {
    /// Returns how many rows share value `index`.
    #[inline]
    pub(crate) fn rows_sharing(&self, index: usize) -> usize {
        match self {
            Self::Rows | Self::Nested { .. } => 1,
            Self::Grouped { starts, rows } => {
                let start = starts.get(index).copied().unwrap_or(*rows);
                let end = starts.get(index + 1).copied().unwrap_or(*rows);
                (end - start) as usize
            }
        }
    }

    /// Returns the written row at which value `index` starts; for `index` past the last, the number
    /// of rows.
    #[inline]
    pub(crate) fn start_row(&self, index: u32) -> usize {
        match self {
            Self::Rows | Self::Nested { .. } => index as usize,
            Self::Grouped { starts, rows } => {
                starts.get(index as usize).copied().unwrap_or(*rows) as usize
            }
        }
    }

    /// Returns whether each value is written exactly once.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !matches!(self, Self::Grouped { .. })
    }
}

/// The ends of each row's array, in the format's form: running totals in 8 bytes.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    ends: Vec<u8>,
    total: u64,
}

impl Offsets {
    pub(crate) fn clear(&mut self) {
        reuse::clear(&mut self.ends);
        self.total = 0;
    }

    /// Ends a row that added `count` values.
    #[inline]
    pub(crate) fn push(&mut self, count: u64) {
        self.total += count;
        self.ends.extend_from_slice(&self.total.to_le_bytes());
    }

    /// Returns the number of all values.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the range of the values of row `row`.
    pub(crate) fn value_range(&self, row: usize) -> std::ops::Range<usize> {
        let end = |row: usize| self.row_end(row) as usize;
        if row == 0 { 0..end(0) } else { end(row - 1)..end(row) }
    }

    fn row_end(&self, row: usize) -> u64 {
        let (ends, _) = self.ends.as_chunks();
        ends.get(row).map_or(self.total, |end| u64::from_le_bytes(*end))
    }

    /// Returns the number of ended rows.
    pub(crate) fn row_count(&self) -> usize {
        self.ends.len() / size_of::<u64>()
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows * size_of::<u64>());
        self.total = if rows == 0 { 0 } else { self.row_end(rows - 1) };
    }

    pub(crate) fn data_bytes(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.ends.capacity()
    }

    /// Writes the ends, spread over rows by `shape`.
    pub(crate) fn write(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        if shape.is_plain() {
            body.put_raw(&self.ends);
            return;
        }
        let mut end = 0;
        for row in 0..self.row_count() {
            let range = self.value_range(row);
            for _ in 0..shape.rows_sharing(row) {
                end += range.len() as u64;
                body.put_u64(end);
            }
        }
    }
}
