//! `LowCardinality(String)`: distinct values once, and an index per row.

use std::hash::BuildHasher;
use std::ops::Range;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::body::BodyWriter;
use crate::bytes::same;
use crate::column::{Column, Strings};
use crate::reuse;
use crate::shape::Shape;

/// Version of the key serialization: the only one there is.
pub(super) const KEYS_VERSION: u64 = 1;

/// Flag beside the index width: the block brings its own keys.
pub(super) const HAS_ADDITIONAL_KEYS: u64 = 1 << 9;

/// A `LowCardinality(String)` column.
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
    /// In their written form.
    written: Strings,
    /// Where the bytes of each lie in it.
    places: Vec<(u32, u32)>,
}

impl Keys {
    #[inline]
    fn get(&self, index: u32) -> &[u8] {
        let (start, end) = self.places[index as usize];
        &self.written.data()[start as usize..end as usize]
    }

    fn push(&mut self, text: &[u8]) -> u32 {
        self.written.push(text);
        let end = self.written.end();
        // Both fit: a batch ends far below 4 GiB.
        self.places.push(((end - text.len()) as u32, end as u32));
        (self.places.len() - 1) as u32
    }

    fn memory_bytes(&self) -> usize {
        self.written.memory_bytes() + self.places.capacity() * size_of::<(u32, u32)>()
    }
}

impl Dictionary {
    /// Appends a value. A value equal to the one before it costs a comparison, others a look-up.
    #[inline]
    pub(crate) fn push(&mut self, text: &[u8]) {
        let index = match self.indexes.last() {
            Some(&last) if same(self.keys.get(last), text) => last,
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

    /// Appends the value with index `index`, which is one of this dictionary's.
    #[inline]
    pub(crate) fn push_index(&mut self, index: u32) {
        self.indexes.push(index);
    }

    /// Appends a value that is probably the one with index `guess`; its index.
    pub(crate) fn push_guessed(&mut self, text: &[u8], guess: u32) -> u32 {
        let index = match self.keys.places.get(guess as usize) {
            Some(_) if same(self.keys.get(guess), text) => guess,
            _ => self.find_or_add(text),
        };
        self.indexes.push(index);
        index
    }

    fn find_or_add(&mut self, text: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(text);
        let Self { keys, table, hasher, .. } = self;
        if let Some(&index) = table.find(hash, |&index| same(keys.get(index), text)) {
            return index;
        }
        let index = keys.push(text);
        table.insert_unique(hash, index, |&index| hasher.hash_one(keys.get(index)));
        index
    }

    /// Distinct values.
    fn keys_len(&self) -> usize {
        self.keys.places.len()
    }

    /// Bytes of one index, as the power of two that the format writes.
    fn width_code(&self) -> u64 {
        match self.keys_len() {
            0..=0x100 => 0,
            0x101..=0x1_0000 => 1,
            _ => 2,
        }
    }

    /// Writes the keys and `rows` indexes, which `indexes` hands over as runs of positions and how
    /// often each run is written.
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
        body.word(width_code | HAS_ADDITIONAL_KEYS);
        body.word(self.keys_len() as u64);
        self.keys.written.write_values(Shape::Rows, body);
        body.word(rows as u64);
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
        /// Longest run that is narrowed once and then repeated.
        const CHUNK: usize = 64;
        let mut chunk = [[0; WIDTH]; CHUNK];
        let mut narrowed = |indexes: &[u32], count: usize, body: &mut BodyWriter| {
            let chunk = &mut chunk[..indexes.len()];
            for (bytes, index) in chunk.iter_mut().zip(indexes) {
                bytes.copy_from_slice(&index.to_le_bytes()[..WIDTH]);
            }
            body.repeat(chunk.as_flattened(), count);
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

impl Column for Dictionary {
    fn len(&self) -> usize {
        self.indexes.len()
    }

    fn clear(&mut self) {
        reuse::clear(&mut self.indexes);
        reuse::clear(&mut self.scratch);
        self.keys.written.clear();
        reuse::clear(&mut self.keys.places);
        let Self { table, .. } = self;
        if reuse::is_wasteful(table.capacity() * size_of::<u32>(), table.len() * size_of::<u32>()) {
            // An outlier's table: made again at the size of the next batch.
            *table = HashTable::new();
        }
        table.clear();
    }

    fn truncate(&mut self, len: usize) {
        // Keys that only the forgotten rows used stay: a key without rows is valid.
        self.indexes.truncate(len);
    }

    fn bytes(&self) -> usize {
        // Nearly all columns have indexes of one byte.
        self.indexes.len() + self.keys.written.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.keys.memory_bytes()
            + self.table.allocation_size()
            + self.indexes.capacity() * size_of::<u32>()
            + self.scratch.capacity()
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        body.word(KEYS_VERSION);
    }

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        let rows = shape.start(self.indexes.len() as u32);
        self.write_runs(rows, body, |write| {
            if shape.is_plain() {
                write(0..self.indexes.len(), 1);
            } else {
                (0..self.indexes.len()).for_each(|at| write(at..at + 1, shape.count(at)));
            }
        });
    }
}
