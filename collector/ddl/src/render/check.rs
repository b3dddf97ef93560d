//! Queries that read back what a load generator sent: how many rows of a run are there, and every
//! row of a slice of time with its whole content. One form for all tables: what is asked follows
//! from the table's definition.

use millrace_schema::{ColumnType, Table, TableKind};

use super::{Statement, full, literal, quote};
use crate::names::TableName;

/// The column whose time says when a record happened.
const fn time_column(kind: TableKind) -> &'static str {
    match kind {
        TableKind::Traces | TableKind::Logs => "Timestamp",
        TableKind::TraceIdTs => "Start",
        TableKind::MetricsGauge
        | TableKind::MetricsSum
        | TableKind::MetricsHistogram
        | TableKind::MetricsExponentialHistogram
        | TableKind::MetricsSummary => "TimeUnix",
    }
}

/// How many rows of a run are stored. `service_prefix` is what the run's service names begin with.
#[must_use]
pub fn count_rows(name: &TableName, service_prefix: &str) -> Statement {
    let (table, prefix) = (full(name), literal(service_prefix));
    Statement::new(format!(
        "SELECT count() AS count FROM {table} WHERE startsWith(ServiceName, {prefix})"
    ))
}

/// Every inserted column of a run's rows whose time is at or after `from` and before `to`, in the
/// order of `definition` and with its types, rows in no order; `None` is no bound. Bounds are
/// nanoseconds since 1970. Attributes come as JSON text, whatever the table's variant. To be read
/// as `RowBinary`; a table that someone else made with other types is read in ours.
#[must_use]
pub fn rows(
    name: &TableName,
    definition: &Table,
    service_prefix: &str,
    from: Option<i64>,
    to: Option<i64>,
) -> Statement {
    let (table, prefix) = (full(name), literal(service_prefix));
    let time = quote(time_column(definition.kind));
    let bound = |sign: &str, nanos: Option<i64>| {
        nanos.map_or_else(String::new, |nanos| {
            format!(" AND {time} {sign} fromUnixTimestamp64Nano(toInt64({nanos}))")
        })
    };
    let (from, to) = (bound(">=", from), bound("<", to));
    let columns: Vec<String> =
        definition.insert_columns().map(|column| read_form(column.name, column.ty)).collect();
    let columns = columns.join(", ");
    let statement = Statement::new(format!(
        "SELECT {columns} FROM {table} WHERE startsWith(ServiceName, {prefix}){from}{to}"
    ));
    // Integers as JSON numbers, so that a text that became a number, or the reverse, is seen.
    statement.with_setting("output_format_json_quote_64bit_integers", "0")
}

/// A column as it is read back.
fn read_form(name: &str, ty: ColumnType) -> String {
    let name = quote(name);
    let is_set = |ty| matches!(ty, ColumnType::Json | ColumnType::Map);
    match ty {
        ColumnType::Array(item) if is_set(*item) => format!("toJSONString({name})"),
        ty if is_set(ty) => format!("toJSONString({name})"),
        ColumnType::LowCardinalityString => format!("CAST({name} AS String)"),
        ColumnType::Array(ColumnType::LowCardinalityString) => {
            format!("CAST({name} AS Array(String))")
        }
        ty => format!("CAST({name} AS {ty})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: a prefix that tries to leave its literal. Guarantee: it does not.
    #[test]
    fn the_prefix_stays_a_literal() {
        let name = |text: &str| text.parse().unwrap();
        let table =
            TableName::new(&name("otel"), &name("otel"), millrace_schema::TableKind::Traces);
        let statement = count_rows(&table, "x') OR ('1' = '1");
        assert!(statement.sql().ends_with(r"startsWith(ServiceName, 'x\') OR (\'1\' = \'1')"));
    }
}
