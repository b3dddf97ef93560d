//! The OpenTelemetry tables as data: names, types, order, keys, indexes and codecs.
//!
//! One definition drives three parts that must agree: the DDL (`millrace-ddl`), the column list of
//! every insert, and the column builders (`millrace-columns`). Names and types are those of Rotel,
//! ClickStack and the OpenTelemetry Collector's ClickHouse exporter, so that dashboards and other
//! writers continue to work.
//!
//! This crate has no SQL text: expressions are an enum ([`Expr`]), which `millrace-ddl` renders. It
//! has no clock and does no I/O.

mod computed;
mod identifier;
mod kind;
mod layout;
mod reader;
mod table;
mod tables;
mod types;

pub use computed::{AttributeColumn, Computed, ComputedType};
pub use identifier::{Identifier, IdentifierError, MAX_IDENTIFIER_BYTES};
pub use kind::TableKind;
pub use layout::{
    AttributeIndex, AttributePath, BodyIndex, ColumnCompression, ComputedColumn, Layout,
    LayoutError, MAX_COMPUTED_COLUMNS, MAX_PATH_BYTES, Materialized, PartitionInterval, PathError,
    Presence, TypedPath, attribute_column, laid_out,
};
pub use reader::Reader;
pub use table::{Codec, Column, Expr, Index, IndexKind, Table, ValueOrigin, View};
pub use tables::{all_tables, build_table, trace_id_view};
pub use types::{AttributeStorage, ColumnType};
