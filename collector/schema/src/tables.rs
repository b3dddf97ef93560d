//! The tables themselves.
//!
//! Choices where writers differ, and why:
//! - the exponential table is `metrics_exponential_histogram` (Rotel, ClickStack; the Collector's
//!   exporter says `exp_histogram`);
//! - `MetricName` is `LowCardinality(String)` (newer Collector tables; older ones say `String`, and
//!   inserts convert either way);
//! - `EventName` is in both log variants, so that no variant loses data.

use std::fmt;
use std::str::FromStr;

use crate::table::{Codec, Column, Expr, Index, IndexKind, Origin, Table, View};
use crate::types::{Attributes, ColumnType};

/// Every table of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableKind {
    /// Spans with their events and links.
    Traces,
    /// First and last time seen of each trace id; filled by a view, never inserted into.
    TraceIdTs,
    /// Log records.
    Logs,
    /// Gauge points.
    MetricsGauge,
    /// Sum points.
    MetricsSum,
    /// Histogram points.
    MetricsHistogram,
    /// Exponential histogram points.
    MetricsExponentialHistogram,
    /// Summary points.
    MetricsSummary,
}

impl TableKind {
    /// All tables, in the order they are made.
    pub const ALL: [Self; 8] = [
        Self::Traces,
        Self::TraceIdTs,
        Self::Logs,
        Self::MetricsGauge,
        Self::MetricsSum,
        Self::MetricsHistogram,
        Self::MetricsExponentialHistogram,
        Self::MetricsSummary,
    ];

    /// What stands after `<prefix>_` in the table's name.
    #[must_use]
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::TraceIdTs => "traces_trace_id_ts",
            Self::Logs => "logs",
            Self::MetricsGauge => "metrics_gauge",
            Self::MetricsSum => "metrics_sum",
            Self::MetricsHistogram => "metrics_histogram",
            Self::MetricsExponentialHistogram => "metrics_exponential_histogram",
            Self::MetricsSummary => "metrics_summary",
        }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.suffix())
    }
}

impl FromStr for TableKind {
    type Err = String;

    fn from_str(suffix: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.suffix() == suffix)
            .ok_or_else(|| format!("no table has the suffix {suffix:?}"))
    }
}

/// All tables in one attribute variant, in the order they are made.
#[must_use]
pub fn tables(attributes: Attributes) -> Vec<Table> {
    TableKind::ALL
        .into_iter()
        .map(|kind| table(kind, attributes))
        .collect()
}

/// One table in one attribute variant. `TraceIdTs` has no attributes: both variants are the same.
#[must_use]
pub fn table(kind: TableKind, attributes: Attributes) -> Table {
    match kind {
        TableKind::Traces => traces(attributes),
        TableKind::TraceIdTs => trace_id_ts(attributes),
        TableKind::Logs => logs(attributes),
        TableKind::MetricsGauge
        | TableKind::MetricsSum
        | TableKind::MetricsHistogram
        | TableKind::MetricsExponentialHistogram
        | TableKind::MetricsSummary => metrics(kind, attributes),
    }
}

/// The view that fills [`TableKind::TraceIdTs`].
#[must_use]
pub const fn trace_id_view() -> View {
    View {
        suffix: "traces_trace_id_ts_mv",
        source: TableKind::Traces,
        target: TableKind::TraceIdTs,
        group_by: "TraceId",
        time: "Timestamp",
        minimum: "Start",
        maximum: "End",
    }
}

use ColumnType::{
    Array, Bool, DateTime, DateTime64, Float64, Int32, LowCardinalityString, UInt8, UInt32, UInt64,
};

const TEXT: ColumnType = ColumnType::String;

const fn column(name: &'static str, ty: ColumnType) -> Column {
    Column {
        name,
        ty,
        codec: Codec::Zstd,
        origin: Origin::Insert,
    }
}

const fn delta(name: &'static str, ty: ColumnType, width_bytes: u8) -> Column {
    Column {
        name,
        ty,
        codec: Codec::DeltaZstd { width_bytes },
        origin: Origin::Insert,
    }
}

const fn plain(name: &'static str, ty: ColumnType) -> Column {
    Column {
        name,
        ty,
        codec: Codec::Default,
        origin: Origin::Insert,
    }
}

const fn array_of(attributes: Attributes) -> ColumnType {
    match attributes {
        Attributes::Json => Array(&ColumnType::Json),
        Attributes::Map => Array(&ColumnType::Map),
    }
}

