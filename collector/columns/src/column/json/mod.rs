//! The `JSON` type in its FLATTENED form: a list of paths, and for each path a column of values
//! that know their type.
//!
//! Rows are noted per path as runs, so a path that every row has costs a few bytes here, and a path
//! that one row has costs a few as well. The written form has one byte per row and path; a set of
//! blocks keeps that product bounded ([`Json::cells`]).

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
use millrace_wire::protobuf::{Cursor, Fault};

use crate::body::BodyWriter;
use crate::bytes::same;
use crate::column::Column;
use crate::options::MAX_CELLS;
use crate::reuse;
use crate::shape::Shape;
use crate::text;
use kind::Kind;
use path::Path;

/// No path: what follows one that is new.
const NO_PATH: u32 = u32::MAX;

/// Version of the JSON and Dynamic serializations: FLATTENED.
const FLATTENED: u64 = 3;

/// Paths kept from block to block, used or not: about what `max_dynamic_paths` keeps apart on the
/// server. Above that, paths without values are dropped when a block is done.
const KEPT_PATHS: usize = 1024;

/// Rows that a path counts for at least when cells are counted: a block without many rows ends
/// at 16,384 paths, and leaves the rest of [`MAX_PATHS`] to the last record.
const LEAST_ROWS: usize = 1024;

/// Most paths with values in one block: what a block ends at, and as many as one record that passes
/// the edge's check may bring to it: 81,920, at some 300 bytes each 25 MB.
const MAX_PATHS: usize = MAX_CELLS / LEAST_ROWS + RECORD_MEMBERS as usize;

/// Most bytes of names that lists made in one block: what a block ends at (they count as cells),
/// and as many as one request that passes the edge's check may bring: 80 MiB.
const MAX_NAMES_BYTES: usize = MAX_CELLS + WRITTEN_BYTES as usize;

/// Bytes of paths' names kept from block to block: 4 MiB, 50 for each of [`MAX_PATHS`]. With more
/// all are forgotten: names that long come from keys repeated for each member of a list.
const KEPT_NAMES_BYTES: usize = 4 << 20;

/// A `JSON` column.
pub(crate) struct Json {
    paths: Vec<Path>,
    table: HashTable<u32>,
    hasher: RandomState,
    /// Values of the row being filled.
    position: usize,
    /// Which path follows which: sets of one kind of record list their keys in one order, and kinds
    /// share parts of it, so the next path is most often what followed this one before. What a row
    /// began with, the last path of this row, and what is guessed to follow it.
    first: u32,
    last: u32,
    guess: u32,
    /// Row being filled, which is also the number of rows before it.
    row: u32,
    /// Paths with a value in this block.
    used: usize,
    /// About the bytes of values held: values replaced in their row are not taken off.
    bytes: usize,
    /// What of them is for the paths themselves.
    path_bytes: usize,
    /// Bytes of the names that lists' members made: keys of the lists around them repeated.
    names_bytes: usize,
    nested_depth: u32,
    name: Vec<u8>,
    scratch: Vec<u8>,
}

impl Json {
    /// A column that turns lists inside values into paths down to `nested_depth` levels, at most
    /// [`NESTING_DEPTH`].
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
    pub(crate) fn begin(&mut self) {
        self.position = 0;
        self.last = NO_PATH;
        self.guess = self.first;
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.row += 1;
    }

    /// Bytes of all values as they are written once. What a set adds depends on nothing but it.
    pub(crate) fn value_bytes(&self) -> usize {
        self.bytes - self.path_bytes
    }

    /// Index cells of the written form: one per row and path. Paths on few rows count as much as
    /// those on [`LEAST_ROWS`].
    #[inline]
    pub(crate) fn cells(&self) -> usize {
        self.cells_in(self.row)
    }

    /// The same where the sets are spread over `rows` rows.
    #[inline]
    pub(crate) fn cells_in(&self, rows: u32) -> usize {
        self.used * (rows as usize).max(LEAST_ROWS) + self.names_bytes
    }

    /// Adds an attribute whose value is a scalar, which nearly all are. In place: a value handed
    /// over in memory costs a stall, as it is written in pieces and read as a whole.
    #[inline(always)]
    pub(crate) fn add_scalar(&mut self, attribute: KeyValue<'_>) -> Result<(), Fault> {
        self.put(attribute.key, attribute.value, attribute.key)
    }

