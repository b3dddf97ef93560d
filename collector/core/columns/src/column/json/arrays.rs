//! Arrays as values of a path.

use millrace_wire::otlp::{AnyValue, Array};
use millrace_wire::protobuf::WireFault;

use crate::body::BodyWriter;
use crate::column::json::FLATTENED;
use crate::column::json::kind::JsonKind;
use crate::column::strings::split_strings;
use crate::column::{ColumnBuilder, Strings};
use crate::format::text;
use crate::reuse;
use crate::shape::{ColumnShape, Offsets};

/// The scalar types of elements, in written order.
const SCALARS: [JsonKind; 4] =
    [JsonKind::String, JsonKind::Int64, JsonKind::Float64, JsonKind::Bool];

/// The mark of an element without a value.
const ABSENT: u8 = u8::MAX;

/// Returns the scalar type of an element: none for an empty value, a string for a value that is
/// written as text.
fn scalar_kind(value: AnyValue<'_>) -> Option<JsonKind> {
    match value {
        AnyValue::Empty => None,
        AnyValue::Int(_) => Some(JsonKind::Int64),
        AnyValue::Double(_) => Some(JsonKind::Float64),
        AnyValue::Bool(_) => Some(JsonKind::Bool),
        AnyValue::String(_)
        | AnyValue::Bytes(_)
        | AnyValue::Array(_)
        | AnyValue::KeyValueList(_) => Some(JsonKind::String),
    }
}

