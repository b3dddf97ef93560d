//! The storage layout of a signal's tables: partitions, compression, indexes, the user's own
//! columns. Data and checks only; `docs/schema.md` has the cost of each choice.
//!
//! No choice changes an insert: the columns and types that a writer sends are the same in every
//! layout, so that released collectors, Rotel and the OpenTelemetry Collector fit each one.
//!
//! Limits: 32 typed paths and 32 materialized columns a signal; a path of 128 bytes.

use std::fmt;
use std::str::FromStr;

use crate::computed::{AttributeColumn, Computed, ComputedType};
use crate::identifier::Identifier;
use crate::kind::TableKind;
use crate::reader::Reader;
use crate::table::{Codec, Expr, Index, IndexKind, Table};
use crate::tables::build_table;
use crate::tables::parts::bloom_index;
use crate::types::{AttributeStorage, ColumnType};

/// The longest attribute path in bytes. OpenTelemetry's own names stay below 60.
pub const MAX_PATH_BYTES: usize = 128;

/// The maximum number of a signal's typed paths, and of its materialized columns. Each is a
/// separate column file in every part; the tables already have some 25.
pub const MAX_COMPUTED_COLUMNS: usize = 32;

/// The layout of a signal's rows. The default measured best for all-round use.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The reader that queries the tables.
    pub reader: Reader,
    /// How rows are cut into partitions.
    pub partition: PartitionInterval,
    /// How columns are compressed; `None`: with ZSTD in new tables, and unchanged in existing ones.
    pub compression: Option<ColumnCompression>,
    /// The index of log bodies.
    pub body_index: BodyIndex,
    /// The indexes of attribute keys (and values).
    pub attribute_index: AttributeIndex,
    /// Whether spans and logs have an index of trace ids.
    pub trace_id_index: Presence,
    /// Whether a table of trace ids and its view exist alongside the spans.
    pub trace_lookup: Presence,
    /// Whether a 15-minute roll-up of attribute keys and values exists alongside the table.
    pub rollup: Presence,
    /// Attributes stored as columns of a fixed type inside the JSON column. Where a block has
    /// another type, such as plain JSON, the server casts the complete column: 4 to 7 times the
    /// cost of an insert.
    pub typed_paths: Vec<TypedPath>,
    /// Columns that the server computes from attributes at insert.
    pub materialized: Vec<Materialized>,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            reader: Reader::default(),
            partition: PartitionInterval::default(),
            compression: None,
            body_index: BodyIndex::default(),
            attribute_index: AttributeIndex::default(),
            trace_id_index: Presence::Included,
            trace_lookup: Presence::Included,
            rollup: Presence::Omitted,
            typed_paths: Vec::new(),
            materialized: Vec::new(),
        }
    }
}

/// Whether something optional exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Presence {
    /// It is created and maintained.
    Included,
    /// It is not created.
    Omitted,
}

/// How rows are cut into partitions. None is finer than a day: a gateway cuts its inserts by the
/// day, and deduplication in views requires that an insert falls into one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PartitionInterval {
    /// By day: a day's rows expire together, by unlinking files.
    #[default]
    Day,
    /// By month: for small volumes with long retention.
    Month,
}

/// How columns are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ColumnCompression {
    /// `ZSTD(1)`, with `Delta` before it where values are close to their neighbours.
    #[default]
    Zstd,
    /// `ZSTD(3)`, with the same `Delta`: smaller, but dearer at every merge.
    ZstdHigher,
}

/// Index of log bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BodyIndex {
    /// A bloom filter of words: any server.
    #[default]
    Tokens,
    /// An inverted index of words: exact, from ClickHouse 26.2 without a setting.
    Text,
    /// None: a search reads every body in its time range.
    None,
}

/// Indexes of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum AttributeIndex {
    /// None.
    None,
    /// Map: bloom filters of the values of resources and of records: a pod's name is found without
    /// reading all. Keys, and the values of scopes, are the same in most granules, so filters of
    /// them would skip nothing. JSON: none, since each path is a separate column.
    #[default]
    Default,
    /// Inverted indexes of keys; of a Map's values too. Of a JSON column, of its paths.
    Text,
}

/// The name of an attribute, such as `k8s.pod.name`: letters, digits, `_`, `-`, `.`, `/`, at most
/// [`MAX_PATH_BYTES`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributePath(String);

/// An attribute's name was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "attribute {0:?} is not usable: write letters, digits, '_', '-', '/' and single '.', \
     beginning with a letter, at most {MAX_PATH_BYTES} bytes, such as k8s.pod.name"
)]
pub struct PathError(String);

impl AttributePath {
    /// Returns the name as written.
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

/// An attribute stored with a fixed type inside its JSON column. Only text types are offered: with
/// a number type, one record with a word there would make the server refuse its complete insert.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypedPath {
    /// The JSON column.
    pub column: AttributeColumn,
    /// The attribute.
    pub path: AttributePath,
    /// Whether its values repeat, like names, and so go into a dictionary.
    pub is_repeating: bool,
}

impl TypedPath {
    /// Returns the type in the server's spelling.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        if self.is_repeating { "LowCardinality(String)" } else { "String" }
    }
}

