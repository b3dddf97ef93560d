//! The five metrics tables.

use super::parts::{TEXT, array_of, delta_column, map_indexes, zstd_column};
use crate::kind::TableKind;
use crate::table::{Column, Expr, Table};
use crate::types::AttributeStorage;
use crate::types::ColumnType::{
    Array, Bool, DateTime64, Float64, Int32, LowCardinalityString, UInt32, UInt64,
};

pub(super) fn metrics_table(kind: TableKind, attributes: AttributeStorage) -> Table {
    let set = attributes.column_type();
    let mut columns = vec![
        zstd_column("ResourceAttributes", set),
        zstd_column("ResourceSchemaUrl", TEXT),
        zstd_column("ScopeName", TEXT),
        zstd_column("ScopeVersion", TEXT),
        zstd_column("ScopeAttributes", set),
        zstd_column("ScopeDroppedAttrCount", UInt32),
        zstd_column("ScopeSchemaUrl", TEXT),
        zstd_column("ServiceName", LowCardinalityString),
        zstd_column("MetricName", LowCardinalityString),
        zstd_column("MetricDescription", TEXT),
        zstd_column("MetricUnit", TEXT),
        zstd_column("Attributes", set),
        delta_column("StartTimeUnix", DateTime64, 8),
        delta_column("TimeUnix", DateTime64, 8),
    ];
    columns.extend(point_columns(kind, attributes));
    Table {
        kind,
        attributes,
        columns,
        computed: Vec::new(),
        indexes: map_indexes(
            attributes,
            [
                ("ResourceAttributes", "idx_res_attr_key", "idx_res_attr_value"),
                ("ScopeAttributes", "idx_scope_attr_key", "idx_scope_attr_value"),
                ("Attributes", "idx_attr_key", "idx_attr_value"),
            ],
        ),
        partition_by: Expr::ToDate("TimeUnix"),
        primary_key: Vec::new(),
        order_by: vec![
            Expr::Column("ServiceName"),
            Expr::Column("MetricName"),
            Expr::ToUnixTimestamp64Nano("TimeUnix"),
        ],
        ttl_from: Expr::ToDateTime("TimeUnix"),
    }
}

/// Returns the columns that differ between the five kinds of points.
fn point_columns(kind: TableKind, attributes: AttributeStorage) -> Vec<Column> {
    let exemplars = [
        zstd_column("Exemplars.FilteredAttributes", array_of(attributes)),
        zstd_column("Exemplars.TimeUnix", Array(&DateTime64)),
        zstd_column("Exemplars.Value", Array(&Float64)),
        zstd_column("Exemplars.SpanId", Array(&TEXT)),
        zstd_column("Exemplars.TraceId", Array(&TEXT)),
    ];
    let flags = zstd_column("Flags", UInt32);
    let count_and_sum = [delta_column("Count", UInt64, 8), zstd_column("Sum", Float64)];
    let temporality = zstd_column("AggregationTemporality", Int32);
    let range = [zstd_column("Min", Float64), zstd_column("Max", Float64)];
    let mut columns = Vec::new();
    match kind {
        TableKind::MetricsGauge => {
            columns.extend([zstd_column("Value", Float64), flags]);
            columns.extend(exemplars);
        }
        TableKind::MetricsSum => {
            columns.extend([zstd_column("Value", Float64), flags]);
            columns.extend(exemplars);
            columns.extend([temporality, delta_column("IsMonotonic", Bool, 1)]);
        }
        TableKind::MetricsHistogram => {
            columns.extend(count_and_sum);
            columns.extend([
                zstd_column("BucketCounts", Array(&UInt64)),
                zstd_column("ExplicitBounds", Array(&Float64)),
            ]);
            columns.extend(exemplars);
            columns.push(flags);
            columns.extend(range);
            columns.push(temporality);
        }
        TableKind::MetricsExponentialHistogram => {
            columns.extend(count_and_sum);
            columns.extend([
                zstd_column("Scale", Int32),
                zstd_column("ZeroCount", UInt64),
                zstd_column("PositiveOffset", Int32),
                zstd_column("PositiveBucketCounts", Array(&UInt64)),
                zstd_column("NegativeOffset", Int32),
                zstd_column("NegativeBucketCounts", Array(&UInt64)),
            ]);
            columns.extend(exemplars);
            columns.push(flags);
            columns.extend(range);
            columns.push(temporality);
        }
        TableKind::MetricsSummary => {
            columns.extend(count_and_sum);
            columns.extend([
                zstd_column("ValueAtQuantiles.Quantile", Array(&Float64)),
                zstd_column("ValueAtQuantiles.Value", Array(&Float64)),
                flags,
            ]);
        }
        TableKind::Traces | TableKind::TraceIdTs | TableKind::Logs => {}
    }
    columns
}
