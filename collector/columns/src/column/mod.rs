//! Column builders. Each holds its values in nearly the form they are written in.

mod dictionary;
mod fixed;
mod json;
mod labels;
mod map;
mod numbers;
mod sequence;
mod strings;

pub(crate) use dictionary::Dictionary;
pub(crate) use fixed::Fixed;
pub(crate) use json::Json;
pub(crate) use labels::Labels;
pub(crate) use map::Map;
pub(crate) use numbers::Numbers;
pub(crate) use strings::Strings;

use millrace_schema::Attributes;
use millrace_wire::otlp::{KeyValue, KeyValues};
use millrace_wire::protobuf::Fault;

use crate::body::BodyWriter;
use crate::shape::Shape;

/// What all builders can do. Called per block or per request, never per value.
pub(crate) trait Column {
    /// Values in it.
    fn len(&self) -> usize;
    /// Forgets all values, keeps memory.
    fn clear(&mut self);
    /// Forgets all values but the first `len`. Only called after malformed input.
    fn truncate(&mut self, len: usize);
    /// Bytes of values held.
    fn bytes(&self) -> usize;
    /// Bytes of memory held.
    fn memory_bytes(&self) -> usize;
    /// Bytes of the names that lists in attributes made.
    fn names_bytes(&self) -> usize {
        0
    }
    /// The column as JSON, if it is.
    fn as_json(&self) -> Option<&Json> {
        None
    }
    /// Writes what precedes the values of a column: format versions, and for JSON its paths.
    fn write_prefix(&self, body: &mut BodyWriter);
    /// Writes the values.
    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter);
}

/// A column of attribute sets, in either variant.
pub(crate) enum Sets {
    /// Paths with types.
    Json(Box<Json>),
    /// Keys and texts.
    Map(Box<Map>),
}

impl Sets {
    pub(crate) fn new(attributes: Attributes, nested_depth: u32) -> Self {
        match attributes {
            Attributes::Json => Self::Json(Box::new(Json::new(nested_depth))),
            Attributes::Map => Self::Map(Box::default()),
        }
    }

    /// Appends one value: the set `attributes`.
    #[inline]
    pub(crate) fn push(&mut self, mut attributes: KeyValues<'_>) -> Result<(), Fault> {
        match self {
            Self::Json(json) => {
                json.begin();
                while let Some(attribute) = attributes.next_value()? {
                    match KeyValue::usual(attribute) {
                        Some(attribute) => json.add_scalar(attribute)?,
                        None => json.add(KeyValue::parse(attribute)?)?,
                    }
                }
                json.end();
            }
            Self::Map(map) => {
                while let Some(attribute) = attributes.next_value()? {
                    match KeyValue::usual(attribute) {
                        Some(attribute) => map.add_scalar(attribute)?,
                        None => map.add(KeyValue::parse(attribute)?)?,
                    }
                }
                map.end();
            }
        }
        Ok(())
    }

    /// Appends one value whose attributes `each_attribute` hands over one by one.
    pub(crate) fn push_with<'a>(
        &mut self,
        each_attribute: impl FnOnce(
            &mut dyn FnMut(KeyValue<'a>) -> Result<(), Fault>,
        ) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        match self {
            Self::Json(json) => {
                json.begin();
                each_attribute(&mut |attribute| json.add(attribute))?;
                json.end();
            }
            Self::Map(map) => {
                each_attribute(&mut |attribute| map.add(attribute))?;
                map.end();
            }
        }
        Ok(())
    }

    /// Cells of a column whose sets are spread over `rows` rows.
    #[inline]
    pub(crate) fn shared_cells(&self, rows: u32) -> usize {
        match self {
            Self::Json(json) => json.cells_in(rows),
            Self::Map(_) => 0,
        }
    }

    /// Bytes of all values as they are written once. What a set adds depends on nothing but it.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Self::Json(json) => json.value_bytes(),
            Self::Map(map) => map.value_bytes(),
        }
    }

    /// Cells that the written form needs beyond the values: one per value and JSON path.
    #[inline]
    pub(crate) fn cells(&self) -> usize {
        match self {
            Self::Json(json) => json.cells(),
            Self::Map(_) => 0,
        }
    }

    fn as_column(&self) -> &dyn Column {
        match self {
            Self::Json(json) => json.as_ref(),
            Self::Map(map) => map.as_ref(),
        }
    }

    fn as_column_mut(&mut self) -> &mut dyn Column {
        match self {
            Self::Json(json) => json.as_mut(),
            Self::Map(map) => map.as_mut(),
        }
    }
}

impl Column for Sets {
    fn len(&self) -> usize {
        self.as_column().len()
    }

    fn clear(&mut self) {
        self.as_column_mut().clear();
    }

    fn truncate(&mut self, len: usize) {
        self.as_column_mut().truncate(len);
    }

    fn bytes(&self) -> usize {
        self.as_column().bytes()
    }

    fn memory_bytes(&self) -> usize {
        self.as_column().memory_bytes()
    }

    fn names_bytes(&self) -> usize {
        self.as_column().names_bytes()
    }

    fn as_json(&self) -> Option<&Json> {
        match self {
            Self::Json(json) => Some(json),
            Self::Map(_) => None,
        }
    }

    fn write_prefix(&self, body: &mut BodyWriter) {
        self.as_column().write_prefix(body);
    }

    fn write_values(&self, shape: Shape<'_>, body: &mut BodyWriter) {
        self.as_column().write_values(shape, body);
    }
}
