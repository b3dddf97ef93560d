//! Arrays as values of a path.

use millrace_wire::otlp::{AnyValue, Array};
use millrace_wire::protobuf::Fault;

use crate::body::BodyWriter;
use crate::column::json::FLATTENED;
use crate::column::json::kind::Kind;
use crate::column::strings::split_strings;
use crate::column::{Column, Strings};
use crate::reuse;
use crate::shape::{Offsets, Shape};
use crate::text;

/// The scalar types of elements, in the order they are written.
const SCALARS: [Kind; 4] = [Kind::String, Kind::Int64, Kind::Float64, Kind::Bool];

/// Mark of an element without a value.
const ABSENT: u8 = u8::MAX;

/// The scalar type of an element; none for an empty value; a string for what is written as text.
fn scalar(value: AnyValue<'_>) -> Option<Kind> {
    match value {
        AnyValue::Empty => None,
        AnyValue::Int(_) => Some(Kind::Int64),
        AnyValue::Double(_) => Some(Kind::Float64),
        AnyValue::Bool(_) => Some(Kind::Bool),
        AnyValue::String(_)
        | AnyValue::Bytes(_)
        | AnyValue::Array(_)
        | AnyValue::KeyValueList(_) => Some(Kind::String),
    }
}

/// The type an array is stored as: by its elements, if they are scalars of one type.
pub(super) fn element_kind(array: Array<'_>) -> Result<Kind, Fault> {
    let mut common = None;
    for element in array.values() {
        let value = AnyValue::parse(element?)?;
        if matches!(value, AnyValue::Array(_) | AnyValue::KeyValueList(_)) {
            return Ok(Kind::Mixed);
        }
        match (common, scalar(value)) {
            (_, None) => {}
            (None, kind) => common = kind,
            (Some(one), Some(other)) if one == other => {}
            _ => return Ok(Kind::Mixed),
        }
    }
    Ok(match common {
        Some(Kind::Int64) => Kind::Int64s,
        Some(Kind::Float64) => Kind::Float64s,
        Some(Kind::Bool) => Kind::Bools,
        // The server types an empty array so as well.
        _ => Kind::Strings,
    })
}

/// Elements by scalar type, in their written form.
#[derive(Default)]
struct Elements {
    strings: Strings,
    int64s: Vec<u8>,
    float64s: Vec<u8>,
    bools: Vec<u8>,
}

impl Elements {
    fn push(&mut self, value: AnyValue<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
        match value {
            AnyValue::Empty => {}
            AnyValue::Int(number) => self.int64s.extend_from_slice(&number.to_le_bytes()),
            AnyValue::Double(number) => self.float64s.extend_from_slice(&number.to_le_bytes()),
            AnyValue::Bool(truth) => self.bools.push(u8::from(truth)),
            AnyValue::String(text) => self.strings.push(text),
            AnyValue::Bytes(bytes) => {
                scratch.clear();
                text::base64(bytes, scratch);
                self.strings.push(scratch);
            }
            AnyValue::Array(_) | AnyValue::KeyValueList(_) => {
                self.strings.push_with(scratch, |out| text::json(value, out))?;
            }
        }
        Ok(())
    }

    /// Appends the default under a NULL of type `kind`.
    fn push_default(&mut self, kind: Kind) {
        match kind {
            Kind::Int64 => self.int64s.extend_from_slice(&[0; 8]),
            Kind::Float64 => self.float64s.extend_from_slice(&[0; 8]),
            Kind::Bool => self.bools.push(0),
            _ => self.strings.push(&[]),
        }
    }

    fn clear(&mut self) {
        self.strings.clear();
        reuse::clear(&mut self.int64s);
        reuse::clear(&mut self.float64s);
        reuse::clear(&mut self.bools);
    }

    fn truncate(&mut self, kind: Kind, len: usize) {
        match kind {
            Kind::Int64 => self.int64s.truncate(len * size_of::<i64>()),
            Kind::Float64 => self.float64s.truncate(len * size_of::<f64>()),
            Kind::Bool => self.bools.truncate(len),
            _ => self.strings.truncate(len),
        }
    }

