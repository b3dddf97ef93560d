//! Expressions, codecs, indexes and intervals as text: quoted for statements we send, and in the
//! server's own unquoted spelling for comparing with what it tells.

use millrace_schema::{Attributes, Codec, Expr, Index, IndexKind, OwnColumn, OwnType};

use super::{literal, quote};
use crate::options::{Move, TableOptions};
use crate::ttl::{Ttl, TtlUnit};

fn call(expr: Expr, spell: impl Fn(&str) -> String) -> String {
    let (function, column) = match expr {
        Expr::Column(column) => return spell(column),
        Expr::ToDate(column) => ("toDate", column),
        Expr::ToDateTime(column) => ("toDateTime", column),
        Expr::ToUnixTimestamp64Nano(column) => ("toUnixTimestamp64Nano", column),
        Expr::MapKeys(column) => ("mapKeys", column),
        Expr::MapValues(column) => ("mapValues", column),
        Expr::JsonAllPaths(column) => ("JSONAllPaths", column),
        Expr::Lower(column) => ("lower", column),
        Expr::CityHash64(column) => ("cityHash64", column),
        Expr::ToStartOfFiveMinutes(column) => ("toStartOfFiveMinutes", column),
        Expr::ToStartOfHour(column) => ("toStartOfHour", column),
        Expr::ToMonday(column) => ("toMonday", column),
        Expr::ToYearMonth(column) => ("toYYYYMM", column),
        Expr::Whole => return "tuple()".to_owned(),
    };
    format!("{function}({})", spell(column))
}

/// An expression as we send it.
pub(super) fn expression(expr: Expr) -> String {
    call(expr, quote)
}

/// Expressions between commas, as we send them.
pub(super) fn list(exprs: &[Expr]) -> String {
    exprs.iter().copied().map(expression).collect::<Vec<_>>().join(", ")
}

/// Expressions between commas, as `system.tables` spells keys.
pub(crate) fn canonical_list(exprs: &[Expr]) -> String {
    let spelled = |expr| call(expr, str::to_owned);
    exprs.iter().copied().map(spelled).collect::<Vec<_>>().join(", ")
}

fn interval(ttl: Ttl) -> String {
    let (count, unit) = ttl.in_units();
    let function = match unit {
        TtlUnit::Second => "toIntervalSecond",
        TtlUnit::Minute => "toIntervalMinute",
        TtlUnit::Hour => "toIntervalHour",
        TtlUnit::Day => "toIntervalDay",
    };
    format!("{function}({count})")
}

/// When a row moves and expires, as we send it; `None`: never.
pub(super) fn ttl(from: Expr, options: &TableOptions) -> Option<String> {
    rules(&expression(from), options)
}

/// When a row moves and expires, as `system.tables` spells it in `engine_full`.
pub(crate) fn canonical_ttl(from: Expr, options: &TableOptions) -> Option<String> {
    rules(&call(from, str::to_owned), options)
}

fn rules(from: &str, options: &TableOptions) -> Option<String> {
    let moves = options.storage.move_after.as_ref().map(|Move { age, volume }| {
        format!("{from} + {} TO VOLUME {}", interval(*age), literal(&volume.to_string()))
    });
    let expires = options.ttl.map(|kept| format!("{from} + {}", interval(kept)));
    let rules: Vec<String> = moves.into_iter().chain(expires).collect();
    (!rules.is_empty()).then(|| rules.join(", "))
}

/// ` CODEC(...)`, or nothing for the server's default.
pub(super) fn codec(codec: Codec) -> String {
    match codec {
        Codec::Default => String::new(),
        Codec::Zstd => " CODEC(ZSTD(1))".to_owned(),
        Codec::DeltaZstd { width_bytes } => format!(" CODEC(Delta({width_bytes}), ZSTD(1))"),
        Codec::ZstdHigher => " CODEC(ZSTD(3))".to_owned(),
        Codec::DeltaZstdHigher { width_bytes } => format!(" CODEC(Delta({width_bytes}), ZSTD(3))"),
        Codec::Lz4 => " CODEC(LZ4)".to_owned(),
        Codec::DeltaLz4 { width_bytes } => format!(" CODEC(Delta({width_bytes}), LZ4)"),
    }
}

/// `CODEC(...)` as `system.columns` spells it; `None`: whatever the server's default is.
pub(crate) fn canonical_codec(packing: Codec) -> Option<String> {
    let text = codec(packing);
    (!text.is_empty()).then(|| text.trim_start().to_owned())
}

/// `name expr TYPE kind GRANULARITY n`.
pub(super) fn index(index: &Index) -> String {
    let Index { name, expr, kind, granularity } = index;
    let kind = index_kind(*kind);
    format!("{} {} TYPE {kind} GRANULARITY {granularity}", quote(name), expression(*expr))
}

/// `name expr kind`, for people.
pub(crate) fn canonical_index(index: &Index) -> String {
    let Index { name, expr, kind, granularity: _ } = index;
    format!("{name} {} {}", call(*expr, str::to_owned), index_kind(*kind))
}

fn index_kind(kind: IndexKind) -> String {
    match kind {
        IndexKind::MinMax => "minmax".to_owned(),
        IndexKind::BloomFilter { false_positives_per_mille } => {
            format!("bloom_filter({})", f64::from(false_positives_per_mille) / 1000.0)
        }
        IndexKind::TokenBloomFilter { bytes, hashes, seed } => {
            format!("tokenbf_v1({bytes}, {hashes}, {seed})")
        }
        IndexKind::TextOfWords => "text(tokenizer = 'splitByNonAlpha')".to_owned(),
        IndexKind::TextOfItems => "text(tokenizer = 'array')".to_owned(),
    }
}

/// What a column of a user's own is computed from. Never fails: a missing attribute, or one that is
/// no number where a number is wanted, gives the type's zero, so that no record is refused for it.
pub(super) fn own(attributes: Attributes, holder: &str, own: OwnColumn<'_>) -> String {
    let path = own.path;
    let text = match attributes {
        Attributes::Json => format!("ifNull(toString({}.{}), '')", quote(holder), quote(path)),
        Attributes::Map => format!("{}[{}]", quote(holder), literal(path)),
    };
    match own.ty {
        OwnType::Name | OwnType::Text => text,
        OwnType::Integer => format!("toInt64OrZero({text})"),
        OwnType::Float => format!("toFloat64OrZero({text})"),
        OwnType::Factor => format!("greatest(toUInt64OrZero({text}), 1)"),
    }
}
