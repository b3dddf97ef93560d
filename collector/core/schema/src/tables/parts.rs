//! Short forms for the definitions in this directory.

use crate::table::{Codec, Column, Expr, Index, IndexKind, ValueOrigin};
use crate::types::{AttributeStorage, ColumnType};

pub(super) const TEXT: ColumnType = ColumnType::String;

// What columns of several signals store.
pub(super) const RESOURCE_ATTRIBUTES: &str = "attributes of what sent the record";
pub(super) const RESOURCE_SCHEMA_URL: &str = "schema URL of the resource";
pub(super) const SCOPE_ATTRIBUTES: &str = "attributes of the instrumentation scope";
pub(super) const SCOPE_NAME: &str = "name of the instrumentation scope";
pub(super) const SCOPE_SCHEMA_URL: &str = "schema URL of the scope";
pub(super) const SCOPE_VERSION: &str = "version of the instrumentation scope";
pub(super) const SERVICE_NAME: &str = "service.name of the resource: leads the sorting key";
pub(super) const SPAN_ID: &str = "span as 16 hexadecimal digits, empty if none";
pub(super) const TRACE_ID: &str = "trace as 32 hexadecimal digits, empty if none";

pub(super) const fn zstd_column(
    name: &'static str,
    ty: ColumnType,
    reason: &'static str,
) -> Column {
    Column { name, ty, codec: Codec::Zstd, origin: ValueOrigin::Insert, reason }
}

pub(super) const fn delta_column(
    name: &'static str,
    ty: ColumnType,
    width_bytes: u8,
    reason: &'static str,
) -> Column {
    Column {
        name,
        ty,
        codec: Codec::DeltaZstd { width_bytes },
        origin: ValueOrigin::Insert,
        reason,
    }
}

pub(super) const fn plain_column(
    name: &'static str,
    ty: ColumnType,
    reason: &'static str,
) -> Column {
    Column { name, ty, codec: Codec::Default, origin: ValueOrigin::Insert, reason }
}

pub(super) const fn array_of(attributes: AttributeStorage) -> ColumnType {
    match attributes {
        AttributeStorage::Json => ColumnType::Array(&ColumnType::Json),
        AttributeStorage::Map => ColumnType::Array(&ColumnType::Map),
    }
}

pub(crate) const fn bloom_index(
    name: &'static str,
    expr: Expr,
    false_positives_per_mille: u16,
) -> Index {
    Index { name, expr, kind: IndexKind::BloomFilter { false_positives_per_mille }, granularity: 1 }
}

/// Returns a bloom filter of the words of a text: 32 KiB for eight granules.
pub(crate) const fn token_index(name: &'static str, expr: Expr) -> Index {
    let kind = IndexKind::TokenBloomFilter { bytes: 32_768, hashes: 3, seed: 0 };
    Index { name, expr, kind, granularity: 8 }
}

pub(super) fn map_indexes(
    attributes: AttributeStorage,
    columns: [(&'static str, &'static str, &'static str); 3],
) -> Vec<Index> {
    match attributes {
        AttributeStorage::Json => Vec::new(),
        AttributeStorage::Map => columns
            .into_iter()
            .filter(|(column, ..)| !column.is_empty())
            .flat_map(|(column, key, value)| {
                [
                    bloom_index(key, Expr::MapKeys(column), 10),
                    bloom_index(value, Expr::MapValues(column), 10),
                ]
            })
            .collect(),
    }
}