/// Returns the stored type of an array, which depends on its elements if they are scalars of one
/// type.
pub(super) fn element_kind(array: Array<'_>) -> Result<JsonKind, WireFault> {
    let mut common = None;
    for element in array.values() {
        let value = AnyValue::parse(element?)?;
        if matches!(value, AnyValue::Array(_) | AnyValue::KeyValueList(_)) {
            return Ok(JsonKind::Mixed);
        }
        match (common, scalar_kind(value)) {
            (_, None) => {}
            (None, kind) => common = kind,
            (Some(one), Some(other)) if one == other => {}
            _ => return Ok(JsonKind::Mixed),
        }
    }
    Ok(match common {
        Some(JsonKind::Int64) => JsonKind::Int64s,
        Some(JsonKind::Float64) => JsonKind::Float64s,
        Some(JsonKind::Bool) => JsonKind::Bools,
        // The server gives an empty array the same type.
        _ => JsonKind::Strings,
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
    fn push(&mut self, value: AnyValue<'_>, scratch: &mut Vec<u8>) -> Result<(), WireFault> {
        match value {
            AnyValue::Empty => {}
            AnyValue::Int(number) => self.int64s.extend_from_slice(&number.to_le_bytes()),
            AnyValue::Double(number) => self.float64s.extend_from_slice(&number.to_le_bytes()),
            AnyValue::Bool(truth) => self.bools.push(u8::from(truth)),
            AnyValue::String(text) => self.strings.push(text),
            AnyValue::Bytes(bytes) => {
                scratch.clear();
                text::append_base64(bytes, scratch);
                self.strings.push(scratch);
            }
            AnyValue::Array(_) | AnyValue::KeyValueList(_) => {
                self.strings.push_with(scratch, |out| text::append_json(value, out))?;
            }
        }
        Ok(())
    }

    /// Appends the default value that a NULL of type `kind` has.
    fn push_default(&mut self, kind: JsonKind) {
        match kind {
            JsonKind::Int64 => self.int64s.extend_from_slice(&[0; 8]),
            JsonKind::Float64 => self.float64s.extend_from_slice(&[0; 8]),
            JsonKind::Bool => self.bools.push(0),
            _ => self.strings.push(&[]),
        }
    }

    fn clear(&mut self) {
        self.strings.clear();
        reuse::clear(&mut self.int64s);
        reuse::clear(&mut self.float64s);
        reuse::clear(&mut self.bools);
    }

    fn truncate(&mut self, kind: JsonKind, len: usize) {
        match kind {
            JsonKind::Int64 => self.int64s.truncate(len * size_of::<i64>()),
            JsonKind::Float64 => self.float64s.truncate(len * size_of::<f64>()),
            JsonKind::Bool => self.bools.truncate(len),
            _ => self.strings.truncate(len),
        }
    }

    fn data_bytes(&self) -> usize {
        self.strings.data_bytes() + self.int64s.len() + self.float64s.len() + self.bools.len()
    }

    fn memory_bytes(&self) -> usize {
        self.strings.memory_bytes()
            + self.int64s.capacity()
            + self.float64s.capacity()
            + self.bools.capacity()
    }

    /// Returns the elements of one type, in their written form.
    fn data(&self, kind: JsonKind) -> &[u8] {
        match kind {
            JsonKind::Int64 => &self.int64s,
            JsonKind::Float64 => &self.float64s,
            JsonKind::Bool => &self.bools,
            _ => self.strings.data(),
        }
    }
}

/// Splits elements of one type after the first `count`.
fn split_elements(data: &[u8], kind: JsonKind, count: usize) -> (&[u8], &[u8]) {
    match kind {
        JsonKind::Int64 | JsonKind::Float64 => data.split_at(count * 8),
        JsonKind::Bool => data.split_at(count),
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
    fn push(
        &mut self,
        kind: JsonKind,
        array: Array<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), WireFault> {
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

    fn row_count(&self) -> usize {
        self.ends.row_count()
    }

    fn clear(&mut self) {
        self.ends.clear();
        reuse::clear(&mut self.nulls);
        self.elements.clear();
    }

    fn truncate(&mut self, kind: JsonKind, rows: usize) {
        if rows < self.ends.row_count() {
            self.ends.truncate(rows);
        }
        let len = self.ends.total() as usize;
        self.nulls.truncate(len);
        self.elements.truncate(kind, len);
    }

    fn data_bytes(&self) -> usize {
        self.ends.data_bytes() + self.nulls.len() + self.elements.data_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.nulls.capacity() + self.elements.memory_bytes()
    }

    fn write(&self, kind: JsonKind, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        self.ends.write(shape, body);
        for row in 0..self.ends.row_count() {
            body.put_repeated(&self.nulls[self.ends.value_range(row)], shape.rows_sharing(row));
        }
        let mut rest = self.elements.data(kind);
        for row in 0..self.ends.row_count() {
            let (elements, after) = split_elements(rest, kind, self.ends.value_range(row).len());
            body.put_repeated(elements, shape.rows_sharing(row));
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
    fn push(&mut self, array: Array<'_>, scratch: &mut Vec<u8>) -> Result<(), WireFault> {
        let before = self.kinds.len();
        for element in array.values() {
            let value = AnyValue::parse(element?)?;
            self.kinds.push(scalar_kind(value).map_or(ABSENT, |kind| kind as u8));
            self.elements.push(value, scratch)?;
        }
        self.ends.push((self.kinds.len() - before) as u64);
        Ok(())
    }

    fn row_count(&self) -> usize {
        self.ends.row_count()
    }

    fn clear(&mut self) {
        self.ends.clear();
        reuse::clear(&mut self.kinds);
        self.elements.clear();
    }

    fn truncate(&mut self, rows: usize) {
        if rows < self.ends.row_count() {
            self.ends.truncate(rows);
        }
        self.kinds.truncate(self.ends.total() as usize);
        for kind in SCALARS {
            self.elements.truncate(kind, count_kind(&self.kinds, kind));
        }
    }

    fn data_bytes(&self) -> usize {
        self.ends.data_bytes() + self.kinds.len() + self.elements.data_bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.ends.memory_bytes() + self.kinds.capacity() + self.elements.memory_bytes()
    }

    fn used_kinds(&self) -> impl Iterator<Item = JsonKind> {
        SCALARS.into_iter().filter(|&kind| !self.elements.data(kind).is_empty())
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        body.put_u64(FLATTENED);
        body.put_varint(self.used_kinds().count() as u64);
        self.used_kinds().for_each(|kind| body.put_string(kind.type_name().as_bytes()));
    }

    fn write(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        self.ends.write(shape, body);
        let absent = self.used_kinds().count() as u8;
        let mut index = [absent; 256];
        for (ordinal, kind) in self.used_kinds().enumerate() {
            index[kind as usize] = ordinal as u8;
        }
        let mut row_index = Vec::new();
        for row in 0..self.ends.row_count() {
            row_index.clear();
            let kinds = &self.kinds[self.ends.value_range(row)];
            row_index.extend(kinds.iter().map(|&kind| index[usize::from(kind)]));
            body.put_repeated(&row_index, shape.rows_sharing(row));
        }
        for kind in self.used_kinds() {
            let mut rest = self.elements.data(kind);
            for row in 0..self.ends.row_count() {
                let elements = count_kind(&self.kinds[self.ends.value_range(row)], kind);
                let (elements, after) = split_elements(rest, kind, elements);
                body.put_repeated(elements, shape.rows_sharing(row));
                rest = after;
            }
        }
    }
}

fn count_kind(kinds: &[u8], kind: JsonKind) -> usize {
    kinds.iter().filter(|&&other| other == kind as u8).count()
}

/// The arrays of a path, by their elements' type.
#[derive(Default)]
pub(super) struct ArrayValues {
    /// One builder per scalar type, in the order of [`JsonKind`].
    plain: [Arrays; 4],
    mixed: MixedArrays,
}

impl ArrayValues {
    pub(super) fn push(
        &mut self,
        kind: JsonKind,
        array: Array<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<(), WireFault> {
        match self.plain.get_mut(plain_index(kind)) {
            Some(arrays) => arrays.push(kind_of_elements(kind), array, scratch),
            None => self.mixed.push(array, scratch),
        }
    }

    pub(super) fn clear(&mut self) {
        self.plain.iter_mut().for_each(Arrays::clear);
        self.mixed.clear();
    }

    /// Writes the prefix of arrays of several types.
    pub(super) fn write_prefix(&self, body: &mut BodyWriter) {
        self.mixed.write_prefix(body);
    }

    pub(super) fn data_bytes(&self) -> usize {
        self.plain.iter().map(Arrays::data_bytes).sum::<usize>() + self.mixed.data_bytes()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.plain.iter().map(Arrays::memory_bytes).sum::<usize>()
            + self.mixed.memory_bytes()
    }

    pub(super) fn row_count(&self, kind: JsonKind) -> usize {
        self.plain.get(plain_index(kind)).map_or_else(|| self.mixed.row_count(), Arrays::row_count)
    }

    pub(super) fn truncate(&mut self, kind: JsonKind, rows: usize) {
        match self.plain.get_mut(plain_index(kind)) {
            Some(arrays) => arrays.truncate(kind_of_elements(kind), rows),
            None => self.mixed.truncate(rows),
        }
    }

    pub(super) fn write(&self, kind: JsonKind, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        match self.plain.get(plain_index(kind)) {
            Some(arrays) => arrays.write(kind_of_elements(kind), shape, body),
            None => self.mixed.write(shape, body),
        }
    }
}

/// Returns the index of an array type among those of one scalar type; out of range for mixed
/// arrays.
const fn plain_index(kind: JsonKind) -> usize {
    (kind as usize).wrapping_sub(JsonKind::Strings as usize)
}

/// Returns the scalar type of an array type's elements.
const fn kind_of_elements(kind: JsonKind) -> JsonKind {
    match kind {
        JsonKind::Int64s => JsonKind::Int64,
        JsonKind::Float64s => JsonKind::Float64,
        JsonKind::Bools => JsonKind::Bool,
        _ => JsonKind::String,
    }
}
