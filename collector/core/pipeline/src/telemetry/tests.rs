//! Tests of the private code of `telemetry.rs`.

use super::{CloseReason, RefusalReason, Telemetry, Unverified};
use crate::budget::Budget;
use millrace_wire::Signal;
use std::time::Duration;

fn line<'a>(text: &'a str, start: &str) -> &'a str {
    text.lines().find(|line| line.starts_with(start)).unwrap_or("absent")
}

/// Scenario: one of each metric is counted. Guarantee: the text has the names and labels that
/// dashboards and the operator read.
#[test]
fn metrics_have_the_agreed_names() {
    let budget = Budget::new(1000);
    let telemetry = Telemetry::new(budget.clone(), "0.1.0", "system").unwrap();
    telemetry.records_in(Signal::Traces, 5);
    telemetry.records_out(Signal::Traces, 4);
    telemetry.add_buffered(Signal::Logs, 3);
    telemetry.record_refused(Signal::Logs, RefusalReason::Malformed, 1);
    telemetry.connection_closed("grpc", CloseReason::BudgetFull);
    telemetry.dead_lettered(Signal::Traces, "truncated");
    telemetry.dead_letter_stored(Signal::Traces, "truncated", 60);
    telemetry.record_lag("otlp_traces", 3, 7, Duration::from_millis(1500));
    telemetry.record_insert_time(Duration::from_millis(30), None);
    telemetry.insert_retried("retry");
    telemetry.insert_unverified(Unverified::NoCount);
    telemetry.record_table_check("otel.otel_logs", 2, false);
    telemetry.insert_stored("otel.otel_logs");
    telemetry.record_dedup_window("otel.otel_logs", 100, Some(60));
    let held = budget.try_reserve(250).unwrap();
    let text = telemetry.render().unwrap();
    for expected in [
        "millrace_records_in_total{signal=\"traces\"} 5",
        "millrace_records_out_total{signal=\"traces\"} 4",
        "millrace_records_in_flight{signal=\"logs\"} 3",
        "millrace_records_refused_total{reason=\"malformed\",signal=\"logs\"} 1",
        "millrace_connections_closed_total{listener=\"grpc\",reason=\"no_room\"} 1",
        "millrace_records_dead_lettered_total{reason=\"truncated\",signal=\"traces\"} 1",
        "millrace_dead_letter_bytes_total{reason=\"truncated\",signal=\"traces\"} 60",
        "millrace_consumer_lag_messages{partition=\"3\",topic=\"otlp_traces\"} 7",
        "millrace_consumer_lag_seconds{partition=\"3\",topic=\"otlp_traces\"} 1.5",
        "millrace_insert_duration_seconds_count 1",
        "millrace_insert_retries_total{class=\"retry\"} 1",
        "millrace_inserts_unverified_total{cause=\"no_count\"} 1",
        "millrace_table_columns_missing{table=\"otel.otel_logs\"} 2",
        "millrace_table_deduplicates{table=\"otel.otel_logs\"} 0",
        "millrace_table_inserts_total{table=\"otel.otel_logs\"} 1",
        "millrace_table_deduplication_window_inserts{table=\"otel.otel_logs\"} 100",
        "millrace_table_deduplication_window_seconds{table=\"otel.otel_logs\"} 60",
        "millrace_bytes_in_flight 250",
        "millrace_budget_bytes 1000",
    ] {
        let name = expected.rsplit_once(' ').map_or(expected, |(name, _)| name);
        assert_eq!(line(&text, name), expected);
    }
    let build = line(&text, "millrace_build_info{");
    assert!(build.contains("allocator=\"system\"") && build.ends_with("version=\"0.1.0\"} 1"));
    assert!(text.contains("process_cpu_seconds_total"));
    assert!(text.contains("process_start_time_seconds"));
    drop(held);
}

/// Scenario: a partition is revoked. Guarantee: its series are removed.
#[test]
fn a_lost_partition_leaves_no_series_behind() {
    let telemetry = Telemetry::new(Budget::new(1), "0", "system").unwrap();
    telemetry.record_lag("t", 1, 7, Duration::ZERO);
    telemetry.remove_lag("t", 1);
    telemetry.remove_lag("t", 2);
    assert!(!telemetry.render().unwrap().contains("consumer_lag_messages{"));
}