/// A column that the server computes from an attribute at insert; `SELECT *` omits it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Materialized {
    /// The column's name.
    pub name: Identifier,
    /// The attribute's column.
    pub column: AttributeColumn,
    /// The attribute.
    pub path: AttributePath,
    /// The type of the materialized column.
    pub ty: ComputedType,
}

/// A column that the server computes from an attribute, for the user or a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComputedColumn<'a> {
    /// Name, unquoted. A reader's column may have dots in it.
    pub name: &'a str,
    /// The attribute's column.
    pub column: AttributeColumn,
    /// The attribute's name.
    pub path: &'a str,
    /// The column's type.
    pub ty: ComputedType,
}

impl<'a> From<&'a Materialized> for ComputedColumn<'a> {
    fn from(own: &'a Materialized) -> Self {
        let Materialized { name, column, path, ty } = own;
        Self { name: name.as_str(), column: *column, path: path.as_str(), ty: *ty }
    }
}

impl From<&Computed> for ComputedColumn<'_> {
    fn from(computed: &Computed) -> Self {
        let Computed { name, column, path, ty } = *computed;
        Self { name, column, path, ty }
    }
}

/// Why a layout does not fit its signal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// A field has too many entries.
    #[error("{field}: {count} are given, at most {MAX_COMPUTED_COLUMNS} are allowed")]
    TooMany {
        /// The field.
        field: &'static str,
        /// The number of entries.
        count: usize,
    },
    /// Typed paths need JSON columns.
    #[error("typedPaths: attributes stored as Map have no typed paths; use JSON, or materialized")]
    TypedPathInMap,
    /// The signal has no such attribute column.
    #[error("{field}: {kind} has no scope attributes; name resource or record attributes")]
    NoSuchAttributes {
        /// The field.
        field: &'static str,
        /// The table's kind.
        kind: TableKind,
    },
    /// The name is duplicate, or belongs to a column that every table has.
    #[error("{field}: {name} already exists; choose another name")]
    NameInUse {
        /// The field.
        field: &'static str,
        /// The refused name.
        name: String,
    },
}

impl Layout {
    /// Checks the layout against one of its signal's tables.
    ///
    /// # Errors
    /// The choice that does not fit, by its field.
    pub fn check_table(
        &self,
        kind: TableKind,
        attributes: AttributeStorage,
    ) -> Result<(), LayoutError> {
        let Self { typed_paths, materialized, .. } = self;
        let counts = [("typedPaths", typed_paths.len()), ("materialized", materialized.len())];
        for (field, count) in counts {
            if count > MAX_COMPUTED_COLUMNS {
                return Err(LayoutError::TooMany { field, count });
            }
        }
        if attributes == AttributeStorage::Map && !typed_paths.is_empty() {
            return Err(LayoutError::TypedPathInMap);
        }
        let columns = typed_paths
            .iter()
            .map(|path| ("typedPaths", path.column))
            .chain(materialized.iter().map(|own| ("materialized", own.column)));
        for (field, column) in columns {
            if kind != TableKind::TraceIdTs && column.column_name(kind).is_none() {
                return Err(LayoutError::NoSuchAttributes { field, kind });
            }
        }
        let mut shape = build_table(kind, attributes);
        self.reader.adapt_table(&mut shape);
        self.check_names(&shape)
    }

    fn check_names(&self, shape: &Table) -> Result<(), LayoutError> {
        for (at, path) in self.typed_paths.iter().enumerate() {
            // A path that is also the start of another would have to be both a text and a group.
            let clashes = |other: &TypedPath| {
                other.column == path.column
                    && paths_overlap(other.path.as_str(), path.path.as_str())
            };
            if self.typed_paths[..at].iter().any(clashes) {
                let name = path.path.to_string();
                return Err(LayoutError::NameInUse { field: "typedPaths", name });
            }
        }
        for (at, own) in self.materialized.iter().enumerate() {
            let is_repeated = self.materialized[..at].iter().any(|other| other.name == own.name);
            let is_readers = shape.computed.iter().any(|other| other.name == own.name.as_str());
            if is_repeated || is_readers || shape.column(own.name.as_str()).is_some() {
                let name = own.name.to_string();
                return Err(LayoutError::NameInUse { field: "materialized", name });
            }
        }
        Ok(())
    }
}

