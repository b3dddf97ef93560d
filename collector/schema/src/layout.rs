//! How a signal's tables lie on disk: partitions, order, compression, indexes, columns of a user's
//! own. Data and checks only; `docs/schema.md` has what each choice costs.
//!
//! No choice changes what an insert carries: the columns and types a writer sees are the same in
//! every layout, so that released collectors, Rotel and the OpenTelemetry Collector fit each one.
//!
//! Limits: 32 typed paths and 32 materialized columns a signal; a path of 128 bytes.

use std::fmt;
use std::str::FromStr;

use crate::identifier::Identifier;
use crate::kind::TableKind;
use crate::reader::{Computed, Reader};
use crate::table::{Codec, Expr, Index, IndexKind, Table};
use crate::tables::table;
use crate::types::Attributes;

/// Longest attribute path in bytes. OpenTelemetry's own names stay below 60.
pub const MAX_PATH_BYTES: usize = 128;

/// Typed paths, and materialized columns, of one signal. Each is a column file of its own in every
/// part; the tables have some 25 to begin with.
pub const MAX_OWN_COLUMNS: usize = 32;

/// How the rows of a signal are laid out. The default is what was measured best for all-round use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// For whose queries.
    pub reader: Reader,
    /// How rows are cut into partitions.
    pub partition: Partition,
    /// How rows are sorted inside them.
    pub order: Order,
    /// How columns are compressed.
    pub compression: Compression,
    /// Index of log bodies.
    pub body_index: BodyIndex,
    /// Indexes of attribute keys (and values).
    pub attribute_index: AttributeIndex,
    /// Whether spans and logs have an index of trace ids.
    pub trace_id_index: Presence,
    /// Whether a table of trace ids and its view are kept beside the spans.
    pub trace_lookup: Presence,
    /// Whether a 15-minute roll-up of attribute keys and values is kept beside the table.
    pub rollup: Presence,
    /// Attributes stored as columns of a fixed type inside the JSON column. Where a block has
    /// another type, plain JSON for one, the server casts the whole column: 4 to 7 times the cost
    /// of an insert.
    pub typed_paths: Vec<TypedPath>,
    /// Columns the server computes from attributes at insert.
    pub materialized: Vec<Materialized>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            reader: Reader::default(),
            partition: Partition::default(),
            order: Order::default(),
            compression: Compression::default(),
            body_index: BodyIndex::default(),
            attribute_index: AttributeIndex::default(),
            trace_id_index: Presence::Kept,
            trace_lookup: Presence::Kept,
            rollup: Presence::LeftOut,
            typed_paths: Vec::new(),
            materialized: Vec::new(),
        }
    }
}

/// Whether something optional is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is made and kept.
    Kept,
    /// It is not made.
    LeftOut,
}

/// How rows are cut into partitions. None is finer than a day: a gateway cuts its inserts by the
/// day, and an insert must fall into one partition for deduplication to hold in views too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Partition {
    /// By day: whole days expire at once, as files unlinked.
    #[default]
    Day,
    /// By week, from Monday: for small volumes kept long.
    Week,
    /// By month: for very small volumes.
    Month,
    /// Not at all.
    Whole,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// By service first: a service's rows are near each other, which compresses best and serves
    /// what is asked most.
    #[default]
    ServiceFirst,
    /// By hour, then service: for searches over all services in a short time.
    TimeFirst,
}

/// How columns are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// `ZSTD(1)`, with `Delta` before it where values are near their neighbours.
    #[default]
    Zstd,
    /// `ZSTD(3)`, the same way: smaller, and dearer at every merge.
    ZstdHigher,
    /// `LZ4`, the same way: larger, and cheaper at insert and merge.
    Lz4,
}

/// Index of log bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyIndex {
    /// A bloom filter of words: any server.
    #[default]
    Tokens,
    /// An inverted index of words: exact, from ClickHouse 26.2 without a setting.
    Text,
    /// None: searching reads every body in the time asked for.
    LeftOut,
}

