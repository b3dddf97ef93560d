//! The OpenTelemetry tables as data: names, types, order, keys, indexes and codecs.
//!
//! One definition drives three things that must agree: the DDL (`millrace-ddl`), the column list of
//! every insert, and the column builders (`millrace-columns`). Names and types are those that
//! Rotel, ClickStack and the OpenTelemetry Collector's ClickHouse exporter use, so that dashboards
//! and other writers keep working.
//!
//! This crate holds no SQL text: expressions are an enum ([`Expr`]) and rendering is
//! `millrace-ddl`'s. It has no clock and does no I/O.

mod identifier;
mod kind;
mod layout;
mod reader;
mod reasons;
mod table;
mod tables;
mod types;

pub use identifier::{Identifier, IdentifierError, MAX_IDENTIFIER_BYTES};
pub use kind::TableKind;
pub use layout::{
    AttributeColumn, AttributeIndex, AttributePath, BodyIndex, Compression, Layout, LayoutError,
    MAX_OWN_COLUMNS, MAX_PATH_BYTES, Materialized, Order, OwnColumn, OwnType, Partition, PathError,
    Presence, TypedPath, attribute_column, laid_out,
};
pub use reader::{Computed, Reader};
pub use reasons::{codec_reason, column_reason, index_reason};
pub use table::{Codec, Column, Expr, Index, IndexKind, Origin, Table, View};
pub use tables::{table, tables, trace_id_view};
pub use types::{Attributes, ColumnType};
