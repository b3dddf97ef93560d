//! The question for the rows of a test run, and the privilege that it needs. Reads alone.

use super::grant::grant;
use super::{Statement, full, literal};
use crate::names::TableName;
use crate::privilege::{Privilege, Scope};
use crate::test_run::{TEST_RECORDS_MAX, TEST_SERVICE, TestRun, TestTable};

/// How often each record of a run is stored. Fields `id` (the record's number as hex digits) and
/// `copies`. Columns that every layout, attribute type and writer of these tables has; the service
/// and the time come first in their sorting keys or partitions, so a look reads few granules. One
/// row more than a run may have shows that there are too many.
#[must_use]
pub fn test_rows(name: &TableName, table: TestTable, run: &TestRun) -> Statement {
    let (id, time, of_run) = match table {
        TestTable::Traces | TestTable::Logs => ("SpanId", "Timestamp", "startsWith(TraceId, "),
        TestTable::Gauge => ("hex(toUInt64(Value))", "TimeUnix", "(ScopeVersion = "),
    };
    let (from, service, run_id) = (full(name), literal(TEST_SERVICE), literal(run.id.as_str()));
    let nanos = i64::from(run.since_seconds) * 1_000_000_000;
    let limit = TEST_RECORDS_MAX + 1;
    Statement::new(format!(
        "SELECT {id} AS id, toUInt32(count()) AS copies FROM {from} \
         WHERE ServiceName = {service} AND {time} >= fromUnixTimestamp64Nano(toInt64({nanos})) \
         AND {of_run}{run_id}) GROUP BY id LIMIT {limit}"
    ))
}

/// What an administrator runs so that a user may ask [`test_rows`]. It is shown, never run.
#[must_use]
pub fn test_rows_grant(name: &TableName, user: &str) -> String {
    grant(&[Privilege { name: "SELECT", on: Scope::Table(name.clone()) }], user)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: the table of each signal. Guarantee: the statement asks for this run alone, by
    /// columns that all layouts have; the grant names the table and the user.
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
