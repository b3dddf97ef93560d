//! Renders the query for a test run's rows, and the privilege that it needs. It only reads.

use crate::declared::names::TableName;
use crate::privileges::privilege::{Privilege, PrivilegeScope};
use crate::render::grant::grant_statement;
use crate::render::{Statement, literal, qualified_name};
use crate::test_run::{TEST_RECORDS_MAX, TEST_SERVICE, TestRun, TestTable};

/// Counts the stored copies of each record of a run. Fields: `id` (the record's number as hex
/// digits) and `copies`. It uses columns that exist in every layout, attribute type and writer's
/// tables; service and time come first in their sorting keys or partitions, so a query reads few
/// granules. One row more than a run may have shows that there are too many.
#[must_use]
pub fn test_rows(name: &TableName, table: TestTable, run: &TestRun) -> Statement {
    let (id, time, of_run) = match table {
        TestTable::Traces | TestTable::Logs => ("SpanId", "Timestamp", "startsWith(TraceId, "),
        TestTable::Gauge => ("hex(toUInt64(Value))", "TimeUnix", "(ScopeVersion = "),
    };
    let (from, service, run_id) =
        (qualified_name(name), literal(TEST_SERVICE), literal(run.id.as_str()));
    let nanos = i64::from(run.since_seconds) * 1_000_000_000;
    let limit = TEST_RECORDS_MAX + 1;
    Statement::new(format!(
        "SELECT {id} AS id, toUInt32(count()) AS copies FROM {from} \
         WHERE ServiceName = {service} AND {time} >= fromUnixTimestamp64Nano(toInt64({nanos})) \
         AND {of_run}{run_id}) GROUP BY id LIMIT {limit}"
    ))
}

/// Returns the statement with which an administrator lets a user run [`test_rows`]. It is shown,
/// never run.
#[must_use]
pub fn test_rows_grant(name: &TableName, user: &str) -> String {
    grant_statement(&[Privilege { name: "SELECT", on: PrivilegeScope::Table(name.clone()) }], user)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the table of each signal. Guarantee: the query selects this run alone, by columns
    /// that exist in all layouts; the grant names the table and the user.
    #[test]
    fn a_runs_rows_are_asked_for_by_what_every_layout_has() {
        let run = TestRun { id: "00000000000000a1".parse().unwrap(), since_seconds: 1_790_000_000 };
        let prefix = "otel".parse().unwrap();
        let asked = |table: TestTable| {
            let name = TableName::new(&prefix, &prefix, table.kind());
            test_rows(&name, table, &run).sql().to_owned()
        };
        assert_eq!(
            asked(TestTable::Traces),
            "SELECT SpanId AS id, toUInt32(count()) AS copies FROM `otel`.`otel_traces` \
             WHERE ServiceName = 'kubectl-millrace' \
             AND Timestamp >= fromUnixTimestamp64Nano(toInt64(1790000000000000000)) \
             AND startsWith(TraceId, '00000000000000a1') GROUP BY id LIMIT 10001"
        );
        assert!(asked(TestTable::Logs).contains("FROM `otel`.`otel_logs` WHERE"));
        let gauge = asked(TestTable::Gauge);
        assert!(gauge.starts_with("SELECT hex(toUInt64(Value)) AS id, "), "{gauge}");
        assert!(gauge.contains("AND (ScopeVersion = '00000000000000a1') GROUP BY"), "{gauge}");
        let name = TableName::new(&prefix, &prefix, TestTable::Logs.kind());
        assert_eq!(
            test_rows_grant(&name, "gate`way"),
            "GRANT SELECT ON `otel`.`otel_logs` TO `gate\\`way`"
        );
    }
}
