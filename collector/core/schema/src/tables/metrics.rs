//! The five metrics tables.

use super::parts::{
    RESOURCE_ATTRIBUTES, RESOURCE_SCHEMA_URL, SCOPE_ATTRIBUTES, SCOPE_NAME, SCOPE_SCHEMA_URL,
    SCOPE_VERSION, SERVICE_NAME, TEXT, array_of, delta_column, map_indexes, zstd_column,
};
use crate::kind::TableKind;
use crate::table::{Column, Expr, Table};
use crate::types::AttributeStorage;
use crate::types::ColumnType::{
    Array, Bool, DateTime64, Float64, Int32, LowCardinalityString, UInt32, UInt64,
};

pub(super) fn metrics_table(kind: TableKind, attributes: AttributeStorage) -> Table {
    let set = attributes.column_type();
    let mut columns = vec![
        zstd_column("ResourceAttributes", set, RESOURCE_ATTRIBUTES),
        zstd_column("ResourceSchemaUrl", LowCardinalityString, RESOURCE_SCHEMA_URL),
        zstd_column("ScopeName", LowCardinalityString, SCOPE_NAME),
        zstd_column("ScopeVersion", LowCardinalityString, SCOPE_VERSION),
        zstd_column("ScopeAttributes", set, SCOPE_ATTRIBUTES),
        zstd_column("ScopeDroppedAttrCount", UInt32, "scope attributes the sender omitted"),
        zstd_column("ScopeSchemaUrl", LowCardinalityString, SCOPE_SCHEMA_URL),
        zstd_column("ServiceName", LowCardinalityString, SERVICE_NAME),
        zstd_column(
            "MetricName",
            LowCardinalityString,
            "name of the metric: second in the sorting key",
        ),
        zstd_column("MetricDescription", LowCardinalityString, "description of the metric"),
        zstd_column("MetricUnit", LowCardinalityString, "unit of the metric (UCUM)"),
        zstd_column(
            "Attributes",
            set,
            "attributes of the point: with the name they are its series",
        ),
        delta_column("StartTimeUnix", DateTime64, 8, "when the point's time span began"),
        delta_column("TimeUnix", DateTime64, 8, "when the point was taken"),
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
    let flags = zstd_column("Flags", UInt32, "data point flags; 1: no value was recorded");
    let value = zstd_column("Value", Float64, "the value; integers as floating point");
    let temporality = zstd_column("AggregationTemporality", Int32, "1 delta, 2 cumulative");
    let count_and_sum = [
        delta_column("Count", UInt64, 8, "number of values"),
        zstd_column("Sum", Float64, "sum of the values"),
    ];
    let range = [
        zstd_column("Min", Float64, "smallest value, 0 if not reported"),
        zstd_column("Max", Float64, "largest value, 0 if not reported"),
    ];
    let exemplars = exemplar_columns(attributes);
    let mut columns = Vec::new();
    match kind {
        TableKind::MetricsGauge => {
            columns.extend([value, flags]);
            columns.extend(exemplars);
        }
        TableKind::MetricsSum => {
            columns.extend([value, flags]);
            columns.extend(exemplars);
            columns.extend([
                temporality,
                delta_column("IsMonotonic", Bool, 1, "whether the sum only grows"),
            ]);
        }
        TableKind::MetricsHistogram => {
            columns.extend(count_and_sum);
            columns.extend(bucket_columns());
            columns.extend(exemplars);
            columns.push(flags);
            columns.extend(range);
            columns.push(temporality);
        }
        TableKind::MetricsExponentialHistogram => {
            columns.extend(count_and_sum);
            columns.extend(exponential_bucket_columns());
            columns.extend(exemplars);
            columns.push(flags);
            columns.extend(range);
            columns.push(temporality);
        }
        TableKind::MetricsSummary => {
            columns.extend(count_and_sum);
            columns.extend([
                zstd_column("ValueAtQuantiles.Quantile", Array(&Float64), "each quantile, 0 to 1"),
                zstd_column("ValueAtQuantiles.Value", Array(&Float64), "the value at it"),
                flags,
            ]);
        }
        TableKind::Traces | TableKind::TraceIdTs | TableKind::Logs => {}
    }
    columns
}

fn exemplar_columns(attributes: AttributeStorage) -> [Column; 5] {
    let set = array_of(attributes);
    [
        zstd_column("Exemplars.FilteredAttributes", set, "attributes of each exemplar"),
        zstd_column("Exemplars.TimeUnix", Array(&DateTime64), "time of each exemplar"),
        zstd_column("Exemplars.Value", Array(&Float64), "value of each exemplar"),
        zstd_column("Exemplars.SpanId", Array(&TEXT), "span of each exemplar"),
        zstd_column("Exemplars.TraceId", Array(&TEXT), "trace of each exemplar"),
    ]
}

fn bucket_columns() -> [Column; 2] {
    let bounds = "upper bounds of the buckets but the last";
    [
        zstd_column("BucketCounts", Array(&UInt64), "values in each bucket"),
        zstd_column("ExplicitBounds", Array(&Float64), bounds),
    ]
}

fn exponential_bucket_columns() -> [Column; 6] {
    let counts = Array(&UInt64);
    [
        zstd_column("Scale", Int32, "resolution of the exponential buckets"),
        zstd_column("ZeroCount", UInt64, "values that count as zero"),
        zstd_column("PositiveOffset", Int32, "index of the first positive bucket"),
        zstd_column("PositiveBucketCounts", counts, "values in each positive bucket"),
        zstd_column("NegativeOffset", Int32, "index of the first negative bucket"),
        zstd_column("NegativeBucketCounts", counts, "values in each negative bucket"),
    ]
}
