//! The traces table, and the table that finds a trace by its id.

use super::parts::{TEXT, array_of, bloom, column, delta, map_indexes};
use crate::kind::TableKind;
use crate::table::{Expr, Index, IndexKind, Table};
use crate::types::Attributes;
use crate::types::ColumnType::{Array, DateTime, DateTime64, LowCardinalityString, UInt64};

pub(super) fn traces(attributes: Attributes) -> Table {
    let set = attributes.column_type();
    let mut indexes = vec![bloom("idx_trace_id", Expr::Column("TraceId"), 1)];
    indexes.extend(map_indexes(
        attributes,
        [
            ("ResourceAttributes", "idx_res_attr_key", "idx_res_attr_value"),
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
        computed: Vec::new(),
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

pub(super) fn trace_id_ts(attributes: Attributes) -> Table {
    Table {
        kind: TableKind::TraceIdTs,
        attributes,
        columns: vec![
            column("TraceId", TEXT),
            delta("Start", DateTime, 4),
            delta("End", DateTime, 4),
        ],
        computed: Vec::new(),
        indexes: vec![bloom("idx_trace_id", Expr::Column("TraceId"), 10)],
        partition_by: Expr::ToDate("Start"),
        primary_key: Vec::new(),
        order_by: vec![Expr::Column("TraceId"), Expr::Column("Start")],
        ttl_from: Expr::Column("Start"),
    }
}
