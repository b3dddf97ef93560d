//! The five metrics tables.

use super::parts::{TEXT, array_of, column, delta, map_indexes};
use crate::kind::TableKind;
use crate::table::{Column, Expr, Table};
use crate::types::Attributes;
use crate::types::ColumnType::{
    Array, Bool, DateTime64, Float64, Int32, LowCardinalityString, UInt32, UInt64,
};

pub(super) fn metrics(kind: TableKind, attributes: Attributes) -> Table {
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