    /// Adds an attribute to the row being filled.
    #[inline(never)]
    pub(crate) fn add(&mut self, attribute: KeyValue<'_>) -> Result<(), Fault> {
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
            value => self.put(key, value, key),
        }
    }

    fn add_members(
        &mut self,
        name: &mut Vec<u8>,
        list: KeyValueList<'_>,
        depth: u32,
    ) -> Result<(), Fault> {
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
                    self.put(name, value, key)?;
                    if self.used > used {
                        self.note_member(name, key)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Counts the name of a path that a list's member made.
    fn note_member(&mut self, name: &[u8], key: &[u8]) -> Result<(), Fault> {
        let index = self.find_or_add(name);
        self.paths[index as usize].set_member();
        self.names_bytes += name.len();
        if self.names_bytes > MAX_NAMES_BYTES {
            return Err(Cursor::new(key).fault(WireErrorKind::TooMuchWritten));
        }
        Ok(())
    }

    /// Sets the value of a path in the row being filled; `key` is where a fault is reported.
    #[inline(always)]
    fn put(&mut self, name: &[u8], value: AnyValue<'_>, key: &[u8]) -> Result<(), Fault> {
        let Some(index) = self.path(name) else {
            return Err(Cursor::new(key).fault(WireErrorKind::TooManyAttributes));
        };
        let path = &mut self.paths[index as usize];
        if path.is_unused() {
            if self.used >= MAX_PATHS {
                return Err(Cursor::new(key).fault(WireErrorKind::TooManyAttributes));
            }
            self.used += 1;
            let path_bytes = Path::LEAST_BYTES + name.len();
            self.path_bytes += path_bytes;
            self.bytes += path_bytes;
        }
        self.bytes += match value {
            AnyValue::String(text) => {
                path.put_string(self.row, text);
                text.len() + 1
            }
            AnyValue::Int(number) => {
                path.put_word(self.row, Kind::Int64, number.cast_unsigned());
                size_of::<u64>()
            }
            AnyValue::Double(number) => {
                path.put_word(self.row, Kind::Float64, number.to_bits());
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
                text::base64(bytes, &mut self.scratch);
                path.put_string(self.row, &self.scratch);
                self.scratch.len()
            }
            AnyValue::KeyValueList(_) => {
                self.scratch.clear();
                text::json(value, &mut self.scratch)?;
                path.put_string(self.row, &self.scratch);
                self.scratch.len()
            }
            AnyValue::Empty => 0,
        };
        Ok(())
    }

    /// The path `name`; none if the row or the block has too many.
    #[inline]
    fn path(&mut self, name: &[u8]) -> Option<u32> {
        let position = self.position;
        self.position += 1;
        let index = self.guess;
        match self.paths.get(index as usize) {
            Some(path) if same(path.name(), name) => {
                self.guess = path.next();
                self.last = index;
                Some(index)
            }
            _ => self.search(name, position),
        }
    }

    #[inline(never)]
    fn search(&mut self, name: &[u8], position: usize) -> Option<u32> {
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
        paths.push(Path::new(name));
        table.insert_unique(hash, index, |&index| hasher.hash_one(paths[index as usize].name()));
        index
    }

    #[inline]
    fn index_of(&self, name: &[u8], hash: u64) -> Option<u32> {
        self.table.find(hash, |&index| same(self.paths[index as usize].name(), name)).copied()
    }

    /// The path `name`, if it has values in this block.
    fn find(&self, name: &[u8]) -> Option<&Path> {
        let index = self.index_of(name, self.hasher.hash_one(name))?;
        Some(&self.paths[index as usize]).filter(|path| !path.is_unused())
    }

    fn names(&self) -> impl Iterator<Item = usize> {
        self.paths.iter().map(|path| path.name().len())
    }

    /// Drops paths without values, if many have gathered.
    fn drop_unused(&mut self) {
        if self.names().sum::<usize>() > KEPT_NAMES_BYTES {
            self.paths = Vec::new();
        } else if self.paths.len() <= KEPT_PATHS || self.used * 2 > self.paths.len() {
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

impl Column for Json {
    fn len(&self) -> usize {
        self.row as usize
    }

    fn clear(&mut self) {
        self.drop_unused();
        self.paths.iter_mut().for_each(Path::clear);
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
        self.bytes = used().map(Path::bytes).sum();
        self.path_bytes = 0;
        self.names_bytes = used().map(Path::member_name_bytes).sum();
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn memory_bytes(&self) -> usize {
        self.paths.iter().map(Path::memory_bytes).sum::<usize>()
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

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        self.write_values_as(&[], shape, body);
    }

    fn as_json(&self) -> Option<&Json> {
        Some(self)
    }
}