    fn bytes(&self) -> usize {
        self.strings.bytes() + self.int64s.len() + self.float64s.len() + self.bools.len()
    }

    fn memory_bytes(&self) -> usize {
        self.strings.memory_bytes()
            + self.int64s.capacity()
            + self.float64s.capacity()
            + self.bools.capacity()
    }

    /// The elements of one type, in their written form.
    fn data(&self, kind: Kind) -> &[u8] {
        match kind {
            Kind::Int64 => &self.int64s,
            Kind::Float64 => &self.float64s,
            Kind::Bool => &self.bools,
            _ => self.strings.data(),
        }
    }
}

/// Splits elements of one type after the first `count`.
fn split(data: &[u8], kind: Kind, count: usize) -> (&[u8], &[u8]) {
    match kind {
        Kind::Int64 | Kind::Float64 => data.split_at(count * 8),
        Kind::Bool => data.split_at(count),
        _ => split_strings(data, count),
    }
}

/// Arrays of one scalar type: `Array(Nullable(T))`.
#[derive(Default)]
struct Arrays {
    ends: Offsets,
    nulls: Vec<u8>,
    elements: Elements,
}

impl Arrays {
    fn push(&mut self, kind: Kind, array: Array<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
        let before = self.nulls.len();
        for element in array.values() {
            let value = AnyValue::parse(element?)?;
            let null = matches!(value, AnyValue::Empty);
            self.nulls.push(u8::from(null));
            if null {
                self.elements.push_default(kind);
            } else {
                self.elements.push(value, scratch)?;
            }
        }
        self.ends.push((self.nulls.len() - before) as u64);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.ends.rows()
    }

    fn clear(&mut self) {
        self.ends.clear();
        reuse::clear(&mut self.nulls);
        self.elements.clear();
    }

    fn truncate(&mut self, kind: Kind, rows: usize) {
        if rows < self.ends.rows() {
            self.ends.truncate(rows);
        }
        let len = self.ends.total() as usize;
        self.nulls.truncate(len);
        self.elements.truncate(kind, len);
    }

    fn bytes(&self) -> usize {
        self.ends.bytes() + self.nulls.len() + self.elements.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.nulls.capacity() + self.elements.memory_bytes()
    }

    fn write(&self, kind: Kind, shape: Shape<'_>, body: &mut BodyWriter) {
        self.ends.write(shape, body);
        for row in 0..self.ends.rows() {
            body.repeat(&self.nulls[self.ends.range(row)], shape.count(row));
        }
        let mut rest = self.elements.data(kind);
        for row in 0..self.ends.rows() {
            let (elements, after) = split(rest, kind, self.ends.range(row).len());
            body.repeat(elements, shape.count(row));
            rest = after;
        }
    }
}

/// Arrays of several types: `Array(Dynamic)`.
#[derive(Default)]
struct MixedArrays {
    ends: Offsets,
    /// The type of each element, or [`ABSENT`].
    kinds: Vec<u8>,
    elements: Elements,
}

impl MixedArrays {
    fn push(&mut self, array: Array<'_>, scratch: &mut Vec<u8>) -> Result<(), Fault> {
        let before = self.kinds.len();
        for element in array.values() {
            let value = AnyValue::parse(element?)?;
            self.kinds.push(scalar(value).map_or(ABSENT, |kind| kind as u8));
            self.elements.push(value, scratch)?;
        }
        self.ends.push((self.kinds.len() - before) as u64);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.ends.rows()
    }

    fn clear(&mut self) {
        self.ends.clear();
        reuse::clear(&mut self.kinds);
        self.elements.clear();
    }

    fn truncate(&mut self, rows: usize) {
        if rows < self.ends.rows() {
            self.ends.truncate(rows);
        }
        self.kinds.truncate(self.ends.total() as usize);
        for kind in SCALARS {
            self.elements.truncate(kind, count(&self.kinds, kind));
        }
    }

