//! Queries that read back what a load generator sent: how many rows of a run are there, and every
//! row of a slice of time with its whole content.

use super::{Statement, full, literal};
use crate::declared::TableName;

/// How many spans of a run are stored. `service_prefix` is what the run's service names begin with.
#[must_use]
pub fn count_spans(table: &TableName, service_prefix: &str) -> Statement {
    let (table, prefix) = (full(table), literal(service_prefix));
    Statement::new(format!(
        "SELECT count() AS count FROM {table} WHERE startsWith(ServiceName, {prefix})"
    ))
}

/// Every column of a run's spans whose `Timestamp` is at or after `from` and before `to`, in no
/// order; `None` is no bound. Times, the bounds too, are nanoseconds since 1970, and attributes
/// JSON text, whatever the table's variant. To be read as `RowBinary`.
#[must_use]
pub fn spans(
    table: &TableName,
    service_prefix: &str,
    from: Option<i64>,
    to: Option<i64>,
) -> Statement {
    let (table, prefix) = (full(table), literal(service_prefix));
    let bound = |sign: &str, nanos: Option<i64>| {
        nanos.map_or_else(String::new, |nanos| {
            format!(" AND Timestamp {sign} fromUnixTimestamp64Nano(toInt64({nanos}))")
        })
    };
    let (from, to) = (bound(">=", from), bound("<", to));
    let statement = Statement::new(format!(
        "SELECT toUnixTimestamp64Nano(Timestamp), TraceId, SpanId, ParentSpanId, TraceState, \
         CAST(SpanName AS String), CAST(SpanKind AS String), CAST(ServiceName AS String), \
         toJSONString(ResourceAttributes), ScopeName, ScopeVersion, \
         toJSONString(SpanAttributes), Duration, CAST(StatusCode AS String), StatusMessage, \
         arrayMap(time -> toUnixTimestamp64Nano(time), `Events.Timestamp`), \
         CAST(`Events.Name` AS Array(String)), toJSONString(`Events.Attributes`), \
         `Links.TraceId`, `Links.SpanId`, `Links.TraceState`, toJSONString(`Links.Attributes`) \
         FROM {table} WHERE startsWith(ServiceName, {prefix}){from}{to}"
    ));
    // Integers as JSON numbers, so that a text that became a number, or the reverse, is seen.
    statement.with_setting("output_format_json_quote_64bit_integers", "0")
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
        let statement = count_spans(&table, "x') OR ('1' = '1");
        assert!(statement.sql().ends_with(r"startsWith(ServiceName, 'x\') OR (\'1\' = \'1')"));
    }
}
