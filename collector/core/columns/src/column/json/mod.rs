//! The `JSON` type in its FLATTENED form: a list of paths, and for each path a column of values
//! that know their type.
//!
//! Each path stores its rows as runs, so a path costs a few bytes here whether every row has it or
//! only one. The written form has one byte per row and path; a set of blocks bounds that product
//! ([`Json::cell_count`]).

mod arrays;
mod kind;
mod path;
mod write;

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use millrace_wire::WireErrorKind;
use millrace_wire::limits::{ATTRIBUTES, NESTING_DEPTH, RECORD_MEMBERS, WRITTEN_BYTES};
use millrace_wire::otlp::{AnyValue, KeyValue, KeyValueList};
use millrace_wire::protobuf::{Cursor, WireFault};

use crate::body::BodyWriter;
use crate::column::ColumnBuilder;
use crate::format::bytes::is_same_text;
use crate::format::text;
use crate::options::MAX_CELLS;
use crate::reuse;
use crate::shape::ColumnShape;
use kind::JsonKind;
use path::JsonPath;

/// No path: the successor of a new path.
const NO_PATH: u32 = u32::MAX;

/// The version of the JSON and Dynamic serializations: FLATTENED.
const FLATTENED: u64 = 3;

/// The maximum number of paths retained from block to block, used or not: about the number that
/// `max_dynamic_paths` stores separately on the server. Above it, paths without values are dropped
/// when a block is complete.
const RETAINED_PATHS: usize = 1024;

/// The minimum number of rows that a path counts for in cells: a block of few rows ends at 16,384
/// paths, and leaves the rest of [`MAX_PATHS`] to the last record.
const LEAST_ROWS: usize = 1024;

/// The maximum number of paths with values in one block: where a block ends, and as many as one
/// record that passes the edge's check may add: 81,920, at some 300 bytes each 25 MB.
const MAX_PATHS: usize = MAX_CELLS / LEAST_ROWS + RECORD_MEMBERS as usize;

/// The maximum bytes of names from lists in one block: where a block ends (they count as cells),
/// and as many as one request that passes the edge's check may add: 80 MiB.
const MAX_NAMES_BYTES: usize = MAX_CELLS + WRITTEN_BYTES as usize;

/// The maximum bytes of paths' names retained from block to block: 4 MiB, 50 for each of
/// [`MAX_PATHS`]. With more, all are dropped: such long names come from keys repeated for each
/// member of a list.
const RETAINED_NAMES_BYTES: usize = 4 << 20;

pub(crate) struct Json {
    paths: Vec<JsonPath>,
    table: HashTable<u32>,
    hasher: RandomState,
    /// The number of values of the current row.
    position: usize,
    /// Predicts the next path: sets of one kind of record list their keys in one order, and kinds
    /// share parts of it, so the next path is most often the one that last followed the current
    /// one. The fields are the row's first path, its last path so far, and the predicted next path.
    first: u32,
    last: u32,
    guess: u32,
    /// The current row, which is also the number of rows before it.
    row: u32,
    /// The number of paths with a value in this block.
    used: usize,
    /// The approximate bytes of values: a value replaced in its row still counts.
    bytes: usize,
    /// The paths' own part of these bytes.
    path_bytes: usize,
    /// The bytes of the names from lists' members, which repeat the keys of their lists.
    names_bytes: usize,
    nested_depth: u32,
    name: Vec<u8>,
    scratch: Vec<u8>,
}