    fn bytes(&self) -> usize {
        self.ends.bytes() + self.kinds.len() + self.elements.bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.kinds.capacity() + self.elements.memory_bytes()
    }

    fn used(&self) -> impl Iterator<Item = Kind> {
        SCALARS.into_iter().filter(|&kind| !self.elements.data(kind).is_empty())
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        body.word(FLATTENED);
        body.varint(self.used().count() as u64);
        self.used().for_each(|kind| body.string(kind.type_name().as_bytes()));
    }

    fn write(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        self.ends.write(shape, body);
        let absent = self.used().count() as u8;
        let mut index = [absent; 256];
        for (place, kind) in self.used().enumerate() {
            index[kind as usize] = place as u8;
        }
        let mut row_index = Vec::new();
        for row in 0..self.ends.rows() {
            row_index.clear();
            let kinds = &self.kinds[self.ends.range(row)];
            row_index.extend(kinds.iter().map(|&kind| index[usize::from(kind)]));
            body.repeat(&row_index, shape.count(row));
        }
        for kind in self.used() {
            let mut rest = self.elements.data(kind);
            for row in 0..self.ends.rows() {
                let elements = count(&self.kinds[self.ends.range(row)], kind);
                let (elements, after) = split(rest, kind, elements);
                body.repeat(elements, shape.count(row));
                rest = after;
            }
        }
    }
}

fn count(kinds: &[u8], kind: Kind) -> usize {
    kinds.iter().filter(|&&other| other == kind as u8).count()
}

/// The arrays of a path, by what their elements are.
#[derive(Default)]
pub(super) struct ArrayValues {
    /// One builder per scalar type, in the order of [`Kind`].
    plain: [Arrays; 4],
    mixed: MixedArrays,
}

impl ArrayValues {
    pub(super) fn push(
        &mut self,
        kind: Kind,
        array: Array<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        match self.plain.get_mut(plain_index(kind)) {
            Some(arrays) => arrays.push(element(kind), array, scratch),
            None => self.mixed.push(array, scratch),
        }
    }

    pub(super) fn clear(&mut self) {
        self.plain.iter_mut().for_each(Arrays::clear);
        self.mixed.clear();
    }

    /// Writes what precedes arrays of several types.
    pub(super) fn write_prefix(&self, body: &mut BodyWriter) {
        self.mixed.write_prefix(body);
    }

    pub(super) fn bytes(&self) -> usize {
        self.plain.iter().map(Arrays::bytes).sum::<usize>() + self.mixed.bytes()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.plain.iter().map(Arrays::memory_bytes).sum::<usize>()
            + self.mixed.memory_bytes()
    }

    pub(super) fn rows(&self, kind: Kind) -> usize {
        self.plain.get(plain_index(kind)).map_or_else(|| self.mixed.rows(), Arrays::rows)
    }

    pub(super) fn truncate(&mut self, kind: Kind, rows: usize) {
        match self.plain.get_mut(plain_index(kind)) {
            Some(arrays) => arrays.truncate(element(kind), rows),
            None => self.mixed.truncate(rows),
        }
    }

    pub(super) fn write(&self, kind: Kind, shape: Shape<'_>, body: &mut BodyWriter) {
        match self.plain.get(plain_index(kind)) {
            Some(arrays) => arrays.write(element(kind), shape, body),
            None => self.mixed.write(shape, body),
        }
    }
}

/// The place of an array type among those of one scalar type; out of range for mixed arrays.
const fn plain_index(kind: Kind) -> usize {
    (kind as usize).wrapping_sub(Kind::Strings as usize)
}

/// The scalar type of an array type's elements.
const fn element(kind: Kind) -> Kind {
    match kind {
        Kind::Int64s => Kind::Int64,
        Kind::Float64s => Kind::Float64,
        Kind::Bools => Kind::Bool,
        _ => Kind::String,
    }
}