/// Returns whether two paths are equal, or one is the other's group.
fn paths_overlap(one: &str, other: &str) -> bool {
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    long.strip_prefix(short).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns one table in one attribute variant and layout. In every layout an insert's columns, and
/// their order, are those of [`table`].
#[must_use]
pub fn laid_out(kind: TableKind, attributes: AttributeStorage, layout: &Layout) -> Table {
    let mut shape = build_table(kind, attributes);
    layout.reader.adapt_table(&mut shape);
    if let (PartitionInterval::Month, Expr::ToDate(time)) = (layout.partition, shape.partition_by) {
        shape.partition_by = Expr::ToYearMonth(time);
    }
    for column in &mut shape.columns {
        column.codec = codec_for(column.codec, layout.compression.unwrap_or_default());
    }
    lay_indexes(&mut shape, layout);
    if shape.kind.has_points() && layout.attribute_index != AttributeIndex::Text {
        store_values_in_dictionaries(&mut shape);
    }
    shape
}

/// Stores the attributes' values in dictionaries. Those of points repeat in every series' next
/// point, so that merges, bytes and most queries are cheaper. `map['key'] = 'value'` then no longer
/// uses an index of the values, because the server compares a cast: the wrong choice for spans and
/// logs, where one pod or user is searched for, and for inverted indexes of values.
fn store_values_in_dictionaries(shape: &mut Table) {
    let kind = shape.kind;
    for attributes in [AttributeColumn::Resource, AttributeColumn::Record] {
        let name = attributes.column_name(kind);
        let columns = shape.columns.iter_mut().filter(|column| Some(column.name) == name);
        for column in columns.filter(|column| column.ty == ColumnType::Map) {
            column.ty = ColumnType::DictionaryMap;
        }
    }
}

const fn codec_for(codec: Codec, compression: ColumnCompression) -> Codec {
    match (compression, codec) {
        (ColumnCompression::Zstd, codec) | (_, codec @ Codec::Default) => codec,
        (ColumnCompression::ZstdHigher, Codec::DeltaZstd { width_bytes }) => {
            Codec::DeltaZstdHigher { width_bytes }
        }
        (ColumnCompression::ZstdHigher, _) => Codec::ZstdHigher,
    }
}

fn lay_indexes(shape: &mut Table, layout: &Layout) {
    let kind = shape.kind;
    if kind == TableKind::TraceIdTs {
        return;
    }
    shape.indexes.retain_mut(|index| match (index.expr, index.kind) {
        (Expr::Column("TraceId"), _) => layout.trace_id_index == Presence::Included,
        (Expr::Column("Body") | Expr::Lower("Body"), _) => match layout.body_index {
            BodyIndex::Tokens => true,
            BodyIndex::Text => make_text(index, IndexKind::TextOfWords),
            BodyIndex::None => false,
        },
        (Expr::MapKeys(_), _) => match layout.attribute_index {
            AttributeIndex::None | AttributeIndex::Default => false,
            AttributeIndex::Text => make_text(index, IndexKind::TextOfItems),
        },
        (Expr::MapValues(column), _) => match layout.attribute_index {
            AttributeIndex::None => false,
            AttributeIndex::Default => AttributeColumn::Scope.column_name(kind) != Some(column),
            AttributeIndex::Text => make_text(index, IndexKind::TextOfItems),
        },
        _ => true,
    });
    if shape.attributes == AttributeStorage::Json {
        shape.indexes.extend(path_indexes(kind, layout.attribute_index));
    }
}

/// The server's own granularity for inverted indexes, which cover complete parts.
const TEXT_GRANULARITY: u32 = 100_000_000;

/// Makes a filter an inverted index, which stays.
fn make_text(index: &mut Index, kind: IndexKind) -> bool {
    let name = name_text_index(index.name);
    *index = Index { name, kind, granularity: TEXT_GRANULARITY, ..*index };
    true
}

/// Returns the name of the inverted index that takes a filter's place. With the filter's own name,
/// a table that has the filter would never get the index.
fn name_text_index(filter: &'static str) -> &'static str {
    match filter {
        "idx_body" => "idx_body_text",
        "idx_lower_body" => "idx_lower_body_text",
        "idx_res_attr_key" => "idx_res_attr_key_text",
        "idx_res_attr_value" => "idx_res_attr_value_text",
        "idx_scope_attr_key" => "idx_scope_attr_key_text",
        "idx_scope_attr_value" => "idx_scope_attr_value_text",
        "idx_span_attr_key" => "idx_span_attr_key_text",
        "idx_span_attr_value" => "idx_span_attr_value_text",
        "idx_log_attr_key" => "idx_log_attr_key_text",
        "idx_log_attr_value" => "idx_log_attr_value_text",
        "idx_attr_key" => "idx_attr_key_text",
        "idx_attr_value" => "idx_attr_value_text",
        other => other,
    }
}

/// Returns the indexes of the paths of JSON columns.
fn path_indexes(kind: TableKind, requested: AttributeIndex) -> Vec<Index> {
    if requested != AttributeIndex::Text {
        return Vec::new();
    }
    [
        (AttributeColumn::Resource, "idx_res_attr_key"),
        (AttributeColumn::Scope, "idx_scope_attr_key"),
        (AttributeColumn::Record, "idx_attr_key"),
    ]
    .into_iter()
    .filter_map(|(column, name)| {
        let mut index = bloom_index(name, Expr::JsonAllPaths(column.column_name(kind)?), 10);
        make_text(&mut index, IndexKind::TextOfItems);
        Some(index)
    })
    .collect()
}

/// Returns whether a column holds attributes of its table, as JSON or Map.
#[must_use]
pub fn attribute_column(kind: TableKind, name: &str) -> Option<AttributeColumn> {
    [AttributeColumn::Resource, AttributeColumn::Scope, AttributeColumn::Record]
        .into_iter()
        .find(|column| column.column_name(kind) == Some(name))
}

#[cfg(test)]
mod tests;
