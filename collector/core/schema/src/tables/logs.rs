//! The logs table.

use super::parts::{
    RESOURCE_ATTRIBUTES, RESOURCE_SCHEMA_URL, SCOPE_ATTRIBUTES, SCOPE_NAME, SCOPE_SCHEMA_URL,
    SCOPE_VERSION, SERVICE_NAME, SPAN_ID, TEXT, TRACE_ID, bloom_index, delta_column, map_indexes,
    plain_column, token_index, zstd_column,
};
use crate::kind::TableKind;
use crate::table::{Codec, Column, Expr, Index, Table, ValueOrigin};
use crate::types::AttributeStorage;
use crate::types::ColumnType::{DateTime, DateTime64, LowCardinalityString, UInt8};

pub(super) fn logs_table(attributes: AttributeStorage) -> Table {
    let set = attributes.column_type();
    let mut columns = vec![delta_column(
        "Timestamp",
        DateTime64,
        8,
        "time of the record; the observed time where it has none",
    )];
    // The Map variant's readers (such as Grafana) filter on a column of whole seconds.
    let (seconds, day, ttl_from) = match attributes {
        AttributeStorage::Json => {
            let seconds = Expr::ToDateTime("Timestamp");
            (seconds, Expr::ToDate("Timestamp"), seconds)
        }
        AttributeStorage::Map => {
            columns.push(Column {
                name: "TimestampTime",
                ty: DateTime,
                codec: Codec::DeltaZstd { width_bytes: 4 },
                origin: ValueOrigin::Default(Expr::ToDateTime("Timestamp")),
                reason: "the same in whole seconds, for readers that filter by it",
            });
            let seconds = Expr::Column("TimestampTime");
            (seconds, Expr::ToDate("TimestampTime"), seconds)
        }
    };
    columns.extend([
        zstd_column("TraceId", TEXT, TRACE_ID),
        zstd_column("SpanId", TEXT, SPAN_ID),
        plain_column("TraceFlags", UInt8, "W3C trace flags, the low eight bits"),
        zstd_column("SeverityText", LowCardinalityString, "severity in the sender's words"),
        plain_column(
            "SeverityNumber",
            UInt8,
            "severity as a number from 1 (TRACE) to 24 (FATAL4), 0 if none",
        ),
        zstd_column("ServiceName", LowCardinalityString, SERVICE_NAME),
        zstd_column("Body", TEXT, "body of the record; what is no text is JSON"),
        zstd_column("ResourceSchemaUrl", LowCardinalityString, RESOURCE_SCHEMA_URL),
        zstd_column("ResourceAttributes", set, RESOURCE_ATTRIBUTES),
        zstd_column("ScopeSchemaUrl", LowCardinalityString, SCOPE_SCHEMA_URL),
        zstd_column("ScopeName", TEXT, SCOPE_NAME),
        zstd_column("ScopeVersion", LowCardinalityString, SCOPE_VERSION),
        zstd_column("ScopeAttributes", set, SCOPE_ATTRIBUTES),
        zstd_column("LogAttributes", set, "attributes of the log record"),
        zstd_column("EventName", TEXT, "name of the event, for records that are events"),
    ]);
    Table {
        kind: TableKind::Logs,
        attributes,
        columns,
        computed: Vec::new(),
        indexes: log_indexes(attributes),
        partition_by: day,
        primary_key: vec![Expr::Column("ServiceName"), seconds],
        order_by: vec![Expr::Column("ServiceName"), seconds, Expr::Column("Timestamp")],
        ttl_from,
    }
}

fn log_indexes(attributes: AttributeStorage) -> Vec<Index> {
    let mut indexes = vec![bloom_index("idx_trace_id", Expr::Column("TraceId"), 1)];
    indexes.extend(map_indexes(
        attributes,
        [
            ("ResourceAttributes", "idx_res_attr_key", "idx_res_attr_value"),
            ("ScopeAttributes", "idx_scope_attr_key", "idx_scope_attr_value"),
            ("LogAttributes", "idx_log_attr_key", "idx_log_attr_value"),
        ],
    ));
    indexes.push(token_index("idx_body", Expr::Column("Body")));
    indexes
}