const fn bloom(name: &'static str, expr: Expr, false_positives_per_mille: u16) -> Index {
    Index {
        name,
        expr,
        kind: IndexKind::BloomFilter {
            false_positives_per_mille,
        },
        granularity: 1,
    }
}

fn map_indexes(
    attributes: Attributes,
    columns: [(&'static str, &'static str, &'static str); 3],
) -> Vec<Index> {
    match attributes {
        Attributes::Json => Vec::new(),
        Attributes::Map => columns
            .into_iter()
            .filter(|(column, ..)| !column.is_empty())
            .flat_map(|(column, key, value)| {
                [
                    bloom(key, Expr::MapKeys(column), 10),
                    bloom(value, Expr::MapValues(column), 10),
                ]
            })
            .collect(),
    }
}

fn traces(attributes: Attributes) -> Table {
    let set = attributes.column_type();
    let mut indexes = vec![bloom("idx_trace_id", Expr::Column("TraceId"), 1)];
    indexes.extend(map_indexes(
        attributes,
        [
            (
                "ResourceAttributes",
                "idx_res_attr_key",
                "idx_res_attr_value",
            ),
            ("SpanAttributes", "idx_span_attr_key", "idx_span_attr_value"),
            ("", "", ""),
        ],
    ));
    indexes.push(Index {
        name: "idx_duration",
        expr: Expr::Column("Duration"),
        kind: IndexKind::MinMax,
        granularity: 1,
    });
    Table {
        kind: TableKind::Traces,
        attributes,
        columns: vec![
            delta("Timestamp", DateTime64, 8),
            column("TraceId", TEXT),
            column("SpanId", TEXT),
            column("ParentSpanId", TEXT),
            column("TraceState", TEXT),
            column("SpanName", LowCardinalityString),
            column("SpanKind", LowCardinalityString),
            column("ServiceName", LowCardinalityString),
            column("ResourceAttributes", set),
            column("ScopeName", TEXT),
            column("ScopeVersion", TEXT),
            column("SpanAttributes", set),
            column("Duration", UInt64),
            column("StatusCode", LowCardinalityString),
            column("StatusMessage", TEXT),
            column("Events.Timestamp", Array(&DateTime64)),
            column("Events.Name", Array(&LowCardinalityString)),
            column("Events.Attributes", array_of(attributes)),
            column("Links.TraceId", Array(&TEXT)),
            column("Links.SpanId", Array(&TEXT)),
            column("Links.TraceState", Array(&TEXT)),
            column("Links.Attributes", array_of(attributes)),
        ],
        indexes,
        partition_by: Expr::ToDate("Timestamp"),
        primary_key: Vec::new(),
        order_by: vec![
            Expr::Column("ServiceName"),
            Expr::Column("SpanName"),
            Expr::ToDateTime("Timestamp"),
        ],
        ttl_from: Expr::ToDateTime("Timestamp"),
    }
}

fn trace_id_ts(attributes: Attributes) -> Table {
    Table {
        kind: TableKind::TraceIdTs,
        attributes,
        columns: vec![
            column("TraceId", TEXT),
            delta("Start", DateTime, 4),
            delta("End", DateTime, 4),
        ],
        indexes: vec![bloom("idx_trace_id", Expr::Column("TraceId"), 10)],
        partition_by: Expr::ToDate("Start"),
        primary_key: Vec::new(),
        order_by: vec![Expr::Column("TraceId"), Expr::Column("Start")],
        ttl_from: Expr::Column("Start"),
    }
}

fn logs(attributes: Attributes) -> Table {
    let set = attributes.column_type();
    let mut columns = vec![delta("Timestamp", DateTime64, 8)];
    // The Map variant's readers (Grafana among them) filter on a column of whole seconds.
    let (seconds, day, ttl_from) = match attributes {
        Attributes::Json => {
            let seconds = Expr::ToDateTime("Timestamp");
            (seconds, Expr::ToDate("Timestamp"), seconds)
        }
        Attributes::Map => {
            columns.push(Column {
                name: "TimestampTime",
                ty: DateTime,
                codec: Codec::DeltaZstd { width_bytes: 4 },
                origin: Origin::Default(Expr::ToDateTime("Timestamp")),
            });
            let seconds = Expr::Column("TimestampTime");
            (seconds, Expr::ToDate("TimestampTime"), seconds)
        }
    };
    columns.extend([
        column("TraceId", TEXT),
        column("SpanId", TEXT),
        plain("TraceFlags", UInt8),
        column("SeverityText", LowCardinalityString),
        plain("SeverityNumber", UInt8),
        column("ServiceName", LowCardinalityString),
        column("Body", TEXT),
        column("ResourceSchemaUrl", LowCardinalityString),
        column("ResourceAttributes", set),
        column("ScopeSchemaUrl", LowCardinalityString),
        column("ScopeName", TEXT),
        column("ScopeVersion", LowCardinalityString),
        column("ScopeAttributes", set),
        column("LogAttributes", set),
        column("EventName", TEXT),
    ]);
    Table {
        kind: TableKind::Logs,
        attributes,
        columns,
        indexes: log_indexes(attributes),
        partition_by: day,
        primary_key: vec![Expr::Column("ServiceName"), seconds],
        order_by: vec![
            Expr::Column("ServiceName"),
            seconds,
            Expr::Column("Timestamp"),
        ],
        ttl_from,
    }
}

fn log_indexes(attributes: Attributes) -> Vec<Index> {
    let mut indexes = vec![bloom("idx_trace_id", Expr::Column("TraceId"), 1)];
    indexes.extend(map_indexes(
        attributes,
        [
            (
                "ResourceAttributes",
                "idx_res_attr_key",
                "idx_res_attr_value",
            ),
            (
                "ScopeAttributes",
                "idx_scope_attr_key",
                "idx_scope_attr_value",
            ),
            ("LogAttributes", "idx_log_attr_key", "idx_log_attr_value"),
        ],
    ));
    indexes.push(Index {
        name: "idx_body",
        expr: Expr::Column("Body"),
        kind: IndexKind::TokenBloomFilter {
            bytes: 32_768,
            hashes: 3,
            seed: 0,
        },
        granularity: 8,
    });
    indexes
}

fn metrics(kind: TableKind, attributes: Attributes) -> Table {
    let set = attributes.column_type();
    let mut columns = vec![
        column("ResourceAttributes", set),
        column("ResourceSchemaUrl", TEXT),
        column("ScopeName", TEXT),
        column("ScopeVersion", TEXT),
        column("ScopeAttributes", set),
        column("ScopeDroppedAttrCount", UInt32),
        column("ScopeSchemaUrl", TEXT),
        column("ServiceName", LowCardinalityString),
        column("MetricName", LowCardinalityString),
        column("MetricDescription", TEXT),
        column("MetricUnit", TEXT),
        column("Attributes", set),
        delta("StartTimeUnix", DateTime64, 8),
        delta("TimeUnix", DateTime64, 8),
    ];
    columns.extend(point_columns(kind, attributes));
    let mut order_by = vec![Expr::Column("ServiceName"), Expr::Column("MetricName")];
    // A JSON column can't be part of a sorting key.
    if attributes == Attributes::Map {
        order_by.push(Expr::Column("Attributes"));
    }
    order_by.push(Expr::ToUnixTimestamp64Nano("TimeUnix"));
    Table {
        kind,
        attributes,
        columns,
        indexes: map_indexes(
            attributes,
            [
                (
                    "ResourceAttributes",
                    "idx_res_attr_key",
                    "idx_res_attr_value",
                ),
                (
                    "ScopeAttributes",
                    "idx_scope_attr_key",
                    "idx_scope_attr_value",
                ),
                ("Attributes", "idx_attr_key", "idx_attr_value"),
            ],
        ),
        partition_by: Expr::ToDate("TimeUnix"),
        primary_key: Vec::new(),
        order_by,
        ttl_from: Expr::ToDateTime("TimeUnix"),
    }
}

/// The columns that differ between the five kinds of points.
fn point_columns(kind: TableKind, attributes: Attributes) -> Vec<Column> {
    let exemplars = [
        column("Exemplars.FilteredAttributes", array_of(attributes)),
        column("Exemplars.TimeUnix", Array(&DateTime64)),
        column("Exemplars.Value", Array(&Float64)),
        column("Exemplars.SpanId", Array(&TEXT)),
        column("Exemplars.TraceId", Array(&TEXT)),
    ];
    let flags = column("Flags", UInt32);
    let count_and_sum = [delta("Count", UInt64, 8), column("Sum", Float64)];
    let temporality = column("AggregationTemporality", Int32);
    let range = [column("Min", Float64), column("Max", Float64)];
    let mut columns = Vec::new();
    match kind {
        TableKind::MetricsGauge => {
            columns.extend([column("Value", Float64), flags]);
            columns.extend(exemplars);
        }
        TableKind::MetricsSum => {
            columns.extend([column("Value", Float64), flags]);
            columns.extend(exemplars);
            columns.extend([temporality, delta("IsMonotonic", Bool, 1)]);
        }
        TableKind::MetricsHistogram => {
            columns.extend(count_and_sum);
            columns.extend([
                column("BucketCounts", Array(&UInt64)),
                column("ExplicitBounds", Array(&Float64)),
            ]);
            columns.extend(exemplars);
            columns.push(flags);
            columns.extend(range);
            columns.push(temporality);
        }
        TableKind::MetricsExponentialHistogram => {
            columns.extend(count_and_sum);
            columns.extend([
                column("Scale", Int32),
                column("ZeroCount", UInt64),
                column("PositiveOffset", Int32),
                column("PositiveBucketCounts", Array(&UInt64)),
                column("NegativeOffset", Int32),
                column("NegativeBucketCounts", Array(&UInt64)),
            ]);
            columns.extend(exemplars);
            columns.push(flags);
            columns.extend(range);
            columns.push(temporality);
        }
        TableKind::MetricsSummary => {
            columns.extend(count_and_sum);
            columns.extend([
                column("ValueAtQuantiles.Quantile", Array(&Float64)),
                column("ValueAtQuantiles.Value", Array(&Float64)),
                flags,
            ]);
        }
        TableKind::Traces | TableKind::TraceIdTs | TableKind::Logs => {}
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn named(expr: Expr) -> &'static str {
        match expr {
            Expr::Column(name)
            | Expr::ToDate(name)
            | Expr::ToDateTime(name)
            | Expr::ToUnixTimestamp64Nano(name)
            | Expr::MapKeys(name)
            | Expr::MapValues(name) => name,
        }
    }

    /// Keys, indexes, defaults and TTLs only name columns their table has.
    #[test]
    fn every_expression_names_a_column_of_its_table() {
        for attributes in [Attributes::Json, Attributes::Map] {
            for table in tables(attributes) {
                let exprs = [table.partition_by, table.ttl_from]
                    .into_iter()
                    .chain(table.primary_key.iter().copied())
                    .chain(table.order_by.iter().copied())
                    .chain(table.indexes.iter().map(|index| index.expr))
                    .chain(
                        table
                            .columns
                            .iter()
                            .filter_map(|column| match column.origin {
                                Origin::Insert => None,
                                Origin::Default(expr) => Some(expr),
                            }),
                    );
                for expr in exprs {
                    assert!(
                        table.column(named(expr)).is_some(),
                        "{} has no {expr:?}",
                        table.kind
                    );
                }
                assert!(table.order_by.starts_with(&table.primary_key));
            }
        }
    }

    /// Names are unique, and the attribute variant is the only difference between the variants
    /// but for the log table's column of whole seconds.
    #[test]
    fn columns_are_unique_and_variants_agree() {
        for kind in TableKind::ALL {
            let names = |attributes| -> Vec<&str> {
                table(kind, attributes)
                    .insert_columns()
                    .map(|column| column.name)
                    .collect()
            };
            let json = names(Attributes::Json);
            assert_eq!(json, names(Attributes::Map), "{kind}");
            assert_eq!(
                json.iter().collect::<HashSet<_>>().len(),
                json.len(),
                "{kind}"
            );
        }
        assert!(
            table(TableKind::Logs, Attributes::Map)
                .column("TimestampTime")
                .is_some()
        );
        assert!(
            table(TableKind::Logs, Attributes::Json)
                .column("TimestampTime")
                .is_none()
        );
    }

    /// The parts of a Nested column are arrays.
    #[test]
    fn nested_parts_are_arrays() {
        for table in tables(Attributes::Json) {
            for column in table
                .columns
                .iter()
                .filter(|column| column.name.contains('.'))
            {
                assert!(matches!(column.ty, Array(_)), "{}", column.name);
            }
        }
    }

    /// A suffix names its table, there and back.
    #[test]
    fn suffixes_round_trip() {
        for kind in TableKind::ALL {
            assert_eq!(kind.suffix().parse(), Ok(kind));
        }
        assert!("nope".parse::<TableKind>().is_err());
    }
}
