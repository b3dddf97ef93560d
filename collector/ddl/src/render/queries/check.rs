//! Renders queries that read back a load generator's records: the number of a run's rows, and each
//! row of a time slice with all columns. One form serves all tables, derived from the table's
//! definition.

use millrace_schema::{ColumnType, Table, TableKind};

use crate::declared::names::TableName;
use crate::render::{Statement, literal, qualified_name, quote};

/// Returns the column with a record's time.
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

/// Counts a run's stored rows. `service_prefix` is the prefix of the run's service names.
#[must_use]
pub fn count_rows(name: &TableName, service_prefix: &str) -> Statement {
    let (table, prefix) = (qualified_name(name), literal(service_prefix));
    Statement::new(format!(
        "SELECT count() AS count FROM {table} WHERE startsWith(ServiceName, {prefix})"
    ))
}

/// Reads every inserted column of a run's rows with a time at or after `from` and before `to`, in
/// nanoseconds since 1970 (`None`: unbounded). Columns are in the order of `definition` and have
/// its types, also where another writer created the table with others; rows are unordered.
/// Attributes are JSON text in both variants. The answer is to be read as `RowBinary`.
#[must_use]
pub fn select_rows(
    name: &TableName,
    definition: &Table,
    service_prefix: &str,
    from: Option<i64>,
    to: Option<i64>,
) -> Statement {
    let (table, prefix) = (qualified_name(name), literal(service_prefix));
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
    // Integers are JSON numbers, so that the test notices a text that became a number, or the
    // reverse.
    statement.with_setting("output_format_json_quote_64bit_integers", "0")
}

/// Returns the expression that reads a column back.
fn read_form(name: &str, ty: ColumnType) -> String {
    let name = quote(name);
    let is_set = |ty| matches!(ty, ColumnType::Json | ColumnType::Map | ColumnType::DictionaryMap);
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

    /// Scenario: a prefix that tries to escape its literal. Guarantee: it stays inside.
    #[test]
    fn the_prefix_stays_a_literal() {
        let name = |text: &str| text.parse().unwrap();
        let table =
            TableName::new(&name("otel"), &name("otel"), millrace_schema::TableKind::Traces);
        let statement = count_rows(&table, "x') OR ('1' = '1");
        assert!(statement.sql().ends_with(r"startsWith(ServiceName, 'x\') OR (\'1\' = \'1')"));
    }
}