/// Indexes of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttributeIndex {
    /// None.
    LeftOut,
    /// Map: bloom filters of keys and of values, as Rotel and the Collector make them. JSON: none,
    /// for each path is a column of its own.
    #[default]
    Usual,
    /// Bloom filters of keys alone; of a JSON column, of its paths.
    Keys,
    /// Inverted indexes of keys; of a Map's values too.
    Text,
}

/// One of the attribute columns of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeColumn {
    /// Attributes of the resource.
    Resource,
    /// Attributes of the instrumentation scope; spans have none stored.
    Scope,
    /// Attributes of the record itself: span, log record or metric point.
    Record,
}

impl AttributeColumn {
    /// The column's name in a table; `None`: the table has no such column.
    #[must_use]
    pub const fn name(self, kind: TableKind) -> Option<&'static str> {
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

/// The name of an attribute, such as `k8s.pod.name`: letters, digits, `_`, `-`, `.`, `/`, at most
/// [`MAX_PATH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributePath(String);

/// Why an attribute's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "attribute {0:?} is not usable: write letters, digits, '_', '-', '/' and single '.', \
     beginning with a letter, at most {MAX_PATH_BYTES} bytes, such as k8s.pod.name"
)]
pub struct PathError(String);

impl AttributePath {
    /// The name as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AttributePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-/.".contains(&byte);
        let fits = text.len() <= MAX_PATH_BYTES
            && text.starts_with(|first: char| first.is_ascii_alphabetic())
            && text.bytes().all(is_plain)
            && text.split('.').all(|step| !step.is_empty());
        if fits { Ok(Self(text.to_owned())) } else { Err(PathError(text.to_owned())) }
    }
}

impl fmt::Display for AttributePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An attribute stored with a fixed type inside its JSON column. Only texts: with a number type a
/// single record that carries a word there would make the server refuse its whole insert.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypedPath {
    /// The JSON column.
    pub column: AttributeColumn,
    /// The attribute.
    pub path: AttributePath,
    /// Whether its values repeat, as names do, and go into a dictionary.
    pub is_repeating: bool,
}

impl TypedPath {
    /// The type, in the server's spelling.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        if self.is_repeating { "LowCardinality(String)" } else { "String" }
    }
}

/// The type of a column the server computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnType {
    /// `LowCardinality(String)`; empty where the attribute is missing.
    Name,
    /// `String`; empty where the attribute is missing.
    Text,
    /// `Int64`; 0 where it is missing or no number.
    Integer,
    /// `Float64`; 0 where it is missing or no number.
    Float,
    /// `UInt64`; 1 where it is missing, no number, or less.
    Factor,
}

impl OwnType {
    /// The type, in the server's spelling.
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

/// A column the server computes from an attribute at insert, as `SELECT *` leaves it out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Materialized {
    /// The column's name.
    pub name: Identifier,
    /// Where the attribute is.
    pub column: AttributeColumn,
    /// The attribute.
    pub path: AttributePath,
    /// The column's type.
    pub ty: OwnType,
}

/// A column that the server computes from an attribute: a user's own, or one for a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnColumn<'a> {
    /// Name, unquoted. A reader's may hold dots.
    pub name: &'a str,
    /// Where the attribute is.
    pub column: AttributeColumn,
    /// The attribute's name.
    pub path: &'a str,
    /// The column's type.
    pub ty: OwnType,
}

impl<'a> From<&'a Materialized> for OwnColumn<'a> {
    fn from(own: &'a Materialized) -> Self {
        let Materialized { name, column, path, ty } = own;
        Self { name: name.as_str(), column: *column, path: path.as_str(), ty: *ty }
    }
}

impl From<&Computed> for OwnColumn<'_> {
    fn from(computed: &Computed) -> Self {
        let Computed { name, column, path, ty } = *computed;
        Self { name, column, path, ty }
    }
}

