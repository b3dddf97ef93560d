//! The logs table.

use super::parts::{
    TEXT, bloom_index, delta_column, map_indexes, plain_column, token_index, zstd_column,
};
use crate::kind::TableKind;
use crate::table::{Codec, Column, Expr, Index, Table, ValueOrigin};
use crate::types::AttributeStorage;
use crate::types::ColumnType::{DateTime, DateTime64, LowCardinalityString, UInt8};

pub(super) fn logs_table(attributes: AttributeStorage) -> Table {
    let set = attributes.column_type();
    let mut columns = vec![delta_column("Timestamp", DateTime64, 8)];
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
            });
            let seconds = Expr::Column("TimestampTime");
            (seconds, Expr::ToDate("TimestampTime"), seconds)
        }
    };
    columns.extend([
        zstd_column("TraceId", TEXT),
        zstd_column("SpanId", TEXT),
        plain_column("TraceFlags", UInt8),
        zstd_column("SeverityText", LowCardinalityString),
        plain_column("SeverityNumber", UInt8),
        zstd_column("ServiceName", LowCardinalityString),
        zstd_column("Body", TEXT),
        zstd_column("ResourceSchemaUrl", LowCardinalityString),
        zstd_column("ResourceAttributes", set),
        zstd_column("ScopeSchemaUrl", LowCardinalityString),
        zstd_column("ScopeName", TEXT),
        zstd_column("ScopeVersion", LowCardinalityString),
        zstd_column("ScopeAttributes", set),
        zstd_column("LogAttributes", set),
        zstd_column("EventName", TEXT),
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
