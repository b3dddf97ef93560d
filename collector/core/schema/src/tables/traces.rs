//! The traces table, and the table that finds a trace by its id.

use super::parts::{
    RESOURCE_ATTRIBUTES, SCOPE_NAME, SCOPE_VERSION, SERVICE_NAME, SPAN_ID, TEXT, TRACE_ID,
    array_of, bloom_index, delta_column, map_indexes, zstd_column,
};
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
            delta_column("Timestamp", DateTime64, 8, "start of the span (start_time_unix_nano)"),
            zstd_column("TraceId", TEXT, TRACE_ID),
            zstd_column("SpanId", TEXT, SPAN_ID),
            zstd_column("ParentSpanId", TEXT, "parent span, empty at the root of a trace"),
            zstd_column("TraceState", TEXT, "W3C trace state as sent"),
            zstd_column(
                "SpanName",
                LowCardinalityString,
                "name of the operation; few different ones, so a dictionary",
            ),
            zstd_column(
                "SpanKind",
                LowCardinalityString,
                "Server, Client, Internal, Producer, Consumer or Unspecified",
            ),
            zstd_column("ServiceName", LowCardinalityString, SERVICE_NAME),
            zstd_column("ResourceAttributes", set, RESOURCE_ATTRIBUTES),
            zstd_column("ScopeName", TEXT, SCOPE_NAME),
            zstd_column("ScopeVersion", TEXT, SCOPE_VERSION),
            zstd_column("SpanAttributes", set, "attributes of the span"),
            zstd_column("Duration", UInt64, "end less start, in nanoseconds"),
            zstd_column("StatusCode", LowCardinalityString, "Unset, Ok or Error"),
            zstd_column("StatusMessage", TEXT, "what the sender says of an error"),
            zstd_column("Events.Timestamp", Array(&DateTime64), "time of each event of the span"),
            zstd_column("Events.Name", Array(&LowCardinalityString), "name of each event"),
            zstd_column("Events.Attributes", array_of(attributes), "attributes of each event"),
            zstd_column("Links.TraceId", Array(&TEXT), "trace of each linked span"),
            zstd_column("Links.SpanId", Array(&TEXT), "each linked span"),
            zstd_column("Links.TraceState", Array(&TEXT), "trace state of each link"),
            zstd_column("Links.Attributes", array_of(attributes), "attributes of each link"),
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
            zstd_column("TraceId", TEXT, "the trace; what the lookup is by"),
            delta_column(
                "Start",
                DateTime,
                4,
                "second in which the trace's first span of an insert began",
            ),
            delta_column(
                "End",
                DateTime,
                4,
                "second in which its last one began; bounds the search in the span table",
            ),
        ],
        computed: Vec::new(),
        indexes: vec![bloom_index("idx_trace_id", Expr::Column("TraceId"), 10)],
        partition_by: Expr::ToDate("Start"),
        primary_key: Vec::new(),
        order_by: vec![Expr::Column("TraceId"), Expr::Column("Start")],
        ttl_from: Expr::Column("Start"),
    }
}
