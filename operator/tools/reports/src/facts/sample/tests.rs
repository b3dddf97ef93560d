//! Tests of reading metrics.

use proptest::prelude::*;

use millrace_figures::TextError;

use super::parse_sample;

const TEXT: &str = r#"
# TYPE millrace_records_in_total counter
millrace_records_in_total{signal="logs"} 7
millrace_records_in_total{signal="traces"} 100 1700000000000
millrace_records_refused_total{signal="traces",reason="too } \" long"} 1
millrace_records_dead_lettered_total{signal="traces",reason="malformed"} 2
millrace_records_lost_to_retention_total{topic="otlp_traces"} 40
millrace_records_in_flight{signal="traces"} -3
millrace_consumer_lag_messages{topic="otlp_traces",partition="4"} 12
millrace_consumer_lag_seconds{topic="otlp_traces",partition="4"} 1.5
millrace_insert_duration_seconds_bucket{le="+Inf"} 5
millrace_insert_duration_seconds_count 5
millrace_build_info{version="0.1.0",allocator="system"} 1
millrace_budget_bytes 1.048576e6
process_cpu_seconds_total 12.25
process_start_time_seconds 1790000000
millrace_of_a_later_release NaN
"#;

/// Scenario: a collector's metrics, with labels that hold brackets and quotes. Guarantee: each
/// figure is found under its labels; counters are never negative.
#[test]
fn a_collectors_metrics_are_read() {
    let sample = parse_sample(TEXT).unwrap();
    assert_eq!((sample.received["logs"], sample.received["traces"]), (7, 100));
    assert_eq!(sample.refused[&("traces".to_owned(), "too } \" long".to_owned())], 1);
    assert_eq!(sample.dead_lettered[&("traces".to_owned(), "malformed".to_owned())], 2);
    assert_eq!((sample.lost["otlp_traces"], sample.held["traces"]), (40, 0));
    let partition = ("otlp_traces".to_owned(), 4);
    assert_eq!((sample.lag_messages[&partition], sample.lag_seconds[&partition]), (12, 1.5));
    assert_eq!((sample.inserts, sample.cpu_seconds), (5, 12.25));
    assert_eq!((sample.started_at, sample.budget_bytes), (Some(1_790_000_000), Some(1_048_576)));
    assert_eq!(sample.version.as_deref(), Some("0.1.0"));
}

/// Scenario: answers that aren't metrics, or not a collector's. Guarantee: each is refused, with
/// the line.
#[test]
fn what_is_not_a_collectors_is_refused() {
    assert_eq!(parse_sample(""), Err(TextError::Foreign));
    assert_eq!(parse_sample("up 1\n"), Err(TextError::Foreign));
    for (text, line) in [("<html>", 1), ("up 1\nx{", 2), ("x{a=\"}\"} y", 1), ("{} 1", 1)] {
        assert_eq!(parse_sample(text), Err(TextError::Line { line }), "{text}");
    }
    assert_eq!(parse_sample(&"up 1\n".repeat(50_001)), Err(TextError::TooMany));
}

proptest! {
    /// Scenario: any text. Guarantee: a result or an error, never a panic.
    #[test]
    fn any_text_is_read_or_refused(text in "(\\PC|[{}\"\\\\\n =]){0,200}") {
        let _ = parse_sample(&text);
        let _ = parse_sample(&format!("{TEXT}{text}"));
    }
}