/// Why a layout does not fit its signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Too many of something.
    #[error("{field}: {count} are given, at most {MAX_OWN_COLUMNS} are allowed")]
    TooMany {
        /// Which field.
        field: &'static str,
        /// How many there are.
        count: usize,
    },
    /// Typed paths need JSON columns.
    #[error("typedPaths: attributes stored as Map have no typed paths; use JSON, or materialized")]
    TypedPathInMap,
    /// The signal has no such attribute column.
    #[error("{field}: {kind} has no scope attributes; name resource or record attributes")]
    NoSuchAttributes {
        /// Which field.
        field: &'static str,
        /// The table.
        kind: TableKind,
    },
    /// The same name twice, or the name of a column every table has.
    #[error("{field}: {name} is there already; choose another name")]
    NameTaken {
        /// Which field.
        field: &'static str,
        /// The name.
        name: String,
    },
}

impl Layout {
    /// Checks the layout against one of its signal's tables.
    ///
    /// # Errors
    /// What does not fit, by its field.
    pub fn check(&self, kind: TableKind, attributes: Attributes) -> Result<(), LayoutError> {
        let Self { typed_paths, materialized, .. } = self;
        let counts = [("typedPaths", typed_paths.len()), ("materialized", materialized.len())];
        for (field, count) in counts {
            if count > MAX_OWN_COLUMNS {
                return Err(LayoutError::TooMany { field, count });
            }
        }
        if attributes == Attributes::Map && !typed_paths.is_empty() {
            return Err(LayoutError::TypedPathInMap);
        }
        let columns = typed_paths
            .iter()
            .map(|path| ("typedPaths", path.column))
            .chain(materialized.iter().map(|own| ("materialized", own.column)));
        for (field, column) in columns {
            if kind != TableKind::TraceIdTs && column.name(kind).is_none() {
                return Err(LayoutError::NoSuchAttributes { field, kind });
            }
        }
        let mut shape = table(kind, attributes);
        self.reader.adapt(&mut shape);
        self.check_names(&shape)
    }

    fn check_names(&self, shape: &Table) -> Result<(), LayoutError> {
        for (at, path) in self.typed_paths.iter().enumerate() {
            // A path that is also the beginning of another would have to be a text and a group.
            let clashes = |other: &TypedPath| {
                other.column == path.column && overlaps(other.path.as_str(), path.path.as_str())
            };
            if self.typed_paths[..at].iter().any(clashes) {
                let name = path.path.to_string();
                return Err(LayoutError::NameTaken { field: "typedPaths", name });
            }
        }
        for (at, own) in self.materialized.iter().enumerate() {
            let is_repeated = self.materialized[..at].iter().any(|other| other.name == own.name);
            let is_readers = shape.computed.iter().any(|other| other.name == own.name.as_str());
            if is_repeated || is_readers || shape.column(own.name.as_str()).is_some() {
                let name = own.name.to_string();
                return Err(LayoutError::NameTaken { field: "materialized", name });
            }
        }
        Ok(())
    }
}

