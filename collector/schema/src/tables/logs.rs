//! The logs table.

use super::parts::{TEXT, bloom, column, delta, map_indexes, plain, words};
use crate::kind::TableKind;
use crate::table::{Codec, Column, Expr, Index, Origin, Table};
use crate::types::Attributes;
use crate::types::ColumnType::{DateTime, DateTime64, LowCardinalityString, UInt8};

pub(super) fn logs(attributes: Attributes) -> Table {
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
        computed: Vec::new(),
        indexes: log_indexes(attributes),
        partition_by: day,
        primary_key: vec![Expr::Column("ServiceName"), seconds],
        order_by: vec![Expr::Column("ServiceName"), seconds, Expr::Column("Timestamp")],
        ttl_from,
    }
}

fn log_indexes(attributes: Attributes) -> Vec<Index> {
    let mut indexes = vec![bloom("idx_trace_id", Expr::Column("TraceId"), 1)];
    indexes.extend(map_indexes(
        attributes,
        [
            ("ResourceAttributes", "idx_res_attr_key", "idx_res_attr_value"),
            ("ScopeAttributes", "idx_scope_attr_key", "idx_scope_attr_value"),
            ("LogAttributes", "idx_log_attr_key", "idx_log_attr_value"),
        ],
    ));
    indexes.push(words("idx_body", Expr::Column("Body")));
    indexes
}
