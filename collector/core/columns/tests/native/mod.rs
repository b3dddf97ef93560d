//! A reader of Native blocks, written from the format's description and independent of the
//! builders.
#![allow(dead_code, missing_docs, unreachable_pub)]

mod value;

use std::collections::BTreeMap;

pub use value::Value;

#[derive(Debug)]
pub struct Block {
    pub names: Vec<String>,
    pub types: Vec<String>,
    /// Values by row, then by column.
    pub rows: Vec<Vec<Value>>,
}

/// Reads all blocks of a body.
pub fn blocks(body: &[u8]) -> Vec<Block> {
    let mut reader = Reader { rest: body };
    let mut blocks = Vec::new();
    while !reader.rest.is_empty() {
        blocks.push(reader.block());
    }
    blocks
}

struct Reader<'a> {
    rest: &'a [u8],
}

/// A column's layout, from its prefix.
enum Layout {
    Plain(String),
    LowCardinality,
    Nullable(Box<Layout>),
    Array(Box<Layout>),
    Map(Box<Layout>, Box<Layout>),
    Json(Vec<(Vec<u8>, Layout)>),
    Dynamic(Vec<(String, Layout)>),
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(count);
        self.rest = rest;
        taken
    }

    fn varint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let byte = self.take(1)[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }

    fn bytes(&mut self) -> Vec<u8> {
        let length = self.varint() as usize;
        self.take(length).to_vec()
    }

    fn text(&mut self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    fn block(&mut self) -> Block {
        let (columns, rows) = (self.varint(), self.varint() as usize);
        let mut block =
            Block { names: Vec::new(), types: Vec::new(), rows: vec![Vec::new(); rows] };
        for _ in 0..columns {
            let (name, ty) = (self.text(), self.text());
            let layout = self.prefix(&ty);
            let values = self.values(&layout, rows);
            assert_eq!(values.len(), rows, "{name}");
            block.names.push(name);
            block.types.push(ty);
            for (row, value) in block.rows.iter_mut().zip(values) {
                row.push(value);
            }
        }
        block
    }

    fn prefix(&mut self, ty: &str) -> Layout {
        let inner = |outer: &str| ty.strip_prefix(outer)?.strip_prefix('(')?.strip_suffix(')');
        if let Some(item) = inner("LowCardinality") {
            assert_eq!(item, "String");
            assert_eq!(self.word(), 1, "version of the keys");
            Layout::LowCardinality
        } else if let Some(item) = inner("Array") {
            Layout::Array(Box::new(self.prefix(item)))
        } else if let Some(item) = inner("Nullable") {
            Layout::Nullable(Box::new(self.prefix(item)))
        } else if let Some(pair) = inner("Map") {
            let (key, value) = pair.split_once(", ").unwrap();
            Layout::Map(Box::new(self.prefix(key)), Box::new(self.prefix(value)))
        } else if ty == "JSON" {
            assert_eq!(self.word(), 3, "FLATTENED");
            let names: Vec<Vec<u8>> = (0..self.varint()).map(|_| self.bytes()).collect();
            Layout::Json(names.into_iter().map(|name| (name, self.prefix("Dynamic"))).collect())
        } else if ty == "Dynamic" {
            assert_eq!(self.word(), 3, "FLATTENED");
            let names: Vec<String> = (0..self.varint()).map(|_| self.text()).collect();
            let types = names.into_iter().map(|name| {
                let layout = self.prefix(&name);
                (name, layout)
            });
            Layout::Dynamic(types.collect())
        } else {
            Layout::Plain(ty.to_owned())
        }
    }

    fn values(&mut self, layout: &Layout, rows: usize) -> Vec<Value> {
        match layout {
            Layout::Plain(ty) => (0..rows).map(|_| self.plain(ty)).collect(),
            Layout::LowCardinality => self.low_cardinality(rows),
            Layout::Nullable(inner) => {
                let nulls = self.take(rows);
                let values = self.values(inner, rows);
                let value = |(value, &null)| if null == 1 { Value::Null } else { value };
                values.into_iter().zip(nulls).map(value).collect()
            }
            Layout::Array(inner) => self
                .lists(rows, |reader, total| reader.values(inner, total))
                .into_iter()
                .map(Value::Array)
                .collect(),
            Layout::Map(key, value) => self
                .lists(rows, |reader, total| {
                    let keys = reader.values(key, total);
                    keys.into_iter().zip(reader.values(value, total)).collect()
                })
                .into_iter()
                .map(Value::Map)
                .collect(),
            Layout::Json(paths) => {
                let mut objects = vec![BTreeMap::new(); rows];
                for (name, layout) in paths {
                    let values = self.values(layout, rows);
                    for (object, value) in objects.iter_mut().zip(values) {
                        if let Value::Dynamic(ty, value) = value {
                            object.insert(name.clone(), (ty, *value));
                        }
                    }
                }
                objects.into_iter().map(Value::Json).collect()
            }
            Layout::Dynamic(types) => self.dynamic(types, rows),
        }
    }

    fn lists<T: Clone>(
        &mut self,
        rows: usize,
        read: impl FnOnce(&mut Self, usize) -> Vec<T>,
    ) -> Vec<Vec<T>> {
        let ends: Vec<usize> = (0..rows).map(|_| self.word() as usize).collect();
        let total = ends.last().copied().unwrap_or(0);
        let items = read(self, total);
        assert_eq!(items.len(), total);
        let mut start = 0;
        let list = |end| items[std::mem::replace(&mut start, end)..end].to_vec();
        ends.into_iter().map(list).collect()
    }

    fn dynamic(&mut self, types: &[(String, Layout)], rows: usize) -> Vec<Value> {
        assert!(types.len() < 256);
        let indexes = self.take(rows).to_vec();
        let mut columns: Vec<_> = types
            .iter()
            .enumerate()
            .map(|(index, (_, layout))| {
                let count = indexes.iter().filter(|&&other| usize::from(other) == index).count();
                self.values(layout, count).into_iter()
            })
            .collect();
        indexes
            .into_iter()
            .map(usize::from)
            .map(|index| match types.get(index) {
                Some((ty, _)) => {
                    Value::Dynamic(ty.clone(), Box::new(columns[index].next().unwrap()))
                }
                None => {
                    assert_eq!(index, types.len(), "the mark of absent values");
                    Value::Null
                }
            })
            .collect()
    }

    fn low_cardinality(&mut self, rows: usize) -> Vec<Value> {
        if rows == 0 {
            return Vec::new();
        }
        let flags = self.word();
        assert_eq!(flags & !0x4ff, 1 << 9, "additional keys, and at most a note to update");
        let keys: Vec<Value> = (0..self.word()).map(|_| Value::Text(self.bytes())).collect();
        assert_eq!(self.word() as usize, rows);
        let width = 1 << (flags & 0xff);
        (0..rows)
            .map(|_| {
                let mut index = [0; 8];
                index[..width].copy_from_slice(self.take(width));
                keys[u64::from_le_bytes(index) as usize].clone()
            })
            .collect()
    }

    fn plain(&mut self, ty: &str) -> Value {
        let mut number = |width: usize| {
            let mut bytes = [0; 8];
            bytes[..width].copy_from_slice(self.take(width));
            u64::from_le_bytes(bytes)
        };
        match ty {
            "UInt8" => Value::UInt(number(1)),
            "UInt32" => Value::UInt(number(4)),
            "UInt64" => Value::UInt(number(8)),
            "Int32" => Value::Int(i64::from(number(4) as i32)),
            "Int64" | "DateTime64(9)" => Value::Int(number(8) as i64),
            "Float64" => Value::Float(number(8)),
            "Bool" => Value::Bool(number(1) == 1),
            "String" => Value::Text(self.bytes()),
            other => panic!("type {other}"),
        }
    }
}

/// Decodes the frames of a compressed body, and checks each.
pub fn unframe(mut body: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while !body.is_empty() {
        let (checksum, rest) = body.split_at(16);
        let stored = u32::from_le_bytes(rest[1..5].try_into().unwrap()) as usize;
        let length = i32::from_le_bytes(rest[5..9].try_into().unwrap());
        let (frame, after) = rest.split_at(stored);
        assert_eq!(millrace_columns::frame_checksum(frame), checksum);
        assert!(length as usize <= millrace_columns::FRAME_BYTES);
        match rest[0] {
            0x02 => plain.extend_from_slice(&frame[9..]),
            0x82 => plain.extend(lz4::block::decompress(&frame[9..], Some(length)).unwrap()),
            other => panic!("compression method {other:#x}"),
        }
        body = after;
    }
    plain
}
