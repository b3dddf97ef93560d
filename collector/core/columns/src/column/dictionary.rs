//! `LowCardinality(String)`: each distinct value once, and an index per row.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::body::BodyWriter;
use crate::column::{ColumnBuilder, Strings};
use crate::format::bytes::is_same_text;
use crate::reuse;
use crate::shape::ColumnShape;

/// The version of the key serialization; only one exists.
pub(super) const KEYS_VERSION: u64 = 1;

/// The flag next to the index width: the block has its own keys.
pub(super) const HAS_ADDITIONAL_KEYS: u64 = 1 << 9;

#[derive(Default)]
pub(crate) struct Dictionary {
    keys: Keys,
    table: HashTable<u32>,
    hasher: RandomState,
    indexes: Vec<u32>,
    scratch: Vec<u8>,
}

/// Distinct values in order of their first use.
#[derive(Default)]
struct Keys {
    /// The values in their written form.
    written: Strings,
    /// The position of each value's bytes in it.
    ranges: Vec<(u32, u32)>,
}

impl Keys {
    #[inline]
    fn get(&self, index: u32) -> &[u8] {
        let (start, end) = self.ranges[index as usize];
        &self.written.data()[start as usize..end as usize]
    }

    fn push(&mut self, text: &[u8]) -> u32 {
        self.written.push(text);
        let end = self.written.end_offset();
        // Both fit: a batch ends far below 4 GiB.
        self.ranges.push(((end - text.len()) as u32, end as u32));
        (self.ranges.len() - 1) as u32
    }

    fn memory_bytes(&self) -> usize {
        self.written.memory_bytes() + self.ranges.capacity() * size_of::<(u32, u32)>()
    }
}

impl Dictionary {
    /// Appends a value. A value equal to the previous one costs a comparison, others a look-up.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        let index = match self.indexes.last() {
            Some(&last) if is_same_text(self.keys.get(last), text) => last,
            _ => self.find_or_add(text),
        };
        self.indexes.push(index);
    }

    /// Appends a value that `write` appends to a buffer.
    pub(crate) fn push_with<E>(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let result = write(&mut text).map(|()| self.push(&text));
        self.scratch = text;
        result
    }

    /// Appends the value with index `index`, which must belong to this dictionary.
    #[inline]
    pub(crate) fn push_index(&mut self, index: u32) {
        self.indexes.push(index);
    }

    /// Appends a value that probably has index `guess`; returns its index.
    pub(crate) fn push_guessed(&mut self, text: &[u8], guess: u32) -> u32 {
        let index = match self.keys.ranges.get(guess as usize) {
            Some(_) if is_same_text(self.keys.get(guess), text) => guess,
            _ => self.find_or_add(text),
        };
        self.indexes.push(index);
        index
    }

    fn find_or_add(&mut self, text: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(text);
        let Self { keys, table, hasher, .. } = self;
        if let Some(&index) = table.find(hash, |&index| is_same_text(keys.get(index), text)) {
            return index;
        }
        let index = keys.push(text);
        table.insert_unique(hash, index, |&index| hasher.hash_one(keys.get(index)));
        index
    }

    /// Returns the distinct value with index `index`, which must belong to this dictionary.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> &[u8] {
        self.keys.get(index)
    }

    /// Returns the indexes of the values from `first` on.
    #[inline]
    pub(crate) fn indexes_from(&self, first: usize) -> &[u32] {
        &self.indexes[first..]
    }

    /// Returns the same, for reordering.
    pub(crate) fn indexes_from_mut(&mut self, first: usize) -> &mut [u32] {
        &mut self.indexes[first..]
    }

    /// Returns the number of distinct values.
    fn keys_len(&self) -> usize {
        self.keys.ranges.len()
    }

    /// Returns the bytes of one index, as the power of two that the format writes.
    fn width_code(&self) -> u64 {
        match self.keys_len() {
            0..=0x100 => 0,
            0x101..=0x1_0000 => 1,
            _ => 2,
        }
    }

    /// Writes the keys and `rows` indexes. `indexes` passes runs of positions and how often each
    /// run is written.
    pub(crate) fn write_runs(
        &self,
        rows: usize,
        body: &mut BodyWriter,
        indexes: impl FnOnce(&mut dyn FnMut(Range<usize>, usize)),
    ) {
        if rows == 0 {
            return;
        }
        let width_code = self.width_code();
        body.put_u64(width_code | HAS_ADDITIONAL_KEYS);
        body.put_u64(self.keys_len() as u64);
        self.keys.written.write_values(ColumnShape::Rows, body);
        body.put_u64(rows as u64);
        match width_code {
            0 => indexes(&mut |run, count| self.write_indexes::<1>(run, count, body)),
            1 => indexes(&mut |run, count| self.write_indexes::<2>(run, count, body)),
            _ => indexes(&mut |run, count| self.write_indexes::<4>(run, count, body)),
        }
    }

    fn write_indexes<const WIDTH: usize>(
        &self,
        run: Range<usize>,
        count: usize,
        body: &mut BodyWriter,
    ) {
        /// The longest run that is narrowed once and then repeated.
        const CHUNK: usize = 64;
        let mut chunk = [[0; WIDTH]; CHUNK];
        let mut narrowed = |indexes: &[u32], count: usize, body: &mut BodyWriter| {
            let chunk = &mut chunk[..indexes.len()];
            for (bytes, index) in chunk.iter_mut().zip(indexes) {
                bytes.copy_from_slice(&index.to_le_bytes()[..WIDTH]);
            }
            body.put_repeated(chunk.as_flattened(), count);
        };
        let indexes = &self.indexes[run];
        if indexes.len() <= CHUNK {
            narrowed(indexes, count, body);
        } else {
            for _ in 0..count {
                indexes.chunks(CHUNK).for_each(|indexes| narrowed(indexes, 1, body));
            }
        }
    }
}

impl ColumnBuilder for Dictionary {
    fn len(&self) -> usize {
        self.indexes.len()
    }

    fn clear(&mut self) {
        reuse::clear(&mut self.indexes);
        reuse::clear(&mut self.scratch);
        self.keys.written.clear();
        reuse::clear(&mut self.keys.ranges);
        let Self { table, .. } = self;
        if reuse::is_wasteful(table.capacity() * size_of::<u32>(), table.len() * size_of::<u32>()) {
            // The table is an outlier's; the next batch creates it again in its own size.
            *table = HashTable::new();
        }
        table.clear();
    }

    fn truncate(&mut self, len: usize) {
        // Keys that only the removed rows used stay: a key without rows is valid.
        self.indexes.truncate(len);
    }

    fn data_bytes(&self) -> usize {
        // Nearly all columns have one-byte indexes.
        self.indexes.len() + self.keys.written.data_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
            + self.table.allocation_size()
            + self.indexes.capacity() * size_of::<u32>()
            + self.scratch.capacity()
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        body.put_u64(KEYS_VERSION);
    }

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        let rows = shape.start_row(self.indexes.len() as u32);
        self.write_runs(rows, body, |write| {
            if shape.is_plain() {
                write(0..self.indexes.len(), 1);
            } else {
                (0..self.indexes.len()).for_each(|at| write(at..at + 1, shape.rows_sharing(at)));
            }
        });
    }
}
