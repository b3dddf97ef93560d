//! The traces table, and the table that finds a trace by its id.

use super::parts::{TEXT, array_of, bloom_index, delta_column, map_indexes, zstd_column};
use crate::kind::TableKind;
use crate::table::{Expr, Table};
use crate::types::AttributeStorage;
use crate::types::ColumnType::{Array, DateTime, DateTime64, LowCardinalityString, UInt64};

pub(super) fn traces_table(attributes: AttributeStorage) -> Table {
    let set = attributes.column_type();
    let mut indexes = vec![bloom_index("idx_trace_id", Expr::Column("TraceId"), 1)];
    indexes.extend(map_indexes(
        attributes,
        [
            ("ResourceAttributes", "idx_res_attr_key", "idx_res_attr_value"),
            ("SpanAttributes", "idx_span_attr_key", "idx_span_attr_value"),
            ("", "", ""),
        ],
    ));
    Table {
        kind: TableKind::Traces,
        attributes,
        columns: vec![
            delta_column("Timestamp", DateTime64, 8),
            zstd_column("TraceId", TEXT),
            zstd_column("SpanId", TEXT),
            zstd_column("ParentSpanId", TEXT),
            zstd_column("TraceState", TEXT),
            zstd_column("SpanName", LowCardinalityString),
            zstd_column("SpanKind", LowCardinalityString),
            zstd_column("ServiceName", LowCardinalityString),
            zstd_column("ResourceAttributes", set),
            zstd_column("ScopeName", TEXT),
            zstd_column("ScopeVersion", TEXT),
            zstd_column("SpanAttributes", set),
            zstd_column("Duration", UInt64),
            zstd_column("StatusCode", LowCardinalityString),
            zstd_column("StatusMessage", TEXT),
            zstd_column("Events.Timestamp", Array(&DateTime64)),
            zstd_column("Events.Name", Array(&LowCardinalityString)),
            zstd_column("Events.Attributes", array_of(attributes)),
            zstd_column("Links.TraceId", Array(&TEXT)),
            zstd_column("Links.SpanId", Array(&TEXT)),
            zstd_column("Links.TraceState", Array(&TEXT)),
            zstd_column("Links.Attributes", array_of(attributes)),
        ],
        computed: Vec::new(),
        indexes,
        partition_by: Expr::ToDate("Timestamp"),
        primary_key: Vec::new(),
        // Without the name, spans of a trace stay together: a fifth fewer bytes.
        order_by: vec![Expr::Column("ServiceName"), Expr::ToDateTime("Timestamp")],
        ttl_from: Expr::ToDateTime("Timestamp"),
    }
}

pub(super) fn trace_id_ts(attributes: AttributeStorage) -> Table {
    Table {
        kind: TableKind::TraceIdTs,
        attributes,
        columns: vec![
            zstd_column("TraceId", TEXT),
            delta_column("Start", DateTime, 4),
            delta_column("End", DateTime, 4),
        ],
        computed: Vec::new(),
        indexes: vec![bloom_index("idx_trace_id", Expr::Column("TraceId"), 10)],
        partition_by: Expr::ToDate("Start"),
        primary_key: Vec::new(),
        order_by: vec![Expr::Column("TraceId"), Expr::Column("Start")],
        ttl_from: Expr::Column("Start"),
    }
}
