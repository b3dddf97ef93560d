//! Renders expressions, codecs, indexes and intervals as text: quoted in the statements that we
//! send, and in the server's own unquoted spelling for comparisons.

use millrace_schema::{
    AttributeStorage, Codec, ComputedColumn, ComputedType, Expr, Index, IndexKind,
};

use crate::declared::options::{Move, TableOptions};
use crate::declared::ttl::{Ttl, TtlUnit};
use crate::render::{literal, quote};

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
        Expr::ToYearMonth(column) => ("toYYYYMM", column),
    };
    format!("{function}({})", spell(column))
}

/// Returns an expression in the form that we send.
pub(super) fn render_expression(expr: Expr) -> String {
    call(expr, quote)
}

/// Returns comma-separated expressions, in the form that we send.
pub(super) fn render_list(exprs: &[Expr]) -> String {
    exprs.iter().copied().map(render_expression).collect::<Vec<_>>().join(", ")
}

/// Returns comma-separated expressions, in the spelling of `system.tables`.
pub(crate) fn canonical_list(exprs: &[Expr]) -> String {
    let spelled = |expr| call(expr, str::to_owned);
    exprs.iter().copied().map(spelled).collect::<Vec<_>>().join(", ")
}

pub(super) fn render_interval(ttl: Ttl) -> String {
    let (count, unit) = ttl.in_units();
    let function = match unit {
        TtlUnit::Second => "toIntervalSecond",
        TtlUnit::Minute => "toIntervalMinute",
        TtlUnit::Hour => "toIntervalHour",
        TtlUnit::Day => "toIntervalDay",
    };
    format!("{function}({count})")
}

/// Returns when a row moves and expires, in the form that we send; `None`: never.
pub(super) fn render_ttl(from: Expr, options: &TableOptions) -> Option<String> {
    ttl_rules(&render_expression(from), options)
}

/// Returns when a row moves and expires, in the spelling of `engine_full` in `system.tables`.
pub(crate) fn canonical_ttl(from: Expr, options: &TableOptions) -> Option<String> {
    ttl_rules(&call(from, str::to_owned), options)
}

fn ttl_rules(from: &str, options: &TableOptions) -> Option<String> {
    let moves = options.storage.move_after.as_ref().map(|Move { age, volume }| {
        format!("{from} + {} TO VOLUME {}", render_interval(*age), literal(&volume.to_string()))
    });
    let expires = options.ttl.map(|ttl| format!("{from} + {}", render_interval(ttl)));
    let rules: Vec<String> = moves.into_iter().chain(expires).collect();
    (!rules.is_empty()).then(|| rules.join(", "))
}

/// Returns ` CODEC(...)`, or nothing for the server's default.
pub(super) fn render_codec(codec: Codec) -> String {
    match codec {
        Codec::Default => String::new(),
        Codec::Zstd => " CODEC(ZSTD(1))".to_owned(),
        Codec::DeltaZstd { width_bytes } => format!(" CODEC(Delta({width_bytes}), ZSTD(1))"),
        Codec::ZstdHigher => " CODEC(ZSTD(3))".to_owned(),
        Codec::DeltaZstdHigher { width_bytes } => format!(" CODEC(Delta({width_bytes}), ZSTD(3))"),
    }
}

/// Returns `CODEC(...)` in the spelling of `system.columns`; `None`: the server's default.
pub(crate) fn canonical_codec(packing: Codec) -> Option<String> {
    let text = render_codec(packing);
    (!text.is_empty()).then(|| text.trim_start().to_owned())
}

/// Renders `name expr TYPE kind GRANULARITY n`.
pub(super) fn render_index(index: &Index) -> String {
    let Index { name, expr, kind, granularity } = index;
    let kind = index_kind(*kind);
    format!("{} {} TYPE {kind} GRANULARITY {granularity}", quote(name), render_expression(*expr))
}

/// Renders `name expr kind`, for people.
pub(crate) fn canonical_index(index: &Index) -> String {
    let Index { name, expr, kind, granularity: _ } = index;
    format!("{name} {} {}", call(*expr, str::to_owned), index_kind(*kind))
}

/// Returns `expr kind` without the kind's parameters, in the spelling of
/// `system.data_skipping_indices`.
pub(crate) fn canonical_index_kind(index: &Index) -> String {
    let kind = index_kind(index.kind);
    let kind = kind.split_once('(').map_or(kind.as_str(), |(name, _)| name);
    format!("{} {kind}", call(index.expr, str::to_owned))
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

/// Returns the expression of a user's own column. It never fails, so that it causes no refused
/// record: a missing attribute, or one that is not a number where a number is needed, gives the
/// type's zero.
pub(super) fn computed_expression(
    attributes: AttributeStorage,
    holder: &str,
    own: ComputedColumn<'_>,
) -> String {
    let path = own.path;
    let text = match attributes {
        AttributeStorage::Json => {
            format!("ifNull(toString({}.{}), '')", quote(holder), quote(path))
        }
        AttributeStorage::Map => format!("{}[{}]", quote(holder), literal(path)),
    };
    match own.ty {
        ComputedType::Name | ComputedType::Text => text,
        ComputedType::Integer => format!("toInt64OrZero({text})"),
        ComputedType::Float => format!("toFloat64OrZero({text})"),
        ComputedType::Factor => format!("greatest(toUInt64OrZero({text}), 1)"),
    }
}