impl Json {
    /// Creates a column that turns lists inside values into paths down to `nested_depth` levels, at
    /// most [`NESTING_DEPTH`].
    pub(crate) fn new(nested_depth: u32) -> Self {
        Self {
            paths: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::default(),
            position: 0,
            first: NO_PATH,
            last: NO_PATH,
            guess: NO_PATH,
            row: 0,
            used: 0,
            bytes: 0,
            path_bytes: 0,
            names_bytes: 0,
            nested_depth: nested_depth.min(NESTING_DEPTH),
            name: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Starts a row.
    #[inline]
    pub(crate) fn begin_row(&mut self) {
        self.position = 0;
        self.last = NO_PATH;
        self.guess = self.first;
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end_row(&mut self) {
        self.row += 1;
    }

    /// Returns the bytes of all values, each written once. A set's addition depends on the set
    /// alone.
    pub(crate) fn value_bytes(&self) -> usize {
        self.bytes - self.path_bytes
    }

    /// Returns the index cells of the written form: one per row and path. A path on few rows counts
    /// as if it were on [`LEAST_ROWS`].
    #[inline]
    pub(crate) fn cell_count(&self) -> usize {
        self.cells_in(self.row)
    }

    /// Returns the same for sets spread over `rows` rows.
    #[inline]
    pub(crate) fn cells_in(&self, rows: u32) -> usize {
        self.used * (rows as usize).max(LEAST_ROWS) + self.names_bytes
    }

    /// Adds an attribute whose value is a scalar, as nearly all are. It works in place: passing a
    /// value through memory costs a stall, since it is written in pieces and read as a unit.
    #[inline(always)]
    pub(crate) fn add_scalar(&mut self, attribute: KeyValue<'_>) -> Result<(), WireFault> {
        self.put_value(attribute.key, attribute.value, attribute.key)
    }

    /// Adds an attribute to the current row.
    #[inline(never)]
    pub(crate) fn add_attribute(&mut self, attribute: KeyValue<'_>) -> Result<(), WireFault> {
        let KeyValue { key, value } = attribute;
        match value {
            AnyValue::Empty => Ok(()),
            AnyValue::KeyValueList(list) if self.nested_depth > 0 => {
                let mut name = std::mem::take(&mut self.name);
                name.clear();
                name.extend_from_slice(key);
                let result = self.add_members(&mut name, list, 1);
                self.name = name;
                result
            }
            value => self.put_value(key, value, key),
        }
    }

    fn add_members(
        &mut self,
        name: &mut Vec<u8>,
        list: KeyValueList<'_>,
        depth: u32,
    ) -> Result<(), WireFault> {
        let stem = name.len();
        for member in list.values() {
            let KeyValue { key, value } = KeyValue::parse(member?)?;
            name.truncate(stem);
            name.push(b'.');
            name.extend_from_slice(key);
            match value {
                AnyValue::Empty => {}
                AnyValue::KeyValueList(list) if depth < self.nested_depth => {
                    self.add_members(name, list, depth + 1)?;
                }
                value => {
                    let used = self.used;
                    self.put_value(name, value, key)?;
                    if self.used > used {
                        self.record_member(name, key)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the name of a path from a list's member.
    fn record_member(&mut self, name: &[u8], key: &[u8]) -> Result<(), WireFault> {
        let index = self.find_or_add(name);
        self.paths[index as usize].set_member();
        self.names_bytes += name.len();
        if self.names_bytes > MAX_NAMES_BYTES {
            return Err(Cursor::new(key).fault_here(WireErrorKind::TooMuchWritten));
        }
        Ok(())
    }

    /// Sets the value of a path in the current row; a fault is reported at `key`.
    #[inline(always)]
    fn put_value(&mut self, name: &[u8], value: AnyValue<'_>, key: &[u8]) -> Result<(), WireFault> {
        let Some(index) = self.path_index(name) else {
            return Err(Cursor::new(key).fault_here(WireErrorKind::TooManyAttributes));
        };
        let path = &mut self.paths[index as usize];
        if path.is_unused() {
            if self.used >= MAX_PATHS {
                return Err(Cursor::new(key).fault_here(WireErrorKind::TooManyAttributes));
            }
            self.used += 1;
            let path_bytes = JsonPath::LEAST_BYTES + name.len();
            self.path_bytes += path_bytes;
            self.bytes += path_bytes;
        }
        self.bytes += match value {
            AnyValue::String(text) => {
                path.put_string(self.row, text);
                text.len() + 1
            }
            AnyValue::Int(number) => {
                path.put_bits(self.row, JsonKind::Int64, number.cast_unsigned());
                size_of::<u64>()
            }
            AnyValue::Double(number) => {
                path.put_bits(self.row, JsonKind::Float64, number.to_bits());
                size_of::<u64>()
            }
            AnyValue::Bool(truth) => {
                path.put_bool(self.row, truth);
                1
            }
            AnyValue::Array(array) => {
                let before = path.array_bytes();
                path.put_array(self.row, array, &mut self.scratch)?;
                path.array_bytes().saturating_sub(before)
            }
            AnyValue::Bytes(bytes) => {
                self.scratch.clear();
                text::append_base64(bytes, &mut self.scratch);
                path.put_string(self.row, &self.scratch);
                self.scratch.len()
            }
            AnyValue::KeyValueList(_) => {
                self.scratch.clear();
                text::append_json(value, &mut self.scratch)?;
                path.put_string(self.row, &self.scratch);
                self.scratch.len()
            }
            AnyValue::Empty => 0,
        };
        Ok(())
    }

    /// Returns the path `name`; `None` if the row or the block has too many.
    #[inline]
    fn path_index(&mut self, name: &[u8]) -> Option<u32> {
        let position = self.position;
        self.position += 1;
        let index = self.guess;
        match self.paths.get(index as usize) {
            Some(path) if is_same_text(path.name(), name) => {
                self.guess = path.next();
                self.last = index;
                Some(index)
            }
            _ => self.search_path(name, position),
        }
    }

    #[inline(never)]
    fn search_path(&mut self, name: &[u8], position: usize) -> Option<u32> {
        if position >= ATTRIBUTES as usize || self.used >= MAX_PATHS {
            return None;
        }
        let index = self.find_or_add(name);
        match self.paths.get_mut(self.last as usize) {
            Some(last) => last.set_next(index),
            None => self.first = index,
        }
        self.last = index;
        self.guess = self.paths[index as usize].next();
        Some(index)
    }

    fn find_or_add(&mut self, name: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(name);
        if let Some(index) = self.index_of(name, hash) {
            return index;
        }
        let Self { paths, table, hasher, .. } = self;
        let index = paths.len() as u32;
        paths.push(JsonPath::new(name));
        table.insert_unique(hash, index, |&index| hasher.hash_one(paths[index as usize].name()));
        index
    }

    #[inline]
    fn index_of(&self, name: &[u8], hash: u64) -> Option<u32> {
        self.table
            .find(hash, |&index| is_same_text(self.paths[index as usize].name(), name))
            .copied()
    }

    /// Returns the path `name`, if it has values in this block.
    fn find_used(&self, name: &[u8]) -> Option<&JsonPath> {
        let index = self.index_of(name, self.hasher.hash_one(name))?;
        Some(&self.paths[index as usize]).filter(|path| !path.is_unused())
    }

    fn name_lens(&self) -> impl Iterator<Item = usize> {
        self.paths.iter().map(|path| path.name().len())
    }

    /// Drops paths without values, if there are many.
    fn drop_unused(&mut self) {
        if self.name_lens().sum::<usize>() > RETAINED_NAMES_BYTES {
            self.paths = Vec::new();
        } else if self.paths.len() <= RETAINED_PATHS || self.used * 2 > self.paths.len() {
            return;
        }
        self.paths.retain(|path| !path.is_unused());
        (self.first, self.last, self.guess) = (NO_PATH, NO_PATH, NO_PATH);
        self.table.clear();
        self.paths.iter_mut().for_each(|path| path.set_next(NO_PATH));
        for (index, path) in self.paths.iter().enumerate() {
            let hash = self.hasher.hash_one(path.name());
            self.table.insert_unique(hash, index as u32, |&index| {
                self.hasher.hash_one(self.paths[index as usize].name())
            });
        }
    }
}

impl ColumnBuilder for Json {
    fn len(&self) -> usize {
        self.row as usize
    }

    fn clear(&mut self) {
        self.drop_unused();
        self.paths.iter_mut().for_each(JsonPath::clear);
        self.row = 0;
        self.used = 0;
        self.bytes = 0;
        self.path_bytes = 0;
        self.names_bytes = 0;
        reuse::clear(&mut self.name);
        reuse::clear(&mut self.scratch);
    }

    fn truncate(&mut self, len: usize) {
        self.row = len as u32;
        for path in &mut self.paths {
            path.truncate(self.row);
        }
        let used = || self.paths.iter().filter(|path| !path.is_unused());
        self.used = used().count();
        self.bytes = used().map(JsonPath::data_bytes).sum();
        self.path_bytes = 0;
        self.names_bytes = used().map(JsonPath::member_name_bytes).sum();
    }

    fn data_bytes(&self) -> usize {
        self.bytes
    }

    fn memory_bytes(&self) -> usize {
        self.paths.iter().map(JsonPath::memory_bytes).sum::<usize>()
            + self.table.allocation_size()
            + self.name.capacity()
            + self.scratch.capacity()
    }

    fn names_bytes(&self) -> usize {
        self.names_bytes
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        self.write_prefix_as(&[], body);
    }

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        self.write_values_as(&[], shape, body);
    }

    fn as_json(&self) -> Option<&Json> {
        Some(self)
    }
}
