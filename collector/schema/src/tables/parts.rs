//! Short forms for the definitions beside this file.

use crate::table::{Codec, Column, Expr, Index, IndexKind, Origin};
use crate::types::{Attributes, ColumnType};

pub(super) const TEXT: ColumnType = ColumnType::String;

pub(super) const fn column(name: &'static str, ty: ColumnType) -> Column {
    Column { name, ty, codec: Codec::Zstd, origin: Origin::Insert }
}

pub(super) const fn delta(name: &'static str, ty: ColumnType, width_bytes: u8) -> Column {
    Column { name, ty, codec: Codec::DeltaZstd { width_bytes }, origin: Origin::Insert }
}

pub(super) const fn plain(name: &'static str, ty: ColumnType) -> Column {
    Column { name, ty, codec: Codec::Default, origin: Origin::Insert }
}

pub(super) const fn array_of(attributes: Attributes) -> ColumnType {
    match attributes {
        Attributes::Json => ColumnType::Array(&ColumnType::Json),
        Attributes::Map => ColumnType::Array(&ColumnType::Map),
    }
}

pub(crate) const fn bloom(name: &'static str, expr: Expr, false_positives_per_mille: u16) -> Index {
    Index { name, expr, kind: IndexKind::BloomFilter { false_positives_per_mille }, granularity: 1 }
}

/// A bloom filter of the words of a text: 32 KiB for eight granules.
pub(crate) const fn words(name: &'static str, expr: Expr) -> Index {
    let kind = IndexKind::TokenBloomFilter { bytes: 32_768, hashes: 3, seed: 0 };
    Index { name, expr, kind, granularity: 8 }
}

pub(super) fn map_indexes(
    attributes: Attributes,
    columns: [(&'static str, &'static str, &'static str); 3],
) -> Vec<Index> {
    match attributes {
        Attributes::Json => Vec::new(),
        Attributes::Map => columns
            .into_iter()
            .filter(|(column, ..)| !column.is_empty())
            .flat_map(|(column, key, value)| {
                [bloom(key, Expr::MapKeys(column), 10), bloom(value, Expr::MapValues(column), 10)]
            })
            .collect(),
    }
}
