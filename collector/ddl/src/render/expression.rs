//! Expressions, codecs, indexes and intervals as text: quoted for statements we send, and in the
//! server's own unquoted spelling for comparing with what it tells.

use millrace_schema::{Codec, Expr, Index, IndexKind};

use super::quote;
use crate::ttl::{Ttl, TtlUnit};

fn call(expr: Expr, spell: impl Fn(&str) -> String) -> String {
    let (function, column) = match expr {
        Expr::Column(column) => return spell(column),
        Expr::ToDate(column) => ("toDate", column),
        Expr::ToDateTime(column) => ("toDateTime", column),
        Expr::ToUnixTimestamp64Nano(column) => ("toUnixTimestamp64Nano", column),
        Expr::MapKeys(column) => ("mapKeys", column),
        Expr::MapValues(column) => ("mapValues", column),
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

/// When a row expires, as we send it.
pub(super) fn ttl(from: Expr, ttl: Ttl) -> String {
    format!("{} + {}", expression(from), interval(ttl))
}

/// When a row expires, as `system.tables` spells it in `engine_full`.
pub(crate) fn canonical_ttl(from: Expr, ttl: Ttl) -> String {
    format!("{} + {}", call(from, str::to_owned), interval(ttl))
}

/// ` CODEC(...)`, or nothing for the server's default.
pub(super) fn codec(codec: Codec) -> String {
    match codec {
        Codec::Default => String::new(),
        Codec::Zstd => " CODEC(ZSTD(1))".to_owned(),
        Codec::DeltaZstd { width_bytes } => format!(" CODEC(Delta({width_bytes}), ZSTD(1))"),
    }
}

/// `name expr TYPE kind GRANULARITY n`.
pub(super) fn index(index: &Index) -> String {
    let kind = match index.kind {
        IndexKind::MinMax => "minmax".to_owned(),
        IndexKind::BloomFilter { false_positives_per_mille } => {
            format!("bloom_filter({})", f64::from(false_positives_per_mille) / 1000.0)
        }
        IndexKind::TokenBloomFilter { bytes, hashes, seed } => {
            format!("tokenbf_v1({bytes}, {hashes}, {seed})")
        }
    };
    let Index { name, expr, kind: _, granularity } = index;
    format!("{} {} TYPE {kind} GRANULARITY {granularity}", quote(name), expression(*expr))
}
