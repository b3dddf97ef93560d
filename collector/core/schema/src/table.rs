//! The parts of a table as data: columns, keys, indexes and codecs.

use crate::computed::Computed;
use crate::kind::TableKind;
use crate::types::{AttributeStorage, ColumnType};

/// An expression over one column, for keys, indexes, defaults and TTLs.
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
    /// `toYYYYMM(column)`
    ToYearMonth(&'static str),
}

/// How a column is compressed on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Codec {
    /// The server's default.
    Default,
    /// `ZSTD(1)`
    Zstd,
    /// `Delta(width), ZSTD(1)`: for values close to their neighbours, such as timestamps.
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
}

impl Codec {
    /// Returns why a column has it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Default => "server's default: too small to matter",
            Self::Zstd => "ZSTD(1): half of LZ4's size, at no measurable cost at insert",
            Self::DeltaZstd { .. } => "Delta before ZSTD(1): values lie near their neighbours",
            Self::ZstdHigher => "ZSTD(3): a little smaller than ZSTD(1), dearer at every merge",
            Self::DeltaZstdHigher { .. } => {
                "Delta before ZSTD(3): values lie near their neighbours"
            }
        }
    }
}

/// Where a column's values come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueOrigin {
    /// Written by every insert.
    Insert,
    /// The server computes it when an insert omits it; Millrace's inserts always do.
    Default(Expr),
}

/// One column. The parts of a Nested column are separate columns, named `Nested.part`, each an
/// array: the server stores and describes them so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Column {
    /// Name, unquoted. It may have one dot in it (a Nested part).
    pub name: &'static str,
    /// Type.
    pub ty: ColumnType,
    /// Compression on disk.
    pub codec: Codec,
    /// The source of its values.
    pub origin: ValueOrigin,
    /// What it stores, and where in OTLP that comes from; `clickhouse-ddl explain` prints it.
    pub reason: &'static str,
}

/// A data-skipping index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Index {
    /// Name, unique in its table.
    pub name: &'static str,
    /// The indexed expression.
    pub expr: Expr,
    /// The kind of index.
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

impl Index {
    /// Returns its purpose and its cost.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match (self.expr, self.kind) {
            (Expr::Column("TraceId"), _) => {
                "finds a trace by its id without its time; a cheap bloom filter, for ids are texts"
            }
            (Expr::Column("Duration"), _) => {
                "skips spans shorter than a query needs; costs nothing"
            }
            (_, IndexKind::TokenBloomFilter { .. }) => "skips blocks without a word of the search",
            (_, IndexKind::TextOfWords) => {
                "finds words exactly; dearer at insert than a bloom filter"
            }
            (_, IndexKind::TextOfItems) => "finds attribute names or values exactly",
            (Expr::MapKeys(_) | Expr::JsonAllPaths(_), _) => {
                "skips blocks without the attribute; each insert pays for it"
            }
            (Expr::MapValues(_), _) => "skips blocks without the value; each insert pays for it",
            _ => "skips blocks that cannot match",
        }
    }
}

/// A table, complete except for its database, prefix, engine and time to live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The kind of table.
    pub kind: TableKind,
    /// The attribute variant.
    pub attributes: AttributeStorage,
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Columns that the server computes from attributes for the table's reader.
    pub computed: Vec<Computed>,
    /// Data-skipping indexes.
    pub indexes: Vec<Index>,
    /// Partition key: one day, in the server's time zone.
    pub partition_by: Expr,
    /// Primary key, where it is shorter than `order_by`; empty: the same as `order_by`.
    pub primary_key: Vec<Expr>,
    /// Sorting key.
    pub order_by: Vec<Expr>,
    /// The time from which a row's time to live counts. Of type `DateTime`.
    pub ttl_from: Expr,
}

impl Table {
    /// Returns the columns of an insert and its blocks, in order.
    pub fn insert_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.origin == ValueOrigin::Insert)
    }

    /// Returns the sorting key of the Collector exporter's tables, and formerly of ours, where it
    /// is another: spans' names, or points' Map attributes, before time, which costs merges and
    /// bytes (`docs/internals/performance/tables.md`). A table that has it retains it, and that
    /// counts as no difference.
    #[must_use]
    pub fn former_order_by(&self) -> Option<Vec<Expr>> {
        let (at, column) = match (self.kind, self.attributes, self.order_by.last()?) {
            (TableKind::Traces, ..) => (1, "SpanName"),
            (_, AttributeStorage::Map, Expr::ToUnixTimestamp64Nano(_)) => {
                (self.order_by.len() - 1, "Attributes")
            }
            _ => return None,
        };
        let mut keys = self.order_by.clone();
        keys.insert(at, Expr::Column(column));
        Some(keys)
    }

    /// Returns the column of that name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// The materialized view that fills the trace-id lookup table: for each trace id of an insert it
/// stores the first and last `Timestamp`, as `Start` and `End`. It omits rows without a trace id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Suffix of the view's name after the table prefix.
    pub suffix: &'static str,
    /// The table it reads.
    pub source: TableKind,
    /// The table it writes.
    pub target: TableKind,
    /// The column to group by; the view omits rows where it is empty.
    pub group_by: &'static str,
    /// The column whose minimum and maximum are stored.
    pub time: &'static str,
    /// The name of the minimum in the target.
    pub minimum: &'static str,
    /// The name of the maximum in the target.
    pub maximum: &'static str,
}
