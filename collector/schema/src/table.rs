//! What a table is made of: columns, keys, indexes and codecs, all as data.

use crate::kind::TableKind;
use crate::reader::Computed;
use crate::types::{Attributes, ColumnType};

/// An expression over one column, as keys, indexes, defaults and TTLs need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// The column itself.
    Column(&'static str),
    /// `toDate(column)`
    ToDate(&'static str),
    /// `toDateTime(column)`
    ToDateTime(&'static str),
    /// `toUnixTimestamp64Nano(column)`
    ToUnixTimestamp64Nano(&'static str),
    /// `mapKeys(column)`
    MapKeys(&'static str),
    /// `mapValues(column)`
    MapValues(&'static str),
    /// `JSONAllPaths(column)`
    JsonAllPaths(&'static str),
    /// `lower(column)`
    Lower(&'static str),
    /// `cityHash64(column)`
    CityHash64(&'static str),
    /// `toStartOfFiveMinutes(column)`
    ToStartOfFiveMinutes(&'static str),
    /// `toStartOfHour(column)`
    ToStartOfHour(&'static str),
    /// `toMonday(column)`
    ToMonday(&'static str),
    /// `toYYYYMM(column)`
    ToYearMonth(&'static str),
    /// `tuple()`: no column at all.
    Whole,
}

/// How a column is compressed on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The server's default.
    Default,
    /// `ZSTD(1)`
    Zstd,
    /// `Delta(width), ZSTD(1)`: for values near their neighbours, such as timestamps.
    DeltaZstd {
        /// Bytes of one value: 1, 2, 4 or 8.
        width_bytes: u8,
    },
    /// `ZSTD(3)`
    ZstdHigher,
    /// `Delta(width), ZSTD(3)`
    DeltaZstdHigher {
        /// Bytes of one value: 1, 2, 4 or 8.
        width_bytes: u8,
    },
    /// `LZ4`
    Lz4,
    /// `Delta(width), LZ4`
    DeltaLz4 {
        /// Bytes of one value: 1, 2, 4 or 8.
        width_bytes: u8,
    },
}

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Written by every insert.
    Insert,
    /// Computed by the server when an insert leaves it out; ours always do.
    Default(Expr),
}

/// One column. A Nested column is here as its parts, named `Nested.part`, each an array: that
/// is how the server stores and describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Name, unquoted. May hold one dot (a Nested part).
    pub name: &'static str,
    /// Type.
    pub ty: ColumnType,
    /// Compression on disk.
    pub codec: Codec,
    /// Who gives the value.
    pub origin: Origin,
}

/// A data-skipping index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Name, unique in its table.
    pub name: &'static str,
    /// What is indexed.
    pub expr: Expr,
    /// Its kind.
    pub kind: IndexKind,
    /// Granules per index entry.
    pub granularity: u32,
}

/// Kind of a data-skipping index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// `minmax`
    MinMax,
    /// `bloom_filter(p)` with p in thousandths: 1 is 0.001, 10 is 0.01.
    BloomFilter {
        /// False positives per thousand look-ups.
        false_positives_per_mille: u16,
    },
    /// `tokenbf_v1(bytes, hashes, seed)`
    TokenBloomFilter {
        /// Size of the filter in bytes.
        bytes: u32,
        /// Number of hash functions.
        hashes: u32,
        /// Seed of the hash functions.
        seed: u32,
    },
    /// `text(tokenizer = 'splitByNonAlpha')`: an inverted index of the words of a text.
    TextOfWords,
    /// `text(tokenizer = 'array')`: an inverted index of the items of an array of texts.
    TextOfItems,
}

/// A table, complete but for its database, prefix, engine and time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Which one.
    pub kind: TableKind,
    /// Its attribute variant.
    pub attributes: Attributes,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Columns that the server computes from attributes, for whom the table is made.
    pub computed: Vec<Computed>,
    /// Data-skipping indexes.
    pub indexes: Vec<Index>,
    /// Partition key: one day, by the server's time zone.
    pub partition_by: Expr,
    /// Primary key, where it is shorter than `order_by`; empty means the same.
    pub primary_key: Vec<Expr>,
    /// Sorting key.
    pub order_by: Vec<Expr>,
    /// The time from which a row's time to live counts. Of type `DateTime`.
    pub ttl_from: Expr,
}

impl Table {
    /// The columns an insert names and a block carries, in order.
    pub fn insert_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.origin == Origin::Insert)
    }

    /// The sorting key that points with Map attributes have in the Collector's exporter's tables,
    /// and had in ours: by their attributes before their time, which costs a third of merges
    /// (`docs/schema.md`). A table that has it keeps it, and that is no difference.
    #[must_use]
    pub fn order_by_attributes(&self) -> Option<Vec<Expr>> {
        let time = Expr::ToUnixTimestamp64Nano("TimeUnix");
        let keys = self.order_by.strip_suffix(&[time])?;
        let is_meant = self.attributes == Attributes::Map;
        is_meant.then(|| [keys, &[Expr::Column("Attributes"), time]].concat())
    }

    /// The column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The materialized view that fills the trace-id lookup table: for each trace id of an insert its
/// first and last `Timestamp`, as `Start` and `End`, rows without a trace id left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Suffix of the view's name after the table prefix.
    pub suffix: &'static str,
    /// The table it reads.
    pub source: TableKind,
    /// The table it writes.
    pub target: TableKind,
    /// Column grouped by; rows where it is empty are left out.
    pub group_by: &'static str,
    /// Column whose minimum and maximum are taken.
    pub time: &'static str,
    /// Name of the minimum in the target.
    pub minimum: &'static str,
    /// Name of the maximum in the target.
    pub maximum: &'static str,
}