/// Whether two paths are equal, or one is the other's group.
fn overlaps(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// One table in one attribute variant and layout. The columns that an insert names, and their
/// order, are those of [`table`] in every layout.
#[must_use]
pub fn laid_out(kind: TableKind, attributes: Attributes, layout: &Layout) -> Table {
    let mut shape = table(kind, attributes);
    layout.reader.adapt(&mut shape);
    let day = shape.partition_by;
    shape.partition_by = match (layout.partition, day) {
        (Partition::Day, day) => day,
        (Partition::Week, Expr::ToDate(time)) => Expr::ToMonday(time),
        (Partition::Month, Expr::ToDate(time)) => Expr::ToYearMonth(time),
        (Partition::Week | Partition::Month | Partition::Whole, _) => Expr::Whole,
    };
    if layout.order == Order::TimeFirst && kind != TableKind::TraceIdTs {
        order_by_time(&mut shape);
    }
    for column in &mut shape.columns {
        column.codec = compressed(column.codec, layout.compression);
    }
    lay_indexes(&mut shape, layout);
    shape
}

/// Puts the hour in front of every key.
fn order_by_time(shape: &mut Table) {
    let Some(time) = shape.columns.iter().find_map(|column| {
        let is_time = matches!(column.name, "Timestamp" | "TimeUnix");
        is_time.then_some(column.name)
    }) else {
        return;
    };
    let hour = Expr::ToStartOfHour(time);
    // A reader's order may have it further behind; the server takes no expression twice.
    shape.order_by.retain(|expr| *expr != hour);
    shape.order_by.insert(0, hour);
    if !shape.primary_key.is_empty() {
        shape.primary_key.insert(0, hour);
    }
}

const fn compressed(codec: Codec, compression: Compression) -> Codec {
    match (compression, codec) {
        (Compression::Zstd, codec) | (_, codec @ Codec::Default) => codec,
        (Compression::ZstdHigher, Codec::DeltaZstd { width_bytes }) => {
            Codec::DeltaZstdHigher { width_bytes }
        }
        (Compression::ZstdHigher, _) => Codec::ZstdHigher,
        (Compression::Lz4, Codec::DeltaZstd { width_bytes }) => Codec::DeltaLz4 { width_bytes },
        (Compression::Lz4, _) => Codec::Lz4,
    }
}

fn lay_indexes(shape: &mut Table, layout: &Layout) {
    let kind = shape.kind;
    if kind == TableKind::TraceIdTs {
        return;
    }
    shape.indexes.retain_mut(|index| match (index.expr, index.kind) {
        (Expr::Column("TraceId"), _) => layout.trace_id_index == Presence::Kept,
        (Expr::Column("Body") | Expr::Lower("Body"), _) => match layout.body_index {
            BodyIndex::Tokens => true,
            BodyIndex::Text => {
                index.kind = IndexKind::TextOfWords;
                index.granularity = TEXT_GRANULARITY;
                true
            }
            BodyIndex::LeftOut => false,
        },
        (Expr::MapKeys(_), _) => match layout.attribute_index {
            AttributeIndex::LeftOut => false,
            AttributeIndex::Usual | AttributeIndex::Keys => true,
            AttributeIndex::Text => as_text(index),
        },
        (Expr::MapValues(_), _) => match layout.attribute_index {
            AttributeIndex::LeftOut | AttributeIndex::Keys => false,
            AttributeIndex::Usual => true,
            AttributeIndex::Text => as_text(index),
        },
        _ => true,
    });
    if shape.attributes == Attributes::Json {
        shape.indexes.extend(path_indexes(kind, layout.attribute_index));
    }
}

/// The server's own figure for inverted indexes, which cover whole parts.
const TEXT_GRANULARITY: u32 = 100_000_000;

fn as_text(index: &mut Index) -> bool {
    index.kind = IndexKind::TextOfItems;
    index.granularity = TEXT_GRANULARITY;
    true
}

/// Indexes of the paths of JSON columns.
fn path_indexes(kind: TableKind, wanted: AttributeIndex) -> Vec<Index> {
    let (index_kind, granularity) = match wanted {
        AttributeIndex::LeftOut | AttributeIndex::Usual => return Vec::new(),
        AttributeIndex::Keys => (IndexKind::BloomFilter { false_positives_per_mille: 10 }, 1),
        AttributeIndex::Text => (IndexKind::TextOfItems, TEXT_GRANULARITY),
    };
    [
        (AttributeColumn::Resource, "idx_res_attr_key"),
        (AttributeColumn::Scope, "idx_scope_attr_key"),
        (AttributeColumn::Record, "idx_attr_key"),
    ]
    .into_iter()
    .filter_map(|(column, name)| {
        let expr = Expr::JsonAllPaths(column.name(kind)?);
        Some(Index { name, expr, kind: index_kind, granularity })
    })
    .collect()
}

/// Whether a column holds attributes of its table, as JSON or Map.
#[must_use]
pub fn attribute_column(kind: TableKind, name: &str) -> Option<AttributeColumn> {
    [AttributeColumn::Resource, AttributeColumn::Scope, AttributeColumn::Record]
        .into_iter()
        .find(|column| column.name(kind) == Some(name))
}

#[cfg(test)]
#[path = "../tests/unit/layout.rs"]
mod tests;
