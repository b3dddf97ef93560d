//! Tests of `work.rs`.

use super::retain_accepted;
use millrace_pipeline::budget::Budget;
use millrace_pipeline::telemetry::RefusalReason;
use millrace_wire::Signal;
use millrace_wire::otlp::TimeRange;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;

/// Scenario: a request of two records, one out of range, under budgets for one copy and for a byte
/// less. Guarantee: the budget covers the copy's complete memory while it lasts; without budget the
/// client may retry: an idle collector has it for any request.
#[test]
fn the_budget_covers_a_request_without_records() {
    let record = |time_unix_nano| LogRecord { time_unix_nano, ..LogRecord::default() };
    let scope_logs =
        vec![ScopeLogs { log_records: vec![record(5), record(500)], ..ScopeLogs::default() }];
    let resource_logs = vec![ResourceLogs { scope_logs, ..ResourceLogs::default() }];
    let request = ExportLogsServiceRequest { resource_logs }.encode_to_vec();
    let (length, times) = (request.len() as u64, TimeRange::around(5, 1, 1));

    let budget = Budget::new(length);
    let (copy, reservation) = retain_accepted(&budget, Signal::Logs, &request, &times).unwrap();
    assert!(copy.len() < request.len());
    assert_eq!((copy.capacity() as u64, budget.used_bytes()), (length, length));
    drop(reservation);
    assert_eq!(budget.used_bytes(), 0);

    let small = Budget::new(length - 1);
    let denied = retain_accepted(&small, Signal::Logs, &request, &times).unwrap_err();
    assert_eq!(denied.reason, RefusalReason::Full);
    assert!(denied.retry_after().is_some());
}
