//! Column types: the part of ClickHouse's type system that the tables use.

use std::fmt;

/// How attributes are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AttributeStorage {
    /// The `JSON` type: values retain their types, each key is a separate subcolumn. It requires
    /// ClickHouse 25.6.
    Json,
    /// `Map(LowCardinality(String), String)`: every value as text. For any server, and for readers
    /// of the OpenTelemetry Collector's tables.
    #[default]
    Map,
}

impl AttributeStorage {
    /// Returns the type of an attribute column in this variant.
    #[must_use]
    pub const fn column_type(self) -> ColumnType {
        match self {
            Self::Json => ColumnType::Json,
            Self::Map => ColumnType::Map,
        }
    }
}

/// The type of a column. [`fmt::Display`] writes ClickHouse's own spelling, which also appears in a
/// Native block's header and in `system.columns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// `UInt8`
    UInt8,
    /// `UInt32`
    UInt32,
    /// `UInt64`
    UInt64,
    /// `Int32`
    Int32,
    /// `Float64`
    Float64,
    /// `Bool`
    Bool,
    /// `DateTime`: seconds since 1970, 32 bits.
    DateTime,
    /// `DateTime64(9)`: nanoseconds since 1970, signed 64 bits.
    DateTime64,
    /// `String`: any bytes.
    String,
    /// `LowCardinality(String)`: a dictionary and indexes.
    LowCardinalityString,
    /// `JSON`, with the server's defaults for dynamic paths and types.
    Json,
    /// `Map(LowCardinality(String), String)`
    Map,
    /// `Map(LowCardinality(String), LowCardinality(String))`: values are stored in dictionaries.
    /// Writers send a [`Self::Map`], which the server converts.
    DictionaryMap,
    /// `Array(T)`. A Nested column's parts are arrays of equal length whose names share a prefix.
    Array(&'static ColumnType),
}

impl fmt::Display for ColumnType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::UInt8 => "UInt8",
            Self::UInt32 => "UInt32",
            Self::UInt64 => "UInt64",
            Self::Int32 => "Int32",
            Self::Float64 => "Float64",
            Self::Bool => "Bool",
            Self::DateTime => "DateTime",
            Self::DateTime64 => "DateTime64(9)",
            Self::String => "String",
            Self::LowCardinalityString => "LowCardinality(String)",
            Self::Json => "JSON",
            Self::Map => "Map(LowCardinality(String), String)",
            Self::DictionaryMap => "Map(LowCardinality(String), LowCardinality(String))",
            Self::Array(item) => return write!(formatter, "Array({item})"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guarantee: types with parameters have ClickHouse's own spelling, spaces included.
    #[test]
    fn types_are_spelled_as_the_server_spells_them() {
        assert_eq!(ColumnType::Map.to_string(), "Map(LowCardinality(String), String)");
        let dictionaries = "Map(LowCardinality(String), LowCardinality(String))";
        assert_eq!(ColumnType::DictionaryMap.to_string(), dictionaries);
        assert_eq!(ColumnType::Array(&ColumnType::DateTime64).to_string(), "Array(DateTime64(9))");
        assert_eq!(AttributeStorage::Json.column_type().to_string(), "JSON");
    }
}
