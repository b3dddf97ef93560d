//! Column builders. Each stores its values in nearly their written form.

mod dictionary;
mod fixed;
mod json;
mod labels;
mod map;
mod numbers;
mod pair_order;
mod sequence;
mod strings;

pub(crate) use dictionary::Dictionary;
pub(crate) use fixed::Fixed;
pub(crate) use json::Json;
pub(crate) use labels::LabelColumn;
pub(crate) use map::Map;
pub(crate) use numbers::Numbers;
pub(crate) use strings::Strings;

use millrace_schema::AttributeStorage;
use millrace_wire::otlp::{KeyValue, KeyValues};
use millrace_wire::protobuf::WireFault;

use crate::body::BodyWriter;
use crate::shape::ColumnShape;

/// The operations of all builders. They are called per block or per request, never per value.
pub(crate) trait ColumnBuilder {
    /// Returns the number of values.
    fn len(&self) -> usize;
    /// Drops all values and retains memory.
    fn clear(&mut self);
    /// Drops all values but the first `len`. Only called after malformed input.
    fn truncate(&mut self, len: usize);
    /// Returns the bytes of values.
    fn data_bytes(&self) -> usize;
    /// Returns the bytes of memory held.
    fn memory_bytes(&self) -> usize;
    /// Returns the bytes of the names from lists in attributes.
    fn names_bytes(&self) -> usize {
        0
    }
    /// Returns the column as JSON, if it is one.
    fn as_json(&self) -> Option<&Json> {
        None
    }
    /// Writes a column's prefix: format versions, and for JSON its paths.
    fn write_prefix(&self, body: &mut BodyWriter);
    /// Writes the values.
    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter);
}

/// A column of attribute sets, in either variant.
pub(crate) enum Sets {
    /// Paths with types.
    Json(Box<Json>),
    /// Keys and texts.
    Map(Box<Map>),
}

impl Sets {
    pub(crate) fn new(attributes: AttributeStorage, nested_depth: u32) -> Self {
        match attributes {
            AttributeStorage::Json => Self::Json(Box::new(Json::new(nested_depth))),
            AttributeStorage::Map => Self::Map(Box::default()),
        }
    }

    /// Returns a column of sets that identify a series: maps have their pairs in the order of their
    /// keys.
    pub(crate) fn of_series(attributes: AttributeStorage, nested_depth: u32) -> Self {
        match attributes {
            AttributeStorage::Json => Self::new(attributes, nested_depth),
            AttributeStorage::Map => Self::Map(Box::new(Map::sorted())),
        }
    }

    /// Appends one value: the set `attributes`.
    #[inline]
    pub(crate) fn push(&mut self, mut attributes: KeyValues<'_>) -> Result<(), WireFault> {
        match self {
            Self::Json(json) => {
                json.begin_row();
                while let Some(attribute) = attributes.next_value()? {
                    match KeyValue::parse_common(attribute) {
                        Some(attribute) => json.add_scalar(attribute)?,
                        None => json.add_attribute(KeyValue::parse(attribute)?)?,
                    }
                }
                json.end_row();
            }
            Self::Map(map) => {
                while let Some(attribute) = attributes.next_value()? {
                    match KeyValue::parse_common(attribute) {
                        Some(attribute) => map.add_scalar(attribute)?,
                        None => map.add_attribute(KeyValue::parse(attribute)?)?,
                    }
                }
                map.end_row();
            }
        }
        Ok(())
    }

    /// Appends one value whose attributes `each_attribute` passes one by one.
    pub(crate) fn push_with<'a>(
        &mut self,
        each_attribute: impl FnOnce(
            &mut dyn FnMut(KeyValue<'a>) -> Result<(), WireFault>,
        ) -> Result<(), WireFault>,
    ) -> Result<(), WireFault> {
        match self {
            Self::Json(json) => {
                json.begin_row();
                each_attribute(&mut |attribute| json.add_attribute(attribute))?;
                json.end_row();
            }
            Self::Map(map) => {
                each_attribute(&mut |attribute| map.add_attribute(attribute))?;
                map.end_row();
            }
        }
        Ok(())
    }

    /// Returns the cells of a column whose sets are spread over `rows` rows.
    #[inline]
    pub(crate) fn shared_cells(&self, rows: u32) -> usize {
        match self {
            Self::Json(json) => json.cells_in(rows),
            Self::Map(_) => 0,
        }
    }

    /// Returns the bytes of all values, each written once. A set's addition depends on the set
    /// alone.
    pub(crate) fn value_bytes(&self) -> usize {
        match self {
            Self::Json(json) => json.value_bytes(),
            Self::Map(map) => map.value_bytes(),
        }
    }

    /// Returns the cells of the written form in addition to the values: one per value and JSON
    /// path.
    #[inline]
    pub(crate) fn cell_count(&self) -> usize {
        match self {
            Self::Json(json) => json.cell_count(),
            Self::Map(_) => 0,
        }
    }

    fn as_column(&self) -> &dyn ColumnBuilder {
        match self {
            Self::Json(json) => json.as_ref(),
            Self::Map(map) => map.as_ref(),
        }
    }

    fn as_column_mut(&mut self) -> &mut dyn ColumnBuilder {
        match self {
            Self::Json(json) => json.as_mut(),
            Self::Map(map) => map.as_mut(),
        }
    }
}

impl ColumnBuilder for Sets {
    fn len(&self) -> usize {
        self.as_column().len()
    }

    fn clear(&mut self) {
        self.as_column_mut().clear();
    }

    fn truncate(&mut self, len: usize) {
        self.as_column_mut().truncate(len);
    }

    fn data_bytes(&self) -> usize {
        self.as_column().data_bytes()
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

    fn write_values(&self, shape: ColumnShape<'_>, body: &mut BodyWriter) {
        self.as_column().write_values(shape, body);
    }
}
