//! The `JSON` type in its FLATTENED form: a list of paths, and for each path a column of values
//! that know their type.
//!
//! Rows are noted per path as runs, so a path that every row has costs a few bytes here, and a path
//! that one row has costs a few as well. The written form has one byte per row and path; a set of
//! blocks keeps that product bounded ([`Json::cells`]).

mod arrays;
mod path;

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use millrace_wire::otlp::{AnyValue, KeyValue, KeyValueList};
use millrace_wire::protobuf::Fault;

use crate::body::BodyWriter;
use crate::column::Column;
use crate::shape::Shape;
use crate::text;
use path::{Kind, Path};

/// Version of the JSON and Dynamic serializations: FLATTENED.
const FLATTENED: u64 = 3;

/// Paths kept from block to block, used or not: about what `max_dynamic_paths` keeps apart on the
/// server. Above that, paths without values are dropped when a block is done.
const KEPT_PATHS: usize = 1024;

/// A `JSON` column.
pub(crate) struct Json {
    paths: Vec<Path>,
    table: HashTable<u32>,
    hasher: RandomState,
    /// The path at each position of the last set: sets of one kind of record list their keys in
    /// the same order, so the next key is most often the one that stood there before.
    expected: Vec<u32>,
    position: usize,
    /// Row being filled, which is also the number of rows before it.
    row: u32,
    /// Paths with a value in this block.
    used: usize,
    /// About the bytes of values held: values replaced in their row are not taken off.
    bytes: usize,
    nested_depth: u32,
    name: Vec<u8>,
    scratch: Vec<u8>,
}

impl Json {
    /// A column that turns lists inside values into paths down to `nested_depth` levels.
    pub(crate) fn new(nested_depth: u32) -> Self {
        Self {
            paths: Vec::new(),
            table: HashTable::new(),
            hasher: RandomState::default(),
            expected: Vec::new(),
            position: 0,
            row: 0,
            used: 0,
            bytes: 0,
            nested_depth,
            name: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Starts a row.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.position = 0;
    }

    /// Ends the row.
    #[inline]
    pub(crate) fn end(&mut self) {
        self.row += 1;
    }

    /// Paths with values in this block.
    #[inline]
    pub(crate) fn paths(&self) -> usize {
        self.used
    }

    /// Index cells of the written form: one per row and path.
    #[inline]
    pub(crate) fn cells(&self) -> usize {
        self.used * self.row as usize
    }

    /// Adds an attribute to the row being filled.
    #[inline]
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
            value => self.put(key, value),
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
                value => self.put(name, value)?,
            }
        }
        Ok(())
    }

    /// Sets the value of a path in the row being filled.
    #[inline]
    fn put(&mut self, name: &[u8], value: AnyValue<'_>) -> Result<(), Fault> {
        let index = self.path(name);
        let path = &mut self.paths[index as usize];
        if path.is_unused() {
            self.used += 1;
            self.bytes += Path::LEAST_BYTES + name.len();
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
                let before = path.bytes();
                path.put_array(self.row, array, &mut self.scratch)?;
                path.bytes().saturating_sub(before)
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

    #[inline]
    fn path(&mut self, name: &[u8]) -> u32 {
        let position = self.position;
        self.position += 1;
        if let Some(&index) = self.expected.get(position)
            && self.paths.get(index as usize).is_some_and(|path| path.name() == name)
        {
            return index;
        }
        let index = self.find_or_add(name);
        match self.expected.get_mut(position) {
            Some(expected) => *expected = index,
            // Positions past the first thousand are looked up: no set is that regular.
            None if position < KEPT_PATHS => self.expected.push(index),
            None => {}
        }
        index
    }

    fn find_or_add(&mut self, name: &[u8]) -> u32 {
        let hash = self.hasher.hash_one(name);
        let Self { paths, table, hasher, .. } = self;
        if let Some(&index) = table.find(hash, |&index| paths[index as usize].name() == name) {
            return index;
        }
        let index = paths.len() as u32;
        paths.push(Path::new(name));
        table.insert_unique(hash, index, |&index| hasher.hash_one(paths[index as usize].name()));
        index
    }

    fn used_paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| !path.is_unused())
    }

    /// Drops paths without values, if many have gathered.
    fn drop_unused(&mut self) {
        if self.paths.len() <= KEPT_PATHS || self.used * 2 > self.paths.len() {
            return;
        }
        self.paths.retain(|path| !path.is_unused());
        self.expected.clear();
        self.table.clear();
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
    }

    fn truncate(&mut self, len: usize) {
        self.row = len as u32;
        for path in &mut self.paths {
            path.truncate(self.row);
        }
        self.used = self.used_paths().count();
        self.bytes = self.used_paths().map(Path::bytes).sum();
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

    fn write_prefix(&self, body: &mut BodyWriter) {
        body.word(FLATTENED);
        body.varint(self.used as u64);
        self.used_paths().for_each(|path| body.string(path.name()));
        self.used_paths().for_each(|path| path.write_prefix(body));
    }

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        self.used_paths().for_each(|path| path.write_values(self.row, shape, body));
    }
}
