//! Columns that the server computes from an attribute.

use crate::kind::TableKind;

/// One of the attribute columns of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeColumn {
    /// Attributes of the resource.
    Resource,
    /// Attributes of the instrumentation scope; the spans' table doesn't store them.
    Scope,
    /// Attributes of the record itself: span, log record or metric point.
    Record,
}

impl AttributeColumn {
    /// Returns the column's name in a table; `None`: the table has no such column.
    #[must_use]
    pub const fn column_name(self, kind: TableKind) -> Option<&'static str> {
        match (self, kind) {
            (_, TableKind::TraceIdTs) | (Self::Scope, TableKind::Traces) => None,
            (Self::Resource, _) => Some("ResourceAttributes"),
            (Self::Scope, _) => Some("ScopeAttributes"),
            (Self::Record, TableKind::Traces) => Some("SpanAttributes"),
            (Self::Record, TableKind::Logs) => Some("LogAttributes"),
            (Self::Record, _) => Some("Attributes"),
        }
    }
}

/// The type of a column the server computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ComputedType {
    /// `LowCardinality(String)`; empty where the attribute is missing.
    Name,
    /// `String`; empty where the attribute is missing.
    Text,
    /// `Int64`; 0 where the attribute is missing or not a number.
    Integer,
    /// `Float64`; 0 where the attribute is missing or not a number.
    Float,
    /// `UInt64`; 1 where the attribute is missing, not a number, or less than 1.
    Factor,
}

impl ComputedType {
    /// Returns the type in the server's spelling.
    #[must_use]
    pub const fn type_name(self) -> &'static str {
        match self {
            Self::Name => "LowCardinality(String)",
            Self::Text => "String",
            Self::Integer => "Int64",
            Self::Float => "Float64",
            Self::Factor => "UInt64",
        }
    }
}

/// A column that the server computes from an attribute for a reader; `SELECT *` omits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Computed {
    /// Name, unquoted. It may have dots in it.
    pub name: &'static str,
    /// The attribute's column.
    pub column: AttributeColumn,
    /// The attribute's name.
    pub path: &'static str,
    /// The column's type.
    pub ty: ComputedType,
}
